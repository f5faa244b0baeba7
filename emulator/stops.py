# SPDX-License-Identifier: GPL-2.0-or-later
"""Stop an engine exactly before an instruction, for a debugger.

No byte of the guest's memory changes: instructions and accesses are hooked.  While
there is nothing to stop at, the engine is as fast as without; with watched memory it
looks at each instruction and access.  The engine's count of blocks is as without stops.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from enum import Enum

from kpfs.base import abi
from kpfs.base.structures import fields
from kpfs.base.typed import NamedTuple
from kpfs.emulator import libunicorn
from kpfs.emulator.libunicorn import BlockCounter, EmulatorError

_HOOK_CODE, _HOOK_MEM_READ, _HOOK_MEM_WRITE = 1 << 2, 1 << 10, 1 << 11
_CTL_TB_FLUSH = 10 | 1 << 30
_MAX_ACCESS = 16  # bytes; a larger one is several
_NOWHERE = (1 << 64) - 1


class StopReason(Enum):
    """The reason for which an engine stops."""

    PLACE = abi.STOPPED_AT_PLACE
    STEP = abi.STOPPED_BY_STEP
    ACCESS = abi.STOPPED_BY_ACCESS
    TARGET = abi.STOPPED_AT_TARGET


class Moment(NamedTuple):
    """An instruction that is about to begin, in the order of time.

    Engines repeat a run exactly, and an instruction comes once in a block.
    """

    block: int  # number of the block, as the engine counts
    address: int


class Stop(NamedTuple):
    """The place where an engine has stopped, and the reason."""

    why: StopReason
    address: int  # the instruction that comes next
    watch: int = 0  # number of the watched memory
    accessed: int = 0  # physical address of the access
    block: int = 0  # that the instruction is in

    @property
    def moment(self) -> Moment:
        return Moment(self.block, self.address)


class _Stops(ctypes.Structure):
    """struct stops."""

    _fields_ = fields(abi.Stops)


class _Place(ctypes.Structure):
    """struct place."""

    _fields_ = fields(abi.Place)


class _Watch(ctypes.Structure):
    """struct watch."""

    _fields_ = fields(abi.Watch)


class Stops:
    """The places, accesses and steps at which one engine stops.

    ``on_stop`` is called in the thread that runs the guest, which goes on when it
    returns; ``on_begin`` before the engine runs, ``on_end`` behind it, whatever ended
    the run.  Context: control, or within one of these.
    """

    def __init__(
        self,
        engine: int,
        counter: int,
        arch: str,
        place: Callable[[], int],
        counts: Callable[[], bool] = lambda: True,
    ) -> None:
        """counter: address of the engine's struct block_counter.

        arch: as libunicorn's functions name it.  place: returns the address of the
        next instruction.  counts: whether blocks are counted, as moments need it.
        EmulatorError: nothing can be hooked.
        """
        self.place = place
        self.counts = counts
        self.again = False  # at the instruction where it stands, when it goes on
        self.on_stop: Callable[[Stop], None] = lambda _: None
        self.on_begin: Callable[[], None] = lambda: None
        self.on_end: Callable[[], None] = lambda: None
        self._engine = ctypes.c_void_p(engine)
        self._library, hooks = libunicorn.load()
        if hooks is None:
            raise EmulatorError("the library that stops libunicorn cannot be loaded")
        self._hooks = hooks
        leave = libunicorn.address(self._library, f"{libunicorn.EXIT_CHECK}{arch}")
        stop = libunicorn.address(self._library, "uc_emu_stop")
        self._stops = _Stops(stop.value, counter, leave.value, address=_NOWHERE)
        self._stops.target = _NOWHERE
        self._counter = BlockCounter.from_address(counter)
        self._trail = False
        self._places: dict[int, _Place] = {}  # with those that are removed
        # libunicorn calls an only hook in a way that cannot be left: so there are two
        hooks.blocks_share_code(self._engine)
        self._second = _Place(self.address, 0)
        self._hook(_HOOK_CODE, "stops_at_place", self._second, _NOWHERE, _NOWHERE)
        self._watches: dict[int, tuple[_Watch, ctypes.c_void_p]] = {}
        self._each: ctypes.c_void_p | None = None  # the hook of all instructions
        self._deleted = False  # libunicorn keeps hooks up to the end of a run

    @property
    def address(self) -> int:
        """Return the address of struct stops."""
        return ctypes.addressof(self._stops)

    # ---- what to stop at
    def insert(self, address: int) -> None:
        """Stop before the instruction at an address."""
        self._place(address).enabled = True

    def _place(self, address: int) -> _Place:
        place = self._places.get(address)
        if place is None:
            place = self._places[address] = _Place(self.address, 0)
            self._hook(_HOOK_CODE, "stops_at_place", place, address, address)
            # not this place alone: what has it may be out of reach from where the
            # processor stands, as the kernel is from a program
            self._flush()
        return place

    def remove(self, address: int) -> None:
        """Stop there no longer; KeyError if nothing is inserted."""
        place = self._places[address]
        if not place.enabled:
            raise KeyError(address)
        place.enabled = False

    @property
    def places(self) -> list[int]:
        """Return the addresses that are inserted."""
        return [address for address, place in self._places.items() if place.enabled]

    @property
    def stepping(self) -> bool:
        return bool(self._stops.stepping)

    @stepping.setter
    def stepping(self, stepping: bool) -> None:
        """Stop before each instruction."""
        self._stops.stepping = stepping
        self._hook_each()

    def watch(
        self, number: int, first: int, last: int, *, reads: bool, writes: bool
    ) -> None:
        """Stop behind instructions that access physical addresses from first to last.

        number: a new one from 1, of the watch.
        """
        watch = _Watch(self.address, number, first, last)
        kinds = _HOOK_MEM_READ * reads | _HOOK_MEM_WRITE * writes
        begin = max(first - _MAX_ACCESS + 1, 0)
        hook = self._hook(kinds, "stops_at_access", watch, begin, last)
        self._watches[number] = watch, hook
        self._hook_each()
        self._flush()

    def unwatch(self, number: int) -> None:
        """Forget a watch; KeyError."""
        watch, hook = self._watches.pop(number)
        watch.number = 0
        self._delete(hook)
        self._hook_each()

    def stop_at(self, moment: Moment | None) -> None:
        """Stop at a moment to come, as of a run that is repeated; None: at none."""
        if moment is None:
            self._stops.target = _NOWHERE
            return
        self._place(moment.address)
        self._stops.target_block, self._stops.target = moment

    @property
    def trail(self) -> bool:
        return self._trail

    @trail.setter
    def trail(self, trail: bool) -> None:
        """Have ``before`` of all instructions, at the cost of a call for each."""
        self._trail = trail
        self._stops.before = _NOWHERE
        self._hook_each()

    @property
    def before(self) -> Moment | None:
        """Return the last instruction that has begun since ``trail`` was set."""
        if self._stops.before == _NOWHERE:
            return None
        return Moment(self._stops.before_block, self._stops.before)

    @property
    def blocks(self) -> int:
        """Return the number of blocks that have begun."""
        return self._counter.begun

    def clear(self) -> None:
        """Stop at nothing."""
        for address in self.places:
            self.remove(address)
        for number in list(self._watches):
            self.unwatch(number)
        self.stepping = False

    def _hook_each(self) -> None:
        """Have the hook of all instructions if it is needed, and else not."""
        needed = self.stepping or self.trail or bool(self._watches)
        if needed and self._each is None:
            self._each = self._hook(_HOOK_CODE, "stops_at_each", self._stops, 1, 0)
            self._flush()
        elif not needed and self._each is not None:
            self._delete(self._each)
            self._each = None

    def _hook(
        self, kinds: int, function: str, data: ctypes.Structure, first: int, last: int
    ) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        call = ctypes.cast(self._hooks[function], ctypes.c_void_p)
        where = ctypes.c_uint64(first), ctypes.c_uint64(last)
        to = ctypes.byref(handle)
        error = self._library.uc_hook_add(
            self._engine, to, kinds, call, ctypes.byref(data), *where
        )
        if error:
            raise EmulatorError(f"libunicorn: error {error}")
        return handle

    def _delete(self, hook: ctypes.c_void_p) -> None:
        self._library.uc_hook_del(self._engine, hook)
        self._deleted = True
        self._flush()

    def _flush(self) -> None:
        self._library.uc_ctl(self._engine, _CTL_TB_FLUSH)

    # ---- for the loop that runs the engine
    def stopped(self) -> bool:
        """Call on_stop if the run that has ended stopped; False if it did not."""
        if self._deleted:
            self._deleted = False
            self._flush()  # what was translated since with the deleted hooks
        stops = self._stops
        if not stops.why:
            return False
        access = stops.why == abi.STOPPED_BY_ACCESS
        stop = Stop(
            StopReason(stops.why),
            stops.address,
            stops.watch if access else 0,
            stops.accessed if access else 0,
            stops.block,
        )
        stops.why = stops.watch = 0
        if stop.why is StopReason.TARGET:
            stops.target = _NOWHERE
        self.on_stop(stop)
        place = self._places.get(stop.address)
        stops.resumed = bool(place and place.enabled) + self.stepping
        if self.again:
            self.again, stops.resumed = False, 0
        return True

    @property
    def at(self) -> int:
        """Return the address of the last stop."""
        return int(self._stops.address)
