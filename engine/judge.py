# SPDX-License-Identifier: GPL-2.0-or-later
"""Judge a probe point without a probe or a running machine.

A judge needs bytes and tables alone, so that a dump of a kernel will do.  It shares its
checks with Arch.  It is made as Class(tables), by the table JUDGES of
engine/arch/arches.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kpfs.base.ktypes import KAddr, Symbol
from kpfs.base.typed import NamedTuple, Protocol

SITE = 16  # bytes from a function's begin in which its ftrace site is


class Symbols(Protocol):
    """The part of kpfs.engine.machine.Kallsyms that a judge reads."""

    generation: int  # changes with the symbols

    def lookup_name(self, name: str) -> Sequence[Symbol]: ...
    def symbol_at(self, addr: int) -> Symbol | None: ...


class TextTables(Protocol):
    """The part of kpfs.engine.machine.KernelText that a judge reads."""

    def ftrace_location(self, start: int, end: int) -> KAddr | None: ...
    def text_reserved(self, start: int, end: int) -> bool: ...
    def has_exception_entry(self, start: int, end: int) -> bool: ...


class Tables(Protocol):
    """The part of kpfs.engine.machine.Machine that a judge reads."""

    @property
    def kallsyms(self) -> Symbols: ...
    @property
    def text(self) -> TextTables: ...
    def read(self, addr: int, size: int) -> bytes: ...


def place_of(symbols: Symbols, addr: int) -> str:
    """Return an address as SYMBOL+OFFSET, without an offset of 0."""
    symbol = symbols.symbol_at(addr)
    if symbol is None:
        return f"{addr:#x}"
    offset = addr - symbol.addr
    return f"{symbol.name}+{offset:#x}" if offset else symbol.name


def symbol_range(tables: Tables, first: str, last: str) -> tuple[int, int]:
    """Return the addresses of a pair of marker symbols; (0, 0) if there are none."""
    start = tables.kallsyms.lookup_name(first)
    end = tables.kallsyms.lookup_name(last)
    return (start[0].addr, end[0].addr) if start and end else (0, 0)


def kprobes_text(tables: Tables) -> tuple[int, int]:
    """Return [start, end) of the section of __kprobes functions."""
    return symbol_range(tables, "__kprobes_text_start", "__kprobes_text_end")


class Jump(NamedTuple):
    """The verdict on whether a probe can become a jump."""

    size: int  # bytes of the whole instructions that it covers
    why_not: str = ""  # "": it can
    culprit: int = 0  # address of the instruction to blame; 0: none in particular
    most: int = 0  # probes that can be jumps at once; 0: any number


class Judge(Protocol):
    """Judges probe points; raises MemoryFault where it lacks the bytes to decide."""

    kprobes_on_ftrace: bool  # False: probes at ftrace sites are not calls
    behind_entry: str  # where probes at entries go, if that is elsewhere

    def follow(self, release: str, config: str) -> None:
        """Judge as a release, built with config, would; before that as 6.1 does."""

    def arch_adjust_kprobe_addr(self, addr: KAddr, offset: int) -> tuple[KAddr, bool]:
        """Do what Arch's method of this name does."""

    def kprobe_lookup_name(self, addr: KAddr, offset: int) -> KAddr:
        """Return where a probe by name counts its offset from, by the symbol's."""

    def arch_within_kprobe_blacklist(self, addr: KAddr) -> bool:
        """Do what Arch's method of this name does."""

    def check_instruction(self, addr: int) -> None:
        """Raise what Arch.arch_prepare_kprobe() raises for the instruction at addr."""

    def check_jump(self, addr: int) -> Jump:
        """Judge whether a probe at addr, alone in its function, can be optimised."""

    def listing(
        self, addr: int, size: int, name: Callable[[int], str]
    ) -> Sequence[tuple[int, bytes, str]]:
        """Return instructions that touch [addr, addr+size): address, bytes, words."""

    def jump_label_size(self, code: bytes) -> int:
        """Size of the jump label that starts with code, the largest if it is empty."""


class DumpJudge(Judge, Protocol):
    """A judge that reads off the bytes of a function what a dump has no table of."""

    def entry_sites(self, code: bytes, addr: int) -> list[int]:
        """Addresses of what look like ftrace sites."""

    def bug_sites(self, code: bytes, addr: int) -> list[int]:
        """Addresses of the traps of BUG and WARN."""


class StepJudge:
    """The part of a Judge that architectures have in common which know no jumps.

    Context: control.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._kprobes_text = kprobes_text(tables)
        self.kprobes_on_ftrace = False
        self.behind_entry = ""

    def follow(self, release: str, config: str) -> None:
        self.kprobes_on_ftrace = "CONFIG_KPROBES_ON_FTRACE=y\n" in config

    def arch_adjust_kprobe_addr(self, addr: KAddr, offset: int) -> tuple[KAddr, bool]:
        return KAddr(addr + offset), not offset

    def kprobe_lookup_name(self, addr: KAddr, offset: int) -> KAddr:
        return addr

    def arch_within_kprobe_blacklist(self, addr: KAddr) -> bool:
        """Return True if addr is in the section of __kprobes functions."""
        start, end = self._kprobes_text
        return start <= addr < end
