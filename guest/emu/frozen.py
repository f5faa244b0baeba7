# SPDX-License-Identifier: GPL-2.0-or-later
"""Copy a machine that stands still, its memory and its CPUs, to go back to it.

Only pages that the host has given memory to are copied, and only those that have
changed since are written again.  Context: control.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kpfs.base import pagemap
from kpfs.base.units import PAGE_SIZE
from kpfs.guest.emu.cpu import Cpu, CpuState
from kpfs.guest.emu.memory import Memory

PIECE = 4 * PAGE_SIZE  # compared at once
MAX_DROPPED = 256  # pages; of more of them all translated code is dropped at once

Run = tuple[int, int]  # begin and end of adjacent pages in physical memory


class FrozenMachine(NamedTuple):
    """A copy of a machine."""

    runs: list[Run]
    pieces: list[tuple[int, bytes]]  # by physical address
    cpu: CpuState


def freeze(memory: Memory, cpu: Cpu) -> FrozenMachine:
    """Copy memory and CPUs, as they stand between two runs."""
    runs = list(_populated(memory, memory.used_ranges()))
    return FrozenMachine(runs, list(_copied(memory, runs)), cpu.state())


def copied(memory: Memory) -> Iterator[tuple[int, bytes]]:
    """Yield the written pieces of memory with their physical addresses."""
    return _copied(memory, _populated(memory, memory.used_ranges()))


def thaw(frozen: FrozenMachine, memory: Memory, cpu: Cpu) -> None:
    """Restore memory and CPUs as they were.

    Python's own objects about them are to be put back by the caller.
    """
    ram = memory.ram
    changed = [
        (at, data) for at, data in frozen.pieces if ram[at : at + len(data)] != data
    ]
    now = _populated(memory, memory.used_ranges())
    new = list(_without(now, frozen.runs))
    stale = [(at, at + len(data)) for at, data in changed] + new
    _drop_code(memory, cpu, stale)
    for start, end in new:
        memory.forget(start, end - start)
    for at, data in changed:
        ram[at : at + len(data)] = data
    cpu.set_state(frozen.cpu)


def _populated(memory: Memory, ranges: Iterable[Run]) -> Iterator[Run]:
    """Return the pages of ranges that have memory; all where Linux does not tell."""
    base = memory.host_address()
    for start, end in ranges:
        try:
            for first, behind in pagemap.runs(
                base + start, end - start, pagemap.POPULATED
            ):
                yield start + first * PAGE_SIZE, start + behind * PAGE_SIZE
        except OSError:
            yield start, end


def _copied(memory: Memory, runs: Iterable[Run]) -> Iterator[tuple[int, bytes]]:
    for run in runs:
        for at, end in _cut(run):
            yield at, memory.ram[at:end]


def _cut(run: Run) -> Iterator[Run]:
    start, end = run
    for at in range(start, end, PIECE):
        yield at, min(at + PIECE, end)


def _without(runs: Iterable[Run], others: Iterable[Run]) -> Iterator[Run]:
    """Return the parts of runs that lie in none of the others; both are in order."""
    rest = iter(others)
    other = next(rest, None)
    for start, end in runs:
        while other is not None and other[1] <= start:
            other = next(rest, None)
        while other is not None and other[0] < end:
            if start < other[0]:
                yield start, other[0]
            start = other[1]
            if start >= end:
                break
            other = next(rest, None)
        if start < end:
            yield start, end


def _drop_code(memory: Memory, cpu: Cpu, stale: Iterable[Run]) -> None:
    """Forget the translated code of pages that are about to change."""
    pages = [
        addr
        for start, end in stale
        for at in range(start, end, PAGE_SIZE)
        if (addr := memory.code_address(at))
    ]
    if len(pages) > MAX_DROPPED:
        cpu.drop_all()
        return
    for addr in pages:
        cpu.drop(addr, PAGE_SIZE)
