# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables that an image has of its text: blacklist, fentry sites, fix-ups.

Context: control.  The tables are read from the file, as the guest never changes them.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence

from kpfs.base import abi
from kpfs.base.elf import ElfFile
from kpfs.base.ktypes import BlacklistEntry, KAddr, Symbol

_ADDRESS = struct.Struct("<Q")
_SITE_SIZE = 5
# the ranges that no probe may be in, in the order the kernel adds them
_BLACKLIST_RANGES = (
    ("__kprobes_text_start", "__kprobes_text_end"),
    ("__noinstr_text_start", "__noinstr_text_end"),
    ("__entry_text_start", "__entry_text_end"),
)


class SectionTables:
    """The sorted tables of the kernel; modules add theirs."""

    def __init__(self) -> None:
        self.ftrace_sites: list[int] = []
        self.exceptions: list[int] = []  # instructions with a fix-up
        self.bugs: set[int] = set()
        self.reserved: list[int] = []  # 5-byte sites that are patched at run time
        self.nokprobe: list[int] = []  # functions, in the section's order
        self._blacklist: list[BlacklistEntry] | None = None  # None: not asked for yet

    def add(self, image: ElfFile, base: Callable[[str], int | None]) -> None:
        """Take in the tables of an image; base gives a section's address."""
        for value in self._addresses(image, "__mcount_loc"):
            insort(self.ftrace_sites, value)
        self.nokprobe += self._addresses(image, "_kprobe_blacklist")
        exceptions, bugs = abi.ExceptionTableEntry.STRUCT, abi.BugEntry.STRUCT
        jumps, calls = abi.JumpEntry.STRUCT, abi.StaticCallSite.STRUCT
        self.exceptions += _relative(image, "__ex_table", exceptions, base)
        self.bugs.update(_relative(image, "__bug_table", bugs, base))
        self.reserved += _relative(image, "__jump_table", jumps, base)
        self.reserved += _relative(image, ".static_call_sites", calls, base)
        self.exceptions.sort()
        self.reserved.sort()

    @staticmethod
    def _addresses(image: ElfFile, name: str) -> list[int]:
        section = image.section(name)
        if section is None:
            return []
        return [value for (value,) in _ADDRESS.iter_unpack(image.contents(section))]

    def drop_range(self, start: int, end: int) -> None:
        """Forget the entries for [start, end), which is given back."""
        for rows in (self.ftrace_sites, self.exceptions, self.reserved, self.nokprobe):
            rows[:] = [addr for addr in rows if not start <= addr < end]
        self.bugs = {addr for addr in self.bugs if not start <= addr < end}
        self._blacklist = None

    # ---- questions
    def ftrace_location(self, start: int, end: int) -> KAddr | None:
        """Kernel: ftrace_location_range()."""
        index = bisect_left(self.ftrace_sites, start)
        if index < len(self.ftrace_sites) and self.ftrace_sites[index] <= end:
            return KAddr(self.ftrace_sites[index])
        return None

    def text_reserved(self, start: int, end: int) -> bool:
        """Kernel: jump_label_text_reserved(), static_call_text_reserved()."""
        index = bisect_right(self.reserved, start - _SITE_SIZE)
        return index < len(self.reserved) and self.reserved[index] <= end

    def has_exception_entry(self, start: int, end: int) -> bool:
        index = bisect_left(self.exceptions, start)
        return index < len(self.exceptions) and self.exceptions[index] < end

    def blacklist(
        self,
        symbol_at: Callable[[int], Symbol | None],
        address_of: Callable[[str], int | None],
    ) -> Sequence[BlacklistEntry]:
        """Kernel: populate_kprobe_blacklist()."""
        if self._blacklist is not None:
            return self._blacklist
        result: list[BlacklistEntry] = []
        for addr in self.nokprobe:
            self._add_ksym(result, addr, symbol_at)
        for first, last in _BLACKLIST_RANGES:
            start, end = address_of(first), address_of(last)
            at = start if start is not None and end is not None else 0
            while at and end and at < end:
                at += self._add_ksym(result, at, symbol_at) or 1
        self._blacklist = result
        return result

    @staticmethod
    def _add_ksym(
        result: list[BlacklistEntry],
        addr: int,
        symbol_at: Callable[[int], Symbol | None],
    ) -> int:
        """List the function at addr; return its size: kprobe_add_ksym_blacklist()."""
        sym = symbol_at(addr)
        if sym is None:
            return 0
        end = KAddr(addr + sym.size)
        name = f"{sym.name} [{sym.module}]" if sym.module else sym.name
        result.append(BlacklistEntry(KAddr(addr), end, name))
        return sym.size


def _relative(
    image: ElfFile,
    name: str,
    entry: struct.Struct,
    base: Callable[[str], int | None],
) -> list[int]:
    """Return the first field of each entry, which is relative to its own address."""
    section, addr = image.section(name), base(name)
    if section is None or addr is None:
        return []
    rows = entry.iter_unpack(image.contents(section))
    return [addr + n * entry.size + row[0] for n, row in enumerate(rows)]
