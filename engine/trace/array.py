# SPDX-License-Identifier: GPL-2.0-or-later
"""A trace array: rings, and what is recorded there.  Kernel: struct trace_array.

The first one is TraceState (dynevent.py), the others are its instances.  All functions
are for control context.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING
from weakref import WeakSet

from kpfs.engine.errors import KernelError
from kpfs.engine.runtime.runtime import (
    ARRAY_FUNC_STACKTRACE,
    ARRAY_STACKTRACE,
    KpArray,
    Runtime,
)
from kpfs.engine.trace.errlog import ErrorLog
from kpfs.engine.trace.event import event_file
from kpfs.engine.trace.event.event_file import (
    EventFile,
    enable_disable,
    parse_enable,
    set_clr_event,
    set_event_word,
)
from kpfs.engine.trace.event.filter import Err as FilterErr
from kpfs.engine.trace.event.filter import (
    EventFilter,
    FilterError,
    create_filter,
    error_text,
)
from kpfs.engine.trace.event.trace_event import Events, TraceEvent
from kpfs.engine.trace.func.function_tracer import Functions, FunctionTracer
from kpfs.engine.trace.kstr import BLANKS, trace_get_user
from kpfs.engine.trace.options import Options
from kpfs.engine.trace.pids import PidSet
from kpfs.engine.trace.ring.cpu_ring import PAGE_SIZE
from kpfs.engine.trace.ring.ring_buffer import RingBuffer

if TYPE_CHECKING:
    from kpfs.engine.state import State

EVENT_BUF_SIZE = 127
TRACERS = ("function", "nop")
USER_TICK = 10_000_000  # ns of what times() counts
# by name, its unit: None is ns since boot, 0 counts records, 1 is ns since 1970.
# The guest has one clock.
CLOCKS = {
    "local": None,
    "global": None,
    "counter": 0,
    "uptime": USER_TICK,
    "perf": None,
    "mono": None,
    "mono_raw": None,
    "boot": None,
    "tai": 1,
}


class TraceArray:
    """One set of rings and the switches that say what goes into it."""

    def __init__(
        self,
        st: State,
        runtime: Runtime,
        events: Events,
        functions: Functions,
        name: str = "",
    ) -> None:
        self.st = st
        self.runtime = runtime
        self.name = name
        self.events = events
        self._older = WeakSet(events if name else ())  # than this instance
        self.guest = runtime.make(KpArray)
        self.ring = RingBuffer(runtime, self.guest, first=not name)
        self.err_log = ErrorLog(st.machine.clock.now)
        # what is configured as one: without ftrace sites nothing calls it
        self.tracers = TRACERS if st.kprobes_on_ftrace else ("nop",)
        self.options = Options(self._option_changed, self.tracers)
        self.event_pids = PidSet(runtime)
        self.event_no_pids = PidSet(runtime)
        self.current_tracer = "nop"
        self.function = FunctionTracer(self, functions)
        self.clock = "local"
        self.buffer_percent = 50
        self.pipes: set[int] = set()  # CPUs whose records are being consumed
        self.clear_trace = False  # an event that left records is gone
        self.ref = 0  # open files of an instance
        self.removed = False

    def simple(self) -> bool:
        """Whether guest code may take the short way into this array's ring."""
        return not (
            self.name
            or self.guest.flags & ARRAY_STACKTRACE
            or self.guest.pids
            or self.guest.no_pids
        )

    def update_buffers(self) -> None:
        """Give the rings of the first array their full size when tracing begins.

        Kernel: tracing_update_buffers()
        """
        self.ring.expand()

    def find_cmdline(self, pid: int) -> str:
        """The name of a task as it was at its last record.

        Kernel: trace_find_cmdline()
        """
        if pid <= 0:
            return "<XXX>" if pid else "<idle>"
        comm = self.runtime.comm_of(pid)
        return "<...>" if comm is None else comm

    # ---- files of events

    def file(self, event: TraceEvent) -> EventFile:
        """What this array has of an event."""
        found = event.files.get(self)
        if found is None:
            found = event.files[self] = EventFile(event, self)
        return found

    def _members(self, group: str | None) -> list[EventFile]:
        events = self.events
        members = events if group is None else events.group(group).values()
        return [self.file(event) for event in members]

    def sync_events(self) -> None:
        """What all events of this array go by has changed."""
        for event in self.events:
            file = event.files.get(self)
            if file is not None and file.enabled:
                event_file.sync(event)

    def enable_store(self, event: TraceEvent, data: bytes) -> None:
        """Kernel: event_enable_write()."""
        enable = parse_enable(data)
        self.update_buffers()
        if event.removed:
            raise KernelError(errno.ENODEV, "the event is gone")
        enable_disable(self.file(event), enable)

    def enable_text(self, event: TraceEvent) -> str:
        return self.file(event).enable_text()

    def group_enable_text(self, group: str | None) -> str:
        """Kernel: system_enable_read()."""
        return event_file.enable_text(self._members(group))

    def group_enable_store(self, group: str | None, data: bytes) -> None:
        """Kernel: system_enable_write()."""
        enable = parse_enable(data)
        self.update_buffers()
        if group is None and not self.events.groups():
            return  # Linux always has events of its own
        with self.st.arch.text_poke:
            set_clr_event(self._members(group), None, group, None, enable)

    def set_clr_event(self, system: str | None, name: str | None, enable: bool) -> None:
        """Switch an event, or all of a group, or all; EINVAL.

        Kernel: trace_array_set_clr_event()
        """
        self.update_buffers()
        with self.st.arch.text_poke:
            set_clr_event(self._members(None), None, system, name, enable)

    # ---- filters

    def filter_text(self, event: TraceEvent) -> str:
        return self.file(event).filter_text()

    def filter_store(self, event: TraceEvent, data: bytes) -> None:
        """Set the filter; of a wrong one the file then shows what is wrong.

        EINVAL, EPERM, ENOENT, ESRCH, as the error is.
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
        """Log it; what the file shows."""
        code = error.code or FilterErr.ERRNO
        pos = error.pos if error.code else 0
        self.err_log.record("event filter parse error", code.value, text, pos)
        return error_text(text, error)

    def group_filter_store(self, group: str, data: bytes) -> None:
        """Set the filter of all events of a group, each as far as it has the fields.

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
            f"{e.group}:{e.name}\n" for e in self.events if not e.ignore_enable
        )

    def set_event_text(self) -> str:
        """Newest first, but an instance has those before it the other way round.

        Kernel: show_set_event_seq_ops
        """
        on = [e for e in self.events if self in e.files and e.files[self].enabled]
        older = [e for e in reversed(on) if e in self._older]
        newer = [e for e in on if e not in self._older]
        return "".join(f"{e.group}:{e.name}\n" for e in newer + older)

    def set_event_store(self, data: bytes) -> int:
        """Switch what the first word says; bytes consumed; EINVAL.

        Kernel: ftrace_event_write().
        """
        if not data:
            return 0
        self.update_buffers()
        word, consumed = trace_get_user(data, EVENT_BUF_SIZE)
        if word:
            with self.st.arch.text_poke:
                set_event_word(self._members(None), word)
        return consumed

    def set_event_clear(self) -> None:
        """Kernel: ftrace_clear_events()."""
        with self.st.arch.text_poke:
            for event in list(self.events):
                if self in event.files:
                    enable_disable(event.files[self], False)

    # ---- pids

    def set_event_pids(self, pids: PidSet, data: bytes | None) -> int:
        """Write one of event_pids and event_no_pids, or clear it; bytes consumed.

        Kernel: event_pid_write()
        """
        if data is None:
            pids.clear()
            used = 0
        else:
            if not data:
                return 0
            self.update_buffers()
            used = pids.write(data)
        self.guest.pids = self.event_pids.addr
        self.guest.no_pids = self.event_no_pids.addr
        self.sync_events()
        return used

    # ---- options

    def _option_changed(self, name: str, on: bool) -> None:
        """Kernel: set_tracer_flag()"""
        if name == "overwrite":
            self.ring.set_overwrite(on)
        elif name in ("stacktrace", "func_stack_trace"):
            flags = ARRAY_STACKTRACE if self.options["stacktrace"] else 0
            if self.options["func_stack_trace"]:
                flags |= ARRAY_FUNC_STACKTRACE
            self.guest.flags = flags
            self.sync_events()
        elif name == "function-trace":
            self.function.update()

    # ---- tracers and clocks

    def set_tracer(self, name: str) -> None:
        """EINVAL: no such tracer.  Kernel: tracing_set_tracer()"""
        self.update_buffers()
        if name not in self.tracers:
            raise KernelError(errno.EINVAL, f"no tracer {name!r}")
        if name != self.current_tracer:
            self.current_tracer = name
            self.ring.reset()
            self.function.update()

    def set_clock(self, name: str) -> None:
        """EINVAL: no such clock.  Kernel: tracing_set_clock()"""
        if name not in CLOCKS:
            raise KernelError(errno.EINVAL, f"no clock {name!r}")
        self.clock = name
        offset = self.st.machine.clock.real_offset() if CLOCKS[name] == 1 else 0
        self.ring.set_clock(CLOCKS[name], offset)

    def reset_after_events(self) -> None:
        """Clear the trace if an event that left records is gone.

        Kernel: tracing_reset_all_online_cpus()
        """
        if self.clear_trace:
            self.clear_trace = False
            self.ring.reset()

    def destroy(self) -> None:
        """Take an instance out of use; nothing may refer to it any more.

        Kernel: __remove_instance()
        """
        self.removed = True
        self.set_tracer("nop")
        for event in list(self.events):
            file = event.files.get(self)
            if file is None:
                continue
            for trigger in list(file.triggers):
                trigger.remove()
            enable_disable(file, False)
            del event.files[self]
            file.free()
        self.function.destroy()
        runtime, guest = self.runtime, self.guest
        self.ring.free()
        runtime.after_quiescence(lambda: runtime.free(guest))


def filter_string(data: bytes) -> str:
    """Kernel: event_filter_write(), strstrip()"""
    if len(data) >= PAGE_SIZE:
        raise KernelError(errno.EINVAL, "filter too long")
    return data.partition(b"\0")[0].decode("latin-1").rstrip(BLANKS)
