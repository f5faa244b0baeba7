# SPDX-License-Identifier: GPL-2.0-or-later
"""What the checks of probe points ask of a kernel's tables, whatever they come from."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from kpfs.base.errors import MemoryFault
from kpfs.base.ktypes import BlacklistEntry, KAddr
from kpfs.engine.judge import Judge

JUMP_LABEL_MAX = 5
STATIC_CALL_SIZE = 5


class KernelTables:
    """The tables of a kernel proper, without modules.

    Whoever derives from it has kallsyms, read(), ftrace_location() and is_bug_site()
    besides: see kpfs.engine.judge.Tables.  Context: none, it never runs.
    """

    judge: Judge
    _blacklist: Sequence[BlacklistEntry] = ()
    # addresses, sorted
    _exceptions: Sequence[int] = ()
    _jump_labels: Sequence[int] = ()
    _static_calls: Sequence[int] = ()
    _text = _etext = 0  # where its text begins and ends

    def read(self, addr: int, size: int) -> bytes:
        """Bytes of the text; raises MemoryFault."""
        raise NotImplementedError

    def is_text(self, addr: int) -> bool:
        """Between _text and _etext: init text is freed when a kernel is up."""
        return self._text <= addr < self._etext

    def in_init_text(self, addr: int) -> bool:
        """False: there are no modules, whose init text this is about."""
        return False

    def module_of(self, addr: int) -> str:
        """None: all is the kernel proper."""
        return ""

    def printk(self, level: int, text: str) -> None:
        """There is no log."""

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
    """Those from first to last."""
    return addrs[bisect_left(addrs, first) : bisect_right(addrs, last)]


def read_blacklist_line(line: str) -> BlacklistEntry:
    """A line of kprobes/blacklist."""
    span, name = line.split()[:2]
    start, end = (KAddr(int(a, 16)) for a in span.split("-"))
    return BlacklistEntry(start, end, name)
