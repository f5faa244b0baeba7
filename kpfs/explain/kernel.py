# SPDX-License-Identifier: GPL-2.0-or-later
"""A real kernel that was made (``kpfs kernel``): its text and tables in memory.

Kernel: struct jump_entry, static_call_site, exception_table_entry, bug_entry,
dyn_ftrace, ftrace_page; each has had this form since 5.10.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left
from collections.abc import Iterator

from kpfs.engine.arch.arches import JUDGES
from kpfs.engine.ktypes import KAddr
from kpfs.explain.tables import KernelTables, read_blacklist_line
from kpfs.linux.kernel.kernel import LinuxKernel
from kpfs.linux.store import image

ARCH = "x86"
BLACKLIST = "/sys/kernel/debug/kprobes/blacklist"
_RELATIVE = struct.Struct("<i")  # to where it stands itself
_JUMP_ENTRY = struct.Struct("<iiq")
_INIT = 2  # of a jump label's key: it is in init text
_STATIC_CALL_SITE = struct.Struct("<ii")
_EXCEPTION = struct.Struct("<iii")
_BUG, _BUG_VERBOSE = struct.Struct("<ihxx"), struct.Struct("<iiHH")
_FTRACE_PAGE = struct.Struct("<QQii")  # next, records, their number, order
_DYN_FTRACE = struct.Struct("<QQ")


class KernelImage(KernelTables):
    """The tables of a kernel; nothing was probed in it yet."""

    def __init__(self, kernel: LinuxKernel) -> None:
        self.kallsyms = kernel.symbols
        self.text = self.log = self
        self._memory = kernel.saved_memory
        symbols = kernel.symbols
        self._text, self._etext = symbols.address("_text"), symbols.address("_etext")
        with open(os.path.join(kernel.folder, image.CONFIG), encoding="utf-8") as file:
            config = file.read()
        verbose = not config or "CONFIG_DEBUG_BUGVERBOSE=y\n" in config
        self._exceptions = sorted(self._table("ex_table", _EXCEPTION))
        self._jump_labels = sorted(self._labels())
        self._static_calls = sorted(self._table("static_call_sites", _STATIC_CALL_SITE))
        bug = _BUG_VERBOSE if verbose else _BUG
        self._bugs = frozenset(self._table("bug_table", bug))
        self._sites = sorted(self._ftrace_sites())
        with kernel.lock:
            lines = kernel.read_file(BLACKLIST).decode().splitlines()
        self._blacklist = [read_blacklist_line(line) for line in lines]
        self.judge = JUDGES[ARCH](self)
        self.judge.follow(kernel.meta.release, config)

    def read(self, addr: int, size: int) -> bytes:
        return self._memory.read(addr, size)

    def _section(self, name: str) -> tuple[int, bytes]:
        """A section between __start_NAME and __stop_NAME: its address and bytes."""
        start = self.kallsyms.address(f"__start_{name}")
        start = start or self.kallsyms.address(f"__start___{name}")
        end = self.kallsyms.address(f"__stop_{name}")
        end = end or self.kallsyms.address(f"__stop___{name}")
        return start, self.read(start, end - start)

    def _table(self, name: str, row: struct.Struct) -> Iterator[int]:
        """The addresses that the rows of a table begin with."""
        start, raw = self._section(name)
        for at in range(0, len(raw) - row.size + 1, row.size):
            yield start + at + _RELATIVE.unpack_from(raw, at)[0]

    def _labels(self) -> Iterator[int]:
        start, raw = self._section("jump_table")
        for number, (code, _, key) in enumerate(_JUMP_ENTRY.iter_unpack(raw)):
            if not key & _INIT:
                yield start + number * _JUMP_ENTRY.size + code

    def _ftrace_sites(self) -> Iterator[int]:
        page = self._memory.word(self.kallsyms.address("ftrace_pages_start"))
        while page:
            head = self.read(page, _FTRACE_PAGE.size)
            page, records, count, _ = _FTRACE_PAGE.unpack(head)
            raw = self.read(records, count * _DYN_FTRACE.size)
            for site, _ in _DYN_FTRACE.iter_unpack(raw):
                yield site

    # ---- what the checks ask besides
    def ftrace_location(self, start: int, end: int) -> KAddr | None:
        """The first ftrace site in [start, end]."""
        i = bisect_left(self._sites, start)
        found = i < len(self._sites) and self._sites[i] <= end
        return KAddr(self._sites[i]) if found else None

    def is_bug_site(self, addr: int) -> bool:
        return addr in self._bugs
