# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables of a kernel that checks of probe points need, from any source."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from kpfs.base.errors import MemoryFault
from kpfs.base.ktypes import BlacklistEntry, KAddr
from kpfs.engine.judge import Judge

JUMP_LABEL_MAX = 5
STATIC_CALL_SIZE = 5


class KernelTables:
    """The tables of a kernel without modules.

    A derived class adds kallsyms, read(), ftrace_location() and is_bug_site(): see
    kpfs.engine.judge.Tables. Context: none, it never runs.
    """

    judge: Judge
    _blacklist: Sequence[BlacklistEntry] = ()
    # addresses, sorted
    _exceptions: Sequence[int] = ()
    _jump_labels: Sequence[int] = ()
    _static_calls: Sequence[int] = ()
    _text = _etext = 0  # begin and end of its text

    def read(self, addr: int, size: int) -> bytes:
        """Return bytes of the text; raises MemoryFault."""
        raise NotImplementedError

    def is_text(self, addr: int) -> bool:
        """Return True between _text and _etext; init text is freed after boot."""
        return self._text <= addr < self._etext

    def in_init_text(self, addr: int) -> bool:
        """Return False: this is about modules, and there are none."""
        return False

    def module_of(self, addr: int) -> str:
        """Return no name: there are no modules."""
        return ""

    def printk(self, level: int, text: str) -> None:
        """Ignore a message: there is no log."""

    def blacklist(self) -> Sequence[BlacklistEntry]:
        return self._blacklist

    def has_exception_entry(self, start: int, end: int) -> bool:
        return bool(within(self._exceptions, start, end - 1))

    def text_reserved(self, start: int, end: int) -> bool:
        """Return True if [start, end] meets a jump label or static call."""
        if within(self._static_calls, start - STATIC_CALL_SIZE + 1, end):
            return True
        return any(
            addr + self._jump_label_size(addr) > start
            for addr in within(self._jump_labels, start - JUMP_LABEL_MAX + 1, end)
        )

    def _jump_label_size(self, addr: int) -> int:
        try:
            return self.judge.jump_label_size(self.read(addr, 2))
        except MemoryFault:
            return self.judge.jump_label_size(b"")


def within(addrs: Sequence[int], first: int, last: int) -> Sequence[int]:
    """Return those of some sorted addresses that are in [first, last]."""
    return addrs[bisect_left(addrs, first) : bisect_right(addrs, last)]


def read_blacklist_line(line: str) -> BlacklistEntry:
    """Parse a line of kprobes/blacklist."""
    span, name = line.rstrip("\n").split("\t")
    start, end = (KAddr(int(a, 16)) for a in span.split("-"))
    return BlacklistEntry(start, end, name)
