# SPDX-License-Identifier: GPL-2.0-or-later
"""A function of another architecture, and what judges and listings say of it."""

from types import SimpleNamespace

import pytest

from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KAddr, Symbol
from kpfs.engine.arch.arches import JUDGES


class Tables:
    """A kernel with one function, given in hex; site: of ftrace's calls in it."""

    def __init__(self, arch, at, code, site=0, fixup=0):
        self.at, self.code = at, bytes.fromhex(code)
        symbol = Symbol("f", KAddr(at), len(self.code), "T")
        self.kallsyms = SimpleNamespace(
            generation=0, lookup_name=lambda _name: [], symbol_at=lambda _at: symbol
        )
        self.text = SimpleNamespace(
            ftrace_location=lambda start, end: site if start <= site <= end else None,
            has_exception_entry=lambda start, end: start <= fixup < end,
        )
        self.judge = JUDGES[arch](self)

    def read(self, addr, size):
        return self.code[addr - self.at : addr - self.at + size]

    def accept(self, offset):
        self.judge.check_instruction(self.at + offset)

    def refused(self, offset=0):
        """Return why no probe may stand there."""
        with pytest.raises(KernelError) as raised:
            self.accept(offset)
        return raised.value.why

    def way(self):
        """Return how the first instruction is made beside a probe."""
        self.accept(0)
        return self.judge.check_jump(self.at).why_not

    def listing(self, first, size):
        rows = self.judge.listing(self.at + first, size, hex)
        return [(at - self.at, words) for at, _, words in rows]


def compared(listing, at, live, saved):
    """Return the listing of code that was `saved` when nobody had patched it."""
    return list(listing(bytes.fromhex(live), bytes.fromhex(saved), at, "f{:x}".format))
