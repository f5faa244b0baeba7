# SPDX-License-Identifier: GPL-2.0-or-later
"""Dynamic events of all kinds, and the commands that make and delete them.

All functions are for control context.  Kernel: kernel/trace/trace_dynevent.c
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from kpfs.base.errors import KernelError
from kpfs.engine.kstrtox import BLANKS
from kpfs.engine.machine import Machine
from kpfs.engine.trace.event.trace_event import Events
from kpfs.engine.trace.words import argv_split

WRITE_BUFSIZE = 4096
# Lines without a command
_EMPTY_LINES = re.compile(rb"(?:[\t\v\f\r \xa0]*(?:#[^\n]*)?\n)+")


class DynEvent:
    """An event made by a command.  Kernel: struct dyn_event."""

    ops: DynEventOps
    group: str
    name: str


class DynEventOps(Protocol):
    """A kind of dynamic event.  Kernel: struct dyn_event_operations."""

    def create(self, command: str) -> bool:
        """Make what command says; False: it is for another kind (ECANCELED)."""

    def own_command(self, command: str) -> bool:
        """Run a command in the syntax of this kind's own file; False: it has none."""
        return False

    def show(self, event: DynEvent) -> str:
        """Return the command that would make it again, with a newline."""

    def is_busy(self, event: DynEvent) -> bool: ...

    def free(self, event: DynEvent) -> None:
        """Unregister and delete it; EBUSY."""

    def match(
        self, system: str | None, name: str, argv: list[str], event: DynEvent
    ) -> bool:
        """Return True if a command with these words is to delete this event."""


class DynEvents:
    """All dynamic events.  Kernel: dyn_event_list"""

    def __init__(
        self,
        machine: Machine,
        trace_events: Events,
        text_poke: AbstractContextManager[object],
        reset: Callable[[], None],
    ) -> None:
        """text_poke: within it, many probes share the cost of writing to the text.

        reset() clears each trace that holds records of an event that was deleted.
        """
        self._machine = machine
        self._trace_events = trace_events
        self._text_poke = text_poke
        self._reset = reset
        self._ops: list[DynEventOps] = []
        self._events: dict[DynEvent, None] = {}  # in order of registration
        self._by_name: dict[str, dict[DynEvent, None]] = {}

    def register(self, ops: DynEventOps) -> None:
        """Add a kind, to take its commands.  Kernel: dyn_event_register()"""
        self._ops.append(ops)

    def add(self, event: DynEvent) -> None:
        self._events[event] = None
        self._by_name.setdefault(event.name, {})[event] = None

    def remove(self, event: DynEvent) -> None:
        del self._events[event]
        same = self._by_name[event.name]
        del same[event]
        if not same:
            del self._by_name[event.name]

    def of(self, ops: DynEventOps | None = None) -> list[DynEvent]:
        """Return the events of one kind, or all, in the order of their coming."""
        return [e for e in self._events if ops is None or e.ops is ops]

    def named(self, name: str) -> list[DynEvent]:
        return list(self._by_name.get(name, ()))

    # ---- kprobe_events and dynamic_events

    def show(self, ops: DynEventOps | None = None) -> str:
        """Return the text of these events.  Kernel: dyn_event_seq_show()"""
        return "".join([e.ops.show(e) for e in self.of(ops)])

    def run_commands(self, data: bytes, ops: DynEventOps | None = None) -> None:
        """Run the lines of one write, up to the first that fails.

        A line that does not fit in 4095 bytes, or with a NUL in it, is EINVAL too.
        Directories come and go when all have run.
        Kernel: trace_parse_run_command().
        """
        with self._trace_events:
            done, count = 0, len(data)
            while done < count:
                chunk = data[done : done + WRITE_BUFSIZE - 1]
                length = chunk.find(0)
                length = len(chunk) if length < 0 else length
                start = 0
                while done < count:
                    nothing = _EMPTY_LINES.match(chunk, start, length)
                    if nothing:  # quickly past what may be a megabyte of them
                        done += nothing.end() - start
                        start = nothing.end()
                        continue
                    end = chunk.find(b"\n", start, length)
                    size = (end + 1 if end >= 0 else length) - start
                    if end < 0 and done + size < count:
                        if start:
                            break
                        self._line_too_long()
                    line = chunk[start : end if end >= 0 else length]
                    done += size
                    start += size
                    self.run_command(line.partition(b"#")[0].decode("latin-1"), ops)

    def _line_too_long(self) -> None:
        text = f"Line length is too long: Should be less than {WRITE_BUFSIZE - 2}"
        self._machine.log.printk(4, text)
        raise KernelError(errno.EINVAL, text)

    def run_command(self, command: str, ops: DynEventOps | None = None) -> None:
        """Create an event or delete some.  Kernel: create_dyn_event()."""
        if ops is not None and ops.own_command(command):
            return
        if command.startswith("-" if ops else ("-", "!")):
            self.release(command, ops)
            return
        if not command.strip(BLANKS):
            return
        for kind in [ops] if ops else self._ops:
            if kind.create(command):
                return
        raise KernelError(errno.EINVAL, "not a command of any kind of event")

    def release(self, command: str, ops: DynEventOps | None = None) -> None:
        """Delete events; ENOENT, EBUSY, EINVAL.  Kernel: dyn_event_release()."""
        system, name, argv = _parse_release(command)
        found = False
        try:
            for event in self.named(name) if name else self.of():
                if ops is not None and event.ops is not ops:
                    continue
                if event.ops.match(system, name, argv, event):
                    found = True
                    event.ops.free(event)
        finally:
            self._reset()
        if not found:
            raise KernelError(errno.ENOENT, f"no event {command!r}")

    def release_all(self, ops: DynEventOps | None = None) -> None:
        """Delete all events of a kind, or none if one of them is in use: EBUSY.

        Kernel: dyn_events_release_all().
        """
        events = self.of(ops)
        try:
            if any(event.ops.is_busy(event) for event in events):
                raise KernelError(errno.EBUSY, "an event is in use")
            # the guest must not run until its text is what the engine believes it to be
            with self._trace_events, self._text_poke:
                for event in events:
                    event.ops.free(event)
        finally:
            self._reset()


def _parse_release(command: str) -> tuple[str | None, str, list[str]]:
    """Return (group or None, event or "", more words) to delete; EINVAL."""
    head, *argv = argv_split(command)
    if head.startswith("-"):
        colon, name = head[1:2], head[2:]
    else:
        _, colon, name = head.partition(":")
    if colon != ":":
        raise KernelError(errno.EINVAL, "no colon before the name")
    system, slash, rest = name.partition("/")
    if slash:
        return system, rest, argv
    if not name:
        raise KernelError(errno.EINVAL, "neither group nor event")
    return None, name, argv
