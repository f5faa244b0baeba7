# SPDX-License-Identifier: GPL-2.0-or-later
"""Python's side of what is done to a run: see hold.c."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kpfs.base import abi, mapping
from kpfs.base.structures import fields
from kpfs.linux.board.board import Board, address_of

if TYPE_CHECKING:
    from kpfs.linux.search.plan import Order, RunPlan


_H = abi.Holds
_INTERRUPTS = 2 * abi.MAX_CPUS  # contexts up to here: see running_context()
_TOUCH_WORDS = abi.Touch.SIZE >> 3


class PartyRow(ctypes.Structure):
    """struct party."""

    _fields_ = fields(abi.Party)


class _Touch(NamedTuple):
    """struct touch."""

    at: int
    word: int
    context: int
    flags: int


class TrailRow(ctypes.Structure):
    """struct trail."""

    _fields_ = fields(abi.Trail)


class Trail(NamedTuple):
    """The way of one task."""

    steps: Sequence[int]  # instructions that it has come to, by address
    calls: dict[int, int]  # where those of them go that call what a register points to


class HeldAccess(NamedTuple):
    """An access before which a processor waits: struct hold."""

    cpu: int
    at: int  # the instruction
    addr: int  # where the accessed bytes begin
    bytes: int  # 0: it accesses nothing that others see
    flags: int  # abi.INSN_*
    end: int  # when the wait is over, ns of the kernel's clock
    until: int  # see Order
    party: PartyRow


class HoldCounts(NamedTuple):
    """Counts of a run: what was done to it, and what there was to do."""

    accesses: int  # before which it could wait
    calls: int  # that could fail
    held: int
    torn: int
    timers: int
    digest: int


class Holds:
    """The waits and failed calls of the runs on one board."""

    def __init__(self, board: Board) -> None:
        self.orders: list[Order] = []  # as the board has them
        # private: a run and a debugger's way back are forks, each with its own
        self._memory = mapping.make(_H.SIZE)
        self._words = memoryview(self._memory).cast("Q")
        board.set(holds=address_of(self._memory))

    def apply(self, plan: RunPlan) -> None:
        """Do to this run what a plan says."""
        orders = self.orders = sorted(plan.orders, key=_for_all_first)[: abi.NR_ORDERS]
        faults = plan.faults[: abi.NR_FAULTS]
        self._put(_H.each_ns, plan.each_ns)
        self._put(_H.nr_faults, len(faults))
        self._put(_H.faults, *faults)
        self._put(_H.nr_orders, len(orders))
        for number, order in enumerate(orders):
            self._put(_H.orders + number * abi.Order.SIZE, *order)

    def hold_each(self, ns: int) -> None:
        """Have each access wait for so long from now on."""
        self._put(_H.each_ns, ns)

    def waiting(self, number: int) -> PartyRow:
        """Return the task that waited when a finding was made, by its number."""
        at = _H.parties + number * abi.Party.SIZE
        return PartyRow.from_buffer_copy(self._memory, at)

    def is_past(self, number: int) -> bool:
        """Return True if the run has come by the order of this number."""
        order = self.orders[number]
        if not order.at:
            return number < self._words[_H.next_order >> 3]
        return self._words[(_H.seen >> 3) + number] >= order.number

    def held(self) -> Iterator[HeldAccess]:
        """Yield the accesses before which processors wait now."""
        for number in range(abi.MAX_CPUS * abi.NR_LEVELS):
            begin = _H.hold + number * abi.Hold.SIZE
            row = abi.Hold.STRUCT.unpack_from(self._memory, begin)
            at, _, addr, phys, size, flags, _, end, until = row[:9]
            if at:
                party = PartyRow.from_buffer_copy(self._memory, begin + abi.Hold.party)
                size = 0 if phys == abi.NEVER else size
                cpu = number // abi.NR_LEVELS
                yield HeldAccess(cpu, at, addr, size, flags, end, until, party)

    def _put(self, at: int, *values: int) -> None:
        for number, value in enumerate(values):
            self._words[(at >> 3) + number] = value

    def note_touches(self) -> None:
        """Note who accesses what from now on, for shared()."""
        self._put(_H.touching, 1)

    def _touches(self) -> Iterator[_Touch]:
        if not self._words[_H.touching >> 3]:
            return
        begin = _H.touches >> 3
        words = self._words[begin : begin + abi.NR_TOUCHES * _TOUCH_WORDS].tolist()
        for at in range(0, len(words), _TOUCH_WORDS):
            if words[at]:
                yield _Touch(*words[at : at + _TOUCH_WORDS])

    def in_interrupts(self) -> list[int]:
        """Return instructions that access memory in interrupts, soft ones too."""
        return sorted({t.at for t in self._touches() if t.context <= _INTERRUPTS})

    def shared(self) -> list[int]:
        """Return instructions whose bytes others access, too, if one of them writes."""
        by_word: dict[int, list[_Touch]] = {}
        for touch in self._touches():
            by_word.setdefault(touch.word, []).append(touch)
        found = {
            one.at
            for touches in by_word.values()
            for one in touches
            for other in touches
            if one.context != other.context and _conflict(one.flags, other.flags)
        }
        return sorted(found)

    def trails(self, at: int) -> list[Trail]:
        """Return the ways that tasks have gone behind a load that has raced."""
        found = []
        for number in range(self._words[_H.nr_trails >> 3]):
            begin = _H.trails + number * abi.Trail.SIZE
            row = TrailRow.from_buffer_copy(self._memory, begin)
            if row.at == at:
                steps, targets = row.steps[: row.count], row.targets[: row.count]
                calls = {at: to for at, to in zip(steps, targets, strict=True) if to}
                found.append(Trail(steps, calls))
        return found

    def done(self) -> HoldCounts:
        """Return what was done so far."""
        places = (getattr(_H, name) >> 3 for name in HoldCounts._fields)
        return HoldCounts(*(self._words[place] for place in places))


def _conflict(one: int, other: int) -> bool:
    """Return True if two accesses of the same bytes go against each other."""
    locked = one & other & abi.INSN_LOCKED
    return bool((one | other) & abi.INSN_WRITES) and not locked


def _for_all_first(order: Order) -> tuple[bool, int]:
    return order.at != 0, order.number
