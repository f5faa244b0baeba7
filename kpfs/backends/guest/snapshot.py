# SPDX-License-Identifier: GPL-2.0-or-later
"""Snapshots of a guest kernel: its machine, and the state of all Python objects of it.

The state of the kernel is spread over some 8,000 Python objects: probes, tasks, rings,
tables.  To copy them and put the copies in their place is not possible: closures, bound
methods and the emulator's callbacks refer to the objects themselves.  So the objects
stay, and a snapshot keeps what each of them holds.

It finds them by reflection.  From the session it follows every reference (attributes,
slots, items, closure cells, bound arguments) and meets each object once.  For each one
that can change it notes a function that puts its contents back; restoring calls these.
No class has to do anything to take part.

These must always hold:
- An object is either followed or a leaf.  Leaves are immutable, or belong to the host
  (locks, threads), or to the user (handlers and all that they hold).
- An object of a kind that cannot be put back, such as a generator in the middle of its
  work, is refused with TypeError when the snapshot is taken, not when it is restored.
- The guest's memory and its CPUs are kept by kpfs.guest.emu.frozen, not by this walk.
"""

from __future__ import annotations

import ctypes
import functools
import re
import struct
import threading
import types
from _ctypes import CFuncPtr
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from operator import is_
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType

from kpfs.backends.guest.coverage import GuestCoverage
from kpfs.backends.handlers import UserHandler
from kpfs.base.lock import FairLock, Waiter
from kpfs.emulator.coverage import BlockCoverage
from kpfs.emulator.stops import Stops
from kpfs.guest.emu.cpu import Cpu
from kpfs.guest.emu.frozen import freeze, thaw
from kpfs.guest.emu.watchdog import Watchdog

if TYPE_CHECKING:
    from kpfs.backends.guest.access import GuestAccess
    from kpfs.backends.guest.root.guest_kernel import GuestKernel

# Immutable objects that refer to no mutable one, and objects of the host and the user
_LEAVES: tuple[type, ...] = (
    *(int, str, bytes, float, complex, type(None), type(Ellipsis), type, range),
    *(types.ModuleType, types.CodeType, types.MappingProxyType, property),
    *(struct.Struct, re.Pattern, Enum, BaseException),
    *(type(threading.Lock()), threading.Thread, threading.Event),
    *(
        FairLock,
        Waiter,
        Watchdog,
        UserHandler,
        GuestCoverage,
        BlockCoverage,
        Stops,
        ctypes.CDLL,
        ctypes._SimpleCData,
    ),
    *(ctypes.Array, CFuncPtr, type(ctypes.byref(ctypes.c_int()))),
)
_OURS = "kpfs."  # prefix of the modules whose objects are followed
_OF_DEBUGGER = "kpfs.gdb."  # but these, which belong to the host

PutBack = Callable[[], None]


class KernelSnapshot:
    """The state of a kernel and of objects that belong to it."""

    def __init__(
        self, kernel: GuestKernel, root: object, outside: tuple[type, ...] = ()
    ) -> None:
        """Take it of all that root refers to, the kernel too, but what is outside.

        TypeError: something cannot be kept.  Context: control, lock held.
        """
        self._guest = guest = kernel.guest
        self._frozen = freeze(guest.memory, guest.cpus)
        walk = _Walk(guest.memory.ram, (*_LEAVES, *outside))
        self._puts = list(walk.puts(root))

    def restore(self) -> None:
        """Put the kernel back into that state.  Context: control, lock held."""
        guest = self._guest
        # these are the user's
        follower, stands = guest.modules.text_follower, guest.cpus.stands
        host_clock = guest.clock.host
        thaw(self._frozen, guest.memory, guest.cpus)
        for put in self._puts:
            put()
        guest.modules.text_follower = follower
        if stands is not None:
            guest.cpus.follow_blocks(stands)
        guest.clock.read_host_by(host_clock)
        if follower is not None:
            follower.changed(guest.modules)


class GuestSnapshot(KernelSnapshot):
    """Implements kpfs.session.session.Snapshot."""

    def __init__(self, session: GuestAccess) -> None:
        super().__init__(session.root, session)
        self.session = session


class _Walk:
    """A walk along references that meets each object once."""

    def __init__(self, ram: object, leaves: tuple[type, ...]) -> None:
        self._leaves = leaves
        self._seen: dict[int, object] = {id(ram): ram}
        self._waiting: list[object] = []

    def puts(self, root: object) -> Iterator[PutBack]:
        """Yield a function for each object below root that puts back its state."""
        self._reach(root)
        while self._waiting:
            found = self._waiting.pop()
            put = self._look(found)
            if put is not None:
                yield put

    def _reach(self, *found: object) -> None:
        seen = self._seen
        for one in found:
            if isinstance(one, self._leaves) or id(one) in seen:
                continue
            if not type(one).__module__.startswith(_OF_DEBUGGER):
                seen[id(one)] = one
                self._waiting.append(one)

    def _look(self, one: Any) -> PutBack | None:
        if isinstance(one, tuple | frozenset):
            self._reach(*one)
        elif isinstance(one, list | set | deque | dict | bytearray | array):
            return self._container(one)
        elif isinstance(one, types.FunctionType):
            return self._function(one)
        elif isinstance(one, types.MethodType):
            self._reach(one.__self__, one.__func__)
        elif isinstance(one, types.BuiltinMethodType):
            self._reach(one.__self__)
        elif isinstance(one, functools.partial):
            self._reach(one.func, one.args, one.keywords)
        elif isinstance(one, memoryview):
            self._reach(one.obj)
        elif isinstance(one, ReferenceType):
            self._reach(one())
        elif type(one).__module__.startswith(_OURS):
            return self._instance(one)
        else:
            raise TypeError(f"a {type(one).__name__} cannot be kept in a snapshot")
        return None

    def _container(self, one: Any) -> PutBack:
        if isinstance(one, bytearray | array):
            data = (
                bytes(one) if isinstance(one, bytearray) else array(one.typecode, one)
            )
            return functools.partial(_put_data, one, data)
        if isinstance(one, dict):
            self._reach(*one, *one.values())
            return functools.partial(_put_dict, one, tuple(one), tuple(one.values()))
        self._reach(*one)
        if isinstance(one, list):
            return functools.partial(_put_list, one, tuple(one))
        if isinstance(one, set):
            return functools.partial(_put_set, one, frozenset(one))
        return functools.partial(_put_deque, one, tuple(one))

    def _function(self, one: types.FunctionType) -> PutBack | None:
        if not (one.__module__ or "").startswith(_OURS):
            return None
        self._reach(*(one.__defaults__ or ()), *(one.__kwdefaults__ or {}).values())
        cells = [c for c in one.__closure__ or () if _is_filled(c)]
        held = [cell.cell_contents for cell in cells]
        self._reach(*held)
        return functools.partial(_put_cells, cells, held) if cells else None

    def _instance(self, one: Any) -> PutBack | None:
        slots = [(name, getattr(one, name)) for name in _slots(type(one), one)]
        self._reach(*(value for _, value in slots))
        values = getattr(one, "__dict__", None)
        if values is not None:
            self._reach(*values.values())
        if isinstance(one, Cpu):  # freeze() keeps its state
            return None
        if slots:
            assert not values
            return functools.partial(_put_slots, one, slots)
        if values is None:
            return None
        return functools.partial(
            _put_dict, values, tuple(values), tuple(values.values())
        )


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


@functools.cache
def _slot_names(kind: type) -> tuple[str, ...]:
    return tuple(
        name
        for base in kind.__mro__
        if base.__module__.startswith(_OURS)
        for name in base.__dict__.get("__slots__", ())
        if name not in ("__dict__", "__weakref__")
    )


def _slots(kind: type, one: object) -> list[str]:
    """Return the slots of an object that have a value."""
    return [name for name in _slot_names(kind) if hasattr(one, name)]


# ---- putting back.  Unchanged objects are not touched, which is faster.
def _put_dict(
    one: dict[object, object], keys: tuple[object, ...], values: tuple[object, ...]
) -> None:
    if (
        len(one) != len(keys)
        or not all(map(is_, one.values(), values))
        or not all(map(is_, one, keys))
    ):
        one.clear()
        # of pairs a Counter would count each
        one.update(dict(zip(keys, values, strict=True)))


def _put_list(one: list[object], items: tuple[object, ...]) -> None:
    if len(one) != len(items) or not all(map(is_, one, items)):
        one[:] = items


def _put_set(one: set[object], items: frozenset[object]) -> None:
    if one != items:
        one.clear()
        one.update(items)


def _put_deque(one: deque[object], items: tuple[object, ...]) -> None:
    one.clear()
    one.extend(items)


def _put_data(one: Any, data: Any) -> None:
    if one != data:
        one[:] = data


def _put_cells(cells: list[types.CellType], held: list[object]) -> None:
    for cell, value in zip(cells, held, strict=True):
        cell.cell_contents = value


def _put_slots(one: object, slots: list[tuple[str, object]]) -> None:
    for name, value in slots:
        object.__setattr__(one, name, value)
