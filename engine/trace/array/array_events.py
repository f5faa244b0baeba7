# SPDX-License-Identifier: GPL-2.0-or-later
"""The events of a trace array: which are on, their filters, and for which tasks.

All functions are for control context.  Kernel: kernel/trace/trace_events.c
"""

from __future__ import annotations

import errno
from functools import partial

from kpfs.base.errors import KernelError
from kpfs.engine.arch_hooks import Arch
from kpfs.engine.kstrtox import BLANKS
from kpfs.engine.trace.event import event_file
from kpfs.engine.trace.event.event_file import (
    EventArray,
    EventFile,
    EventFiles,
    enable_disable,
    parse_enable,
    set_clr_event,
    set_event_word,
)
from kpfs.engine.trace.event.filter import (
    EventFilter,
    FilterErr,
    FilterError,
    create_filter,
    error_text,
)
from kpfs.engine.trace.event.trace_event import Events, TraceEvent
from kpfs.engine.trace.pids import PidSet
from kpfs.engine.trace.ring.cpu_ring import PAGE_SIZE
from kpfs.engine.trace.words import trace_get_user

EVENT_BUF_SIZE = 127
# a group's filter file always shows this text
DEFAULT_SYS_FILTER_MESSAGE = """\
### global filter ###
# Use this to set filters for multiple events.
# Only events with the given fields will be affected.
# If no events are modified, an error message will be displayed here
"""


class ArrayEvents:
    """Serves events/, set_event and set_event_pid of one trace array."""

    def __init__(
        self, array: EventArray, arch: Arch, events: Events, files: EventFiles
    ) -> None:
        self._array = array
        self._arch = arch
        self._events = events
        self._files = files
        # of an instance: events that came before then are older than it
        self._epoch = events.epoch if array.name else -1
        guest = array.guest
        self.event_pids = PidSet(array.runtime, partial(setattr, guest, "pids"))
        self.event_no_pids = PidSet(array.runtime, partial(setattr, guest, "no_pids"))

    def file(self, event: TraceEvent) -> EventFile:
        """Return the state of an event in this array."""
        return self._files.get(event, self._array)

    def files(self) -> list[EventFile]:
        """Return the states of events that were ever set here, newest event first."""
        found = [self._files.find(event, self._array) for event in self._events]
        return [file for file in found if file is not None]

    def _members(self, group: str | None) -> list[EventFile]:
        events = self._events
        members = events if group is None else events.group(group).values()
        return [self.file(event) for event in members]

    def sync(self) -> None:
        """Tell guest code of a change that concerns all events of this array."""
        for file in self.files():
            if file.enabled:
                file.sync()

    def enable_store(self, event: TraceEvent, data: bytes) -> None:
        """A write to an event's enable file.  Kernel: event_enable_write()."""
        enable = parse_enable(data)
        self._array.ring.expand()
        if event.removed:
            raise KernelError(errno.ENODEV, "the event is gone")
        enable_disable(self.file(event), enable)

    def group_enable_text(self, group: str | None) -> str:
        """Return a group's enable file, None: all.  Kernel: system_enable_read()."""
        return event_file.enable_text(self._members(group))

    def group_enable_store(self, group: str | None, data: bytes) -> None:
        """A write to that file.  Kernel: system_enable_write()."""
        enable = parse_enable(data)
        self._array.ring.expand()
        if group is None and not self._events.groups():
            return  # not an error: Linux always has events of its own
        with self._arch.text_poke:
            set_clr_event(self._members(group), None, group, None, enable)

    def set_clr_event(self, system: str | None, name: str | None, enable: bool) -> None:
        """Switch one or many events; EINVAL.  Kernel: trace_array_set_clr_event()"""
        self._array.ring.expand()
        with self._arch.text_poke:
            set_clr_event(self._members(None), None, system, name, enable)

    # ---- filters

    def filter_store(self, event: TraceEvent, data: bytes) -> None:
        """Set the filter; if it is wrong, the file then shows the error.

        EINVAL, EPERM, ENOENT, ESRCH, depending on the error; ENODEV: the event is gone.
        Kernel: apply_event_filter()
        """
        if event.removed:
            raise KernelError(errno.ENODEV, "the event is gone")
        file = self.file(event)
        text = filter_string(data)
        if text.strip(BLANKS) == "0":
            file.set_filter(None)
            return
        try:
            file.set_filter(create_filter(text, event.fields()))
        except FilterError as error:
            file.set_filter(EventFilter(self._filter_error(text, error)))
            raise

    def _filter_error(self, text: str, error: FilterError) -> str:
        """Log the error and return the text that the file is to show."""
        code = error.code or FilterErr.ERRNO
        pos = error.pos if error.code else 0
        self._array.err_log.record("event filter parse error", code.value, text, pos)
        return error_text(text, error)

    def group_filter_store(self, group: str, data: bytes) -> None:
        """Set the filter of each event of a group that has the fields it names.

        Kernel: apply_subsystem_event_filter()
        """
        members = self._members(group)
        if not members:
            raise KernelError(errno.ENODEV, "no event in the group")
        text = filter_string(data)
        clear = text.strip(BLANKS) == "0"
        for file in members:
            try:
                fields = file.event.fields()
                event_filter = None if clear else create_filter(text, fields)
            except FilterError:
                error = FilterError(errno.EINVAL, FilterErr.BAD_SUBSYS_FILTER, 0)
                event_filter = EventFilter(self._filter_error(text, error))
            if event_filter is not None or file.filter is not None:
                file.set_filter(event_filter)

    # ---- lists of events

    def available_events_text(self) -> str:
        return "".join(
            f"{e.group}:{e.name}\n" for e in self._events if not e.ignore_enable
        )

    def set_event_text(self) -> str:
        """List events that are on, newest first, but an instance's older ones last."""
        on = [file.event for file in self.files() if file.enabled]
        older = [e for e in reversed(on) if e.epoch <= self._epoch]
        newer = [e for e in on if e.epoch > self._epoch]
        return "".join(f"{e.group}:{e.name}\n" for e in newer + older)

    def set_event_store(self, data: bytes) -> int:
        """Switch by one word; return bytes consumed.  Kernel: ftrace_event_write()"""
        if not data:
            return 0
        self._array.ring.expand()
        word, consumed = trace_get_user(data, EVENT_BUF_SIZE)
        if word:
            with self._arch.text_poke:
                set_event_word(self._members(None), word)
        return consumed

    def set_event_clear(self) -> None:
        """Switch all events off.  Kernel: ftrace_clear_events()."""
        with self._arch.text_poke:
            for file in self.files():
                enable_disable(file, False)

    # ---- pids

    def set_event_pids(self, pids: PidSet, data: bytes | None) -> int:
        """Write to event_pids or event_no_pids; None clears it; the bytes consumed.

        Kernel: event_pid_write()
        """
        if data is None:
            pids.clear()
            used = 0
        else:
            if not data:
                return 0
            self._array.ring.expand()
            used = pids.write(data)
        self.sync()
        return used

    def destroy(self) -> None:
        """Switch all off, as the array is deleted.  Kernel: event_trace_del_tracer()"""
        for file in self.files():
            enable_disable(file, False)
            self._files.remove(file.event, self._array)
        self.event_pids.clear()
        self.event_no_pids.clear()


def filter_string(data: bytes) -> str:
    """Return the text of a filter written.  Kernel: event_filter_write(), strstrip()"""
    if len(data) >= PAGE_SIZE:
        raise KernelError(errno.EINVAL, "filter too long")
    return data.partition(b"\0")[0].decode("latin-1").rstrip(BLANKS)
