# SPDX-License-Identifier: GPL-2.0-or-later
"""One function in otherwise empty text, for x86's checks."""

from kpfs.base.errors import MemoryFault
from kpfs.base.ktypes import KAddr, Symbol
from kpfs.engine.arch.x86.checks.probe import KernelView

F = 0xFFFF_FFFF_8100_0100  # the function under test
THUNKS = 0xFFFF_FFFF_8180_0000
ENTRY = 0xFFFF_FFFF_8170_0000


class Tables:
    """One function at F in otherwise empty text."""

    def __init__(self, code, *, reserved=(), exceptions=(), ftrace=()):
        self.kallsyms = self.text = self
        self.bytes = bytes.fromhex(code)
        self.size = len(self.bytes)
        self.reserved = reserved
        self.exceptions = exceptions
        self.generation = 0
        self.ftrace = [F + offset for offset in ftrace]
        self.markers = {
            "__indirect_thunk_start": THUNKS,
            "__indirect_thunk_end": THUNKS + 0x100,
            "__entry_text_start": ENTRY,
            "__entry_text_end": ENTRY + 0x100,
        }

    def lookup_name(self, name):
        if name in self.markers:
            return [Symbol(name, KAddr(self.markers[name]), 0, "T")]
        return []

    def symbol_at(self, addr):
        if F <= addr < F + self.size:
            return Symbol("f", KAddr(F), self.size, "t")
        return None

    def ftrace_location(self, start, end):
        return next((s for s in self.ftrace if start <= s <= end), None)

    def text_reserved(self, start, end):
        return any(
            F + at <= end and F + at + size > start for at, size in self.reserved
        )

    def has_exception_entry(self, start, end):
        return any(start <= F + at < end for at in self.exceptions)

    def read(self, addr, size):
        if not F <= addr < F + self.size:
            raise MemoryFault(addr)
        return self.bytes[addr - F : addr - F + size]


def text(code, **kwargs):
    return KernelView(Tables(code, **kwargs))


PLAIN = "55 4889e5 4883ec10 31c0 c9 c3 cccc"  # 1 3 4 2 1 1, int3 int3
