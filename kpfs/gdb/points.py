# SPDX-License-Identifier: GPL-2.0-or-later
"""Breakpoints and watchpoints that gdb has set.  Context: the kernel is stopped."""

from __future__ import annotations

import contextlib
import re
from typing import NamedTuple

from kpfs.base.errors import MemoryFault
from kpfs.base.units import PAGE_SIZE
from kpfs.emulator.stops import Stop, StopReason, Stops
from kpfs.gdb.agent import evaluate
from kpfs.gdb.debugged import Debugged
from kpfs.gdb.description import TARGETS
from kpfs.gdb.packets import BAD, OK, REFUSED, UNKNOWN, bytes_of, number_of

_CONDITION = re.compile(rb"X[0-9a-f]+,([0-9a-f]+)")  # condition of a breakpoint
MAX_BREAKPOINTS = 4096
MAX_WATCHED = 1 << 16  # bytes of one watchpoint
# of watchpoints: whether they are of reads, and of writes; what stop replies call them
_KINDS = {
    2: (False, True, b"watch"),
    3: (True, False, b"rwatch"),
    4: (True, True, b"awatch"),
}


class _Watchpoint(NamedTuple):
    """A watchpoint, by virtual addresses."""

    kind: int
    address: int
    size: int


class Piece(NamedTuple):
    """The part of a watchpoint in one page."""

    watch: _Watchpoint
    address: int
    size: int
    physical: int


class WantedPoints(NamedTuple):
    """All that is set, for a visit of the past."""

    breakpoints: dict[int, list[bytes]]  # conditions by address
    pieces: dict[int, Piece]


class Points:
    """Points that one connection has set."""

    def __init__(self, debugged: Debugged) -> None:
        self._debugged, target = debugged, TARGETS[debugged.arch]
        self._registers, self._order = list(target.registers), target.model.order
        self._breakpoints: dict[int, list[bytes]] = {}  # conditions by address
        self._pieces: dict[int, Piece] = {}  # watchpoints' pieces, by numbers in stops
        self._numbers = 0  # number of pieces so far

    @property
    def _stops(self) -> Stops:
        return self._debugged.stops

    # ---- packets
    def insert(self, text: bytes) -> bytes:
        """Answer Z."""
        kind, address, size = _place(text)
        if kind in (0, 1):
            conditions = [bytes_of(code) for code in _CONDITION.findall(text)]
            if address not in self._breakpoints:
                if len(self._breakpoints) >= MAX_BREAKPOINTS:
                    return REFUSED
                self._stops.insert(address)
            self._breakpoints[address] = conditions
            return OK
        if kind not in _KINDS:
            return UNKNOWN
        watch = _Watchpoint(kind, address, size)
        if not 0 < size <= MAX_WATCHED:
            return BAD
        if all(piece.watch != watch for piece in self._pieces.values()):
            self._watch(watch)
        return OK

    def remove(self, text: bytes) -> bytes:
        """Answer z."""
        kind, address, size = _place(text)
        if kind in (0, 1):
            if address in self._breakpoints:
                del self._breakpoints[address]
                self._stops.remove(address)
            return OK
        watch = _Watchpoint(kind, address, size)
        for number in [n for n, each in self._pieces.items() if each.watch == watch]:
            del self._pieces[number]
            self._stops.unwatch(number)
        return OK if kind in _KINDS else UNKNOWN

    def _watch(self, watch: _Watchpoint) -> None:
        """Watch the physical addresses of a watchpoint; MemoryFault."""
        pieces: list[Piece] = []
        at = watch.address
        while at < watch.address + watch.size:
            size = min(watch.address + watch.size - at, PAGE_SIZE - at % PAGE_SIZE)
            pieces.append(Piece(watch, at, size, self._debugged.physical(at)))
            at += size
        for piece in pieces:
            self._numbers += 1
            self._watch_piece(self._numbers, piece)
            self._pieces[self._numbers] = piece

    def _watch_piece(self, number: int, piece: Piece) -> None:
        reads, writes, _ = _KINDS[piece.watch.kind]
        first, last = piece.physical, piece.physical + piece.size - 1
        self._stops.watch(number, first, last, reads=reads, writes=writes)

    # ---- stops
    def holds(self, address: int) -> bool:
        """Return True if a breakpoint has no condition, or one that is true.

        As gdb has it, a condition that cannot be evaluated is one.
        """
        conditions = self._breakpoints.get(address)
        if not conditions:
            return True
        debugged, registers = self._debugged, self._registers

        def register(number: int) -> int:
            return debugged.register(registers[number].name)

        try:
            return any(
                evaluate(code, register, debugged.read, self._order)
                for code in conditions
            )
        except (MemoryFault, ValueError, LookupError, ZeroDivisionError):
            return True

    def accessed(self, stop: Stop) -> bytes:
        """Return what a stop reply says of the watchpoint that has stopped; or b""."""
        piece = self._pieces.get(stop.watch)
        if stop.why is not StopReason.ACCESS or piece is None:
            return b""
        at = max(stop.accessed - piece.physical, 0) + piece.address
        return b"%s:%x;" % (_KINDS[piece.watch.kind][2], at)

    # ---- other machines
    def wanted(self) -> WantedPoints:
        return WantedPoints(dict(self._breakpoints), dict(self._pieces))

    def adopt(self, wanted: WantedPoints) -> None:
        """Set all that another one has set.  Context: nothing is set in the engine."""
        self._breakpoints, self._pieces = wanted
        for address in self._breakpoints:
            self._stops.insert(address)
        for number, piece in self._pieces.items():
            self._watch_piece(number, piece)

    def set_anew(self) -> None:
        """Set all in a machine that has taken over."""
        self._stops.clear()  # it may be the same one in another state
        for address in self._breakpoints:
            self._stops.insert(address)
        watches = list(dict.fromkeys(piece.watch for piece in self._pieces.values()))
        self._pieces = {}
        for watch in watches:
            with contextlib.suppress(MemoryFault):  # it is not there any more
                self._watch(watch)

    def release(self) -> None:
        """Take away all."""
        self._breakpoints, self._pieces = {}, {}
        self._stops.clear()


def _place(text: bytes) -> tuple[int, int, int]:
    """Return kind, address and size of a Z packet; ValueError."""
    kind, address, size = text.partition(b";")[0].split(b",")
    found = number_of(kind), number_of(address), number_of(size)
    if found[1] >> 64:
        raise ValueError(address)
    return found
