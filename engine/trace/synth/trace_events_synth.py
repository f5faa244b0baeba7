# SPDX-License-Identifier: GPL-2.0-or-later
"""Creates, shows and deletes synthetic events by commands, in control context."""

from __future__ import annotations

import errno

from kpfs.base.errors import KernelError
from kpfs.engine.kstrtox import BLANKS
from kpfs.engine.trace.array.dynevent import DynEvent, DynEventOps
from kpfs.engine.trace.array.trace_state import TraceState
from kpfs.engine.trace.errlog import SynthErr as Err
from kpfs.engine.trace.synth.synth_event import (
    SYNTH_SYSTEM,
    SynthEvent,
    SynthTraceEvent,
)
from kpfs.engine.trace.synth.synth_field import SynthField, SynthLog, parse_field
from kpfs.engine.trace.words import argv_split, is_good_name

SYNTH_FIELDS_MAX = 64


class TraceSynthOps(DynEventOps):
    """The five operations of synthetic events.  Kernel: synth_event_ops."""

    def __init__(self, ts: TraceState) -> None:
        """Register this kind of events with ts."""
        self._ts = ts
        ts.dyn_events.register(self)

    def find(self, name: str) -> SynthEvent | None:
        """Return the event of that name, if any.  Kernel: find_synth_event()"""
        for event in self._ts.dyn_events.named(name):
            if isinstance(event, SynthEvent):
                return event
        return None

    # ---- commands

    def create(self, command: str) -> bool:
        """Run a line of dynamic_events, s:[synthetic/]NAME TYPE FIELD[;TYPE FIELD]...

        EINVAL, EEXIST, with an entry in error_log that says why.
        Kernel: create_synth_event()
        """
        command = command.lstrip(BLANKS)
        if not command.startswith("s:"):
            return False
        log = SynthLog(self._ts.err_log, command)
        end = _first_blank(command)
        if end == len(command):
            log.fail(Err.INVALID_CMD)
        rest = command[2:]
        if "/" in rest:
            if not rest.startswith(f"{SYNTH_SYSTEM}/"):
                log.fail(Err.INVALID_DYN_CMD)
            rest = rest.removeprefix(f"{SYNTH_SYSTEM}/")
        _check_command(log, rest)
        name = command[len(command) - len(rest) : end]
        self._create(log, name, command[end:].lstrip(BLANKS))
        return True

    def own_command(self, command: str) -> bool:
        """Run a line of synthetic_events: NAME TYPE FIELD[;TYPE FIELD]..., or !NAME.

        EINVAL, EEXIST, with an entry in error_log; ENOENT, EBUSY.
        Kernel: create_or_delete_synth_event()
        """
        command = command.lstrip(BLANKS)
        if not command:
            return True
        log = SynthLog(self._ts.err_log, command)
        _check_command(log, command)
        end = _first_blank(command)
        name = command[:end]
        if name.startswith("!"):
            self.delete(name[1:])
            return True
        if end == len(command):
            log.fail(Err.INVALID_CMD)
        self._create(log, name, command[end:].lstrip(BLANKS))
        return True

    def _create(self, log: SynthLog, name: str, text: str) -> None:
        """Make an event of its fields' text.  Kernel: __create_synth_event()"""
        if not name:
            log.fail(Err.INVALID_CMD)
        if not is_good_name(name):
            log.fail(Err.BAD_NAME, name)
        if self.find(name):
            log.fail(Err.EVENT_EXISTS, name, errno.EEXIST)
        fields: list[SynthField] = []
        for part in text.split(";"):
            words = argv_split(part)
            while words:
                field, used = parse_field(log, words)
                if len(fields) == SYNTH_FIELDS_MAX:
                    log.fail(Err.TOO_MANY_FIELDS)
                fields.append(field)
                words = words[used:]
        if not fields:
            log.fail(Err.INVALID_CMD)
        event = SynthTraceEvent(name, fields, self._ts.runtime)
        self._ts.events.add(event)
        self._ts.dyn_events.add(SynthEvent(self, event))

    def delete(self, name: str) -> None:
        """Delete by name; ENOENT, EBUSY."""
        event = self.find(name)
        if event is None:
            raise KernelError(errno.ENOENT, f"no synthetic event {name}")
        self.free(event)
        if event.event.module:
            self._ts.tracing_reset_all()

    # ---- the other operations

    def show(self, event: DynEvent) -> str:
        """Kernel: synth_event_show()"""
        assert isinstance(event, SynthEvent)
        return f"s:{event.group}/{event.definition()}"

    def own_show(self) -> str:
        """Return the text of synthetic_events."""
        events = self._ts.dyn_events.of(self)
        return "".join(e.definition() for e in events if isinstance(e, SynthEvent))

    def is_busy(self, event: DynEvent) -> bool:
        """Return False, as there are no histograms that make its records."""
        return False

    def free(self, event: DynEvent) -> None:
        """Delete it; EBUSY.  Kernel: synth_event_release()"""
        assert isinstance(event, SynthEvent)
        if event.event.refcnt:
            raise KernelError(errno.EBUSY, f"{event.name} is in use")
        self._ts.remove_event_call(event.event)
        self._ts.dyn_events.remove(event)
        event.event.free()

    def match(
        self, system: str | None, name: str, argv: list[str], event: DynEvent
    ) -> bool:
        """Kernel: synth_event_match()"""
        return name == event.name and system in (None, SYNTH_SYSTEM)


def _first_blank(command: str) -> int:
    """Return the position of the first blank or tab, or the length if there is none."""
    return next((i for i, c in enumerate(command) if c in " \t"), len(command))


def _check_command(log: SynthLog, text: str) -> None:
    """Fail if words are missing in the first part.  Kernel: check_command()"""
    first = text.partition(";")[0]
    if not first.startswith("!") and len(argv_split(first)) < 3:
        log.fail(Err.INVALID_CMD)
