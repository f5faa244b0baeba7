# SPDX-License-Identifier: GPL-2.0-or-later
"""Trace events of any kind, and their registry."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KAddr
from kpfs.engine.runtime.records import KpEvent
from kpfs.engine.trace.event.fields import COMMON_FIELDS, Field

LAST_TYPE = 20  # kernel: __TRACE_LAST_TYPE, the first id that an event can get
TRACE_EVENT_TYPE_MAX = 65535

# Gives the text of a record behind "TIMESTAMP: ", with a newline, from the pages up to
# its end and the offset where it begins
Printer = Callable[[memoryview, int], str]
# Gives the text of an address: (address, whether with the offset in its function)
SymbolText = Callable[[int, bool], str]


class TraceEvent:
    """An event that can be traced.  Kernel: struct trace_event_call.

    Each kind of event is a subclass with reg(), fields(), print_fmt() and printer();
    one whose records guest code writes has guest_events() too.
    """

    ignore_enable = False  # True: not listed, not switched; kernel: TRACE_EVENT_FL_...

    def __init__(self, group: str, name: str, number: int = 0) -> None:
        """number: its id, if that is fixed; else it gets the next free one."""
        self.group = group
        self.name = name
        self.id = number
        self.epoch = 0  # Events.epoch when it came
        self.removed = False  # its files answer ENODEV
        self.refcnt = 0  # how many users keep it from being deleted
        self.arrays_on = 0  # trace arrays that have it on; event_file.py counts

    @property
    def tracing(self) -> bool:
        """True if any trace array has it on.  Kernel: trace_probe_is_enabled()."""
        return self.arrays_on > 0

    def reg(self, enable: bool) -> None:
        """Begin to make records, or stop when no array wants them any more.

        It is called for each trace array, after ``arrays_on`` was changed.
        Kernel: trace_event_class.reg()
        """
        raise NotImplementedError

    def hold(self, on: bool) -> None:
        """Keep it from being deleted, or no longer; EBUSY: it is going.

        Kernel: trace_event_try_get_ref(), trace_event_put_ref()
        """
        self.refcnt += 1 if on else -1

    def guest_events(self) -> Sequence[KpEvent]:
        """Return the structs that tell guest code about the event."""
        return ()

    def guest_flags(self) -> int:
        """Return the flags of all guest_events(), without EVENT_RECORD."""
        return 0

    def describe(self) -> KAddr | None:
        """Return a description for guest code that makes records by the event's file.

        None: guest code cannot make records of this event in that way.
        """
        return None

    def fields(self) -> Sequence[Field]:
        raise NotImplementedError

    def print_fmt(self) -> str:
        raise NotImplementedError

    def printer(self, symbol: SymbolText) -> Printer:
        """Make the function that prints records, for one reading of the trace."""
        raise NotImplementedError

    def pieces(self, symbol: SymbolText) -> Printer:
        """Return printer() with a NUL between pieces that a line shows whole or not."""
        return self.printer(symbol)

    def format_text(self) -> str:
        """Return the text of events/GROUP/EVENT/format.  Kernel: f_show()."""
        common = "".join(map(_field_line, COMMON_FIELDS))
        own = "".join(map(_field_line, self.fields()))
        return (
            f"name: {self.name}\nID: {self.id}\nformat:\n{common}\n{own}\n"
            f"print fmt: {self.print_fmt()}\n"
        )


class FtraceEvent(TraceEvent):
    """An event of the group ftrace, whose number is fixed and which is not switched."""

    ignore_enable = True

    def __init__(self, name: str, number: int, print_fmt: str, *fields: Field) -> None:
        super().__init__("ftrace", name, number)
        self._print_fmt = print_fmt
        self._fields = fields

    def fields(self) -> Sequence[Field]:
        return self._fields

    def print_fmt(self) -> str:
        return self._print_fmt


def _field_line(field: Field) -> str:
    kind, name = field.type, field.name
    if "[" in kind and not kind.startswith("__data_loc"):
        kind, name = kind.partition("[")[0], f"{name}[]"
    return (
        f"\tfield:{kind} {name};\toffset:{field.offset};\tsize:{field.size};"
        f"\tsigned:{int(field.signed)};\n"
    )


class Change(NamedTuple):
    """An event has come or gone."""

    group: str
    event: str
    come: bool
    with_group: bool  # its group has come or gone with it


class EventWatcher(Protocol):
    """An object that is told of events that come and go.  Context: control."""

    def changed(self, changes: Sequence[Change]) -> None:
        """Note the changes, in this order."""


class Events:
    """All trace events, newest first.  Kernel: ftrace_events, trace_array.events.

    ``with events``: the watcher, which runs the guest, is told at the end, of all at
    once.
    """

    def __init__(self, watcher: EventWatcher | None = None) -> None:
        self._events: dict[tuple[str, str], TraceEvent] = {}  # oldest first
        self._groups: dict[str, dict[str, TraceEvent]] = {}
        self._by_id: dict[int, TraceEvent] = {}
        self._next_id = LAST_TYPE
        self._lowest_free = LAST_TYPE  # no id below it is free
        self.epoch = 0  # grows when an event comes or goes
        self._watcher = watcher
        self._held: list[Change] | None = None

    def __iter__(self) -> Iterator[TraceEvent]:
        return reversed(self._events.values())

    def find(self, group: str, name: str) -> TraceEvent | None:
        return self._events.get((group, name))

    def by_id(self, number: int) -> TraceEvent | None:
        return self._by_id.get(number)

    def groups(self) -> list[str]:
        """Return the groups that have an event, oldest first."""
        return list(self._groups)

    def group(self, name: str) -> dict[str, TraceEvent]:
        """Return the events of a group by name; empty if there is no such group."""
        return self._groups.get(name, {})

    def add(self, event: TraceEvent) -> None:
        """Register an event and give it an id, if need be; EEXIST; ENODEV: no id left.

        Context: control.  Kernel: trace_probe_register_event_call().
        """
        self.early_add(event)
        first = len(self._groups[event.group]) == 1
        self._tell(Change(event.group, event.name, come=True, with_group=first))

    def early_add(self, event: TraceEvent) -> None:
        """Add an event that exists from boot on, without telling the watcher.

        Context: control.  Kernel: event_trace_enable()
        """
        key = (event.group, event.name)
        if key in self._events:
            raise KernelError(errno.EEXIST, f"event {event.group}:{event.name}")
        event.id = event.id or self._new_id()
        self.epoch += 1
        event.epoch = self.epoch
        self._events[key] = event
        self._groups.setdefault(event.group, {})[event.name] = event
        self._by_id[event.id] = event

    def remove(self, event: TraceEvent) -> None:
        """Context: control.  Kernel: event_remove()."""
        self.epoch += 1
        del self._events[event.group, event.name]
        del self._by_id[event.id]
        self._lowest_free = min(self._lowest_free, max(event.id, LAST_TYPE))
        members = self._groups[event.group]
        del members[event.name]
        if not members:
            del self._groups[event.group]
        event.removed = True
        self._tell(Change(event.group, event.name, come=False, with_group=not members))

    def __enter__(self) -> None:
        self._held = []

    def __exit__(self, *_exc: object) -> None:
        held, self._held = self._held, None
        if self._watcher and held:
            self._watcher.changed(held)

    def _tell(self, change: Change) -> None:
        if self._held is not None:
            self._held.append(change)
        elif self._watcher:
            self._watcher.changed([change])

    def _new_id(self) -> int:
        """Return the next or a free id; ENODEV.  Kernel: register_trace_event()."""
        if self._next_id <= TRACE_EVENT_TYPE_MAX:
            self._next_id += 1
            return self._next_id - 1
        used, number = self._by_id, self._lowest_free
        while number in used:
            number += 1
        self._lowest_free = number
        if number > TRACE_EVENT_TYPE_MAX:
            raise KernelError(errno.ENODEV, "all event ids are in use")
        return number
