# SPDX-License-Identifier: GPL-2.0-or-later
"""Trace events of any kind, and their registry."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from kpfs.engine.errors import KernelError
from kpfs.engine.ktypes import KAddr
from kpfs.engine.runtime.records import KpEvent
from kpfs.engine.trace.event.fields import COMMON_FIELDS, Field

LAST_TYPE = 20  # kernel: __TRACE_LAST_TYPE, the first id that an event can get
TRACE_EVENT_TYPE_MAX = 65535

# Text of a record after "TIMESTAMP: ", newline included: (pages up to its end, where it
# begins) -> text
Printer = Callable[[memoryview, int], str]
# Text of an address: (address, whether with the offset in its function)
SymbolText = Callable[[int, bool], str]


class TraceEvent:
    """An event.  Kernel: struct trace_event_call.

    A kind of event derives from it and gives reg(), fields(), print_fmt(), printer();
    one whose records guest code writes gives guest_events() too.
    """

    ignore_enable = False  # neither listed nor switched: kernel: TRACE_EVENT_FL_...

    def __init__(self, group: str, name: str, number: int = 0) -> None:
        """number: its id, if that is a fixed one; else it gets the next."""
        self.group = group
        self.name = name
        self.id = number
        self.removed = False  # its files answer ENODEV
        self.refcnt = 0  # users that keep it from being deleted
        self.arrays_on = 0  # trace arrays that have it on: its EventFiles count them

    @property
    def tracing(self) -> bool:
        """Whether any trace array has it on.  Kernel: trace_probe_is_enabled()."""
        return self.arrays_on > 0

    def reg(self, enable: bool) -> None:
        """Make records appear, or stop when no array wants them.

        Called for each trace array; ``arrays_on`` says already what is to be.
        Kernel: trace_event_class.reg()
        """
        raise NotImplementedError

    def guest_events(self) -> Sequence[KpEvent]:
        """What guest code goes by."""
        return ()

    def guest_flags(self) -> int:
        """Flags of all guest_events() but EVENT_RECORD."""
        return 0

    def describe(self) -> KAddr | None:
        """What guest code makes records by that has asked for a file of the event.

        None: guest code makes none in that way.
        """
        return None

    def fields(self) -> Sequence[Field]:
        raise NotImplementedError

    def print_fmt(self) -> str:
        raise NotImplementedError

    def printer(self, symbol: SymbolText) -> Printer:
        """A function for the records of one reading of the trace."""
        raise NotImplementedError

    def pieces(self, symbol: SymbolText) -> Printer:
        """As printer(), with a NUL between what cannot stand in a line but whole."""
        return self.printer(symbol)

    def format_text(self) -> str:
        """events/GROUP/EVENT/format.  Kernel: f_show()."""
        common = "".join(map(_field_line, COMMON_FIELDS))
        own = "".join(map(_field_line, self.fields()))
        return (
            f"name: {self.name}\nID: {self.id}\nformat:\n{common}\n{own}\n"
            f"print fmt: {self.print_fmt()}\n"
        )


def _field_line(field: Field) -> str:
    kind, name = field.type, field.name
    if "[" in kind and not kind.startswith("__data_loc"):
        kind, name = kind.partition("[")[0], f"{name}[]"
    return (
        f"\tfield:{kind} {name};\toffset:{field.offset};\tsize:{field.size};"
        f"\tsigned:{int(field.signed)};\n"
    )


class EventWatcher(Protocol):
    """Is told of events that come and go.  Context: control."""

    def added(self, group: str, event: str, first: bool) -> None:
        """first: its group has come with it."""

    def removed(self, group: str, event: str, last: bool) -> None:
        """last: its group has gone with it."""


class Events:
    """All trace events, newest first.  Kernel: ftrace_events, trace_array.events."""

    def __init__(self, watcher: EventWatcher | None = None) -> None:
        self._events: dict[tuple[str, str], TraceEvent] = {}  # oldest first
        self._groups: dict[str, dict[str, TraceEvent]] = {}
        self._by_id: dict[int, TraceEvent] = {}
        self._next_id = LAST_TYPE
        self._watcher = watcher
        self._held: list[tuple[str, str, bool]] | None = None

    def __iter__(self) -> Iterator[TraceEvent]:
        return reversed(self._events.values())

    def find(self, group: str, name: str) -> TraceEvent | None:
        return self._events.get((group, name))

    def by_id(self, number: int) -> TraceEvent | None:
        return self._by_id.get(number)

    def groups(self) -> list[str]:
        """Groups that have an event, oldest first."""
        return list(self._groups)

    def group(self, name: str) -> dict[str, TraceEvent]:
        """Events of a group by name, empty if there is no such group."""
        return self._groups.get(name, {})

    def add(self, event: TraceEvent) -> None:
        """Give it an id, if it has none, and a place; EEXIST, ENODEV (ids used up).

        Context: control.  Kernel: trace_probe_register_event_call().
        """
        self.early_add(event)
        if self._watcher:
            first = len(self._groups[event.group]) == 1
            self._watcher.added(event.group, event.name, first=first)

    def early_add(self, event: TraceEvent) -> None:
        """As add(), of one that Linux has from boot on: the watcher knows of it.

        Context: control.  Kernel: event_trace_enable()
        """
        key = (event.group, event.name)
        if key in self._events:
            raise KernelError(errno.EEXIST, f"event {event.group}:{event.name}")
        event.id = event.id or self._new_id()
        self._events[key] = event
        self._groups.setdefault(event.group, {})[event.name] = event
        self._by_id[event.id] = event

    def remove(self, event: TraceEvent) -> None:
        """Context: control.  Kernel: event_remove()."""
        del self._events[event.group, event.name]
        del self._by_id[event.id]
        members = self._groups[event.group]
        del members[event.name]
        if not members:
            del self._groups[event.group]
        event.removed = True
        gone = (event.group, event.name, not members)
        if self._held is None:
            self._tell([gone])
        else:
            self._held.append(gone)

    @contextmanager
    def held(self) -> Iterator[None]:
        """The watcher hears of what goes meanwhile afterwards: it may run the guest."""
        held: list[tuple[str, str, bool]] = []
        self._held = held
        try:
            yield
        finally:
            self._held = None
            self._tell(held)

    def _tell(self, gone: Sequence[tuple[str, str, bool]]) -> None:
        if self._watcher:
            for group, name, last in gone:
                self._watcher.removed(group, name, last)

    def _new_id(self) -> int:
        """The next number; once all were given out, the lowest free one.

        Kernel: register_trace_event().
        """
        if self._next_id <= TRACE_EVENT_TYPE_MAX:
            self._next_id += 1
            return self._next_id - 1
        used = self._by_id
        for number in range(LAST_TYPE, TRACE_EVENT_TYPE_MAX + 1):
            if number not in used:
                return number
        raise KernelError(errno.ENODEV, "all event ids are in use")
