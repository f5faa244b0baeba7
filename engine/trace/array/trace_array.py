# SPDX-License-Identifier: GPL-2.0-or-later
"""A trace array: ring buffers and what goes into them.  Kernel: struct trace_array.

The first one is TraceState (trace_state.py), the others are its instances.  All
functions are for control context.
"""

from __future__ import annotations

import errno

from kpfs.base.abi import ARRAY_FUNC_STACKTRACE, ARRAY_STACKTRACE
from kpfs.base.errors import KernelError
from kpfs.engine.runtime.records import KpArray
from kpfs.engine.runtime.runtime import Runtime
from kpfs.engine.state import State
from kpfs.engine.trace.array.array_events import ArrayEvents
from kpfs.engine.trace.errlog import ErrorLog
from kpfs.engine.trace.event.event_file import EventFile, EventFiles
from kpfs.engine.trace.event.trace_event import Events
from kpfs.engine.trace.follow_fork import FollowFork
from kpfs.engine.trace.func.function_tracer import FunctionTracer, FunctionTracers
from kpfs.engine.trace.ring.ring_buffer import RingBuffer
from kpfs.engine.trace.trace_options import NOT_INHERITED, Options

TRACERS = ("function", "nop")
USER_TICK = 10_000_000  # ns in one of the ticks that times() counts
# The unit of each clock: None is ns since boot, 0 counts records, 1 is ns since 1970.
# The guest has only one clock, which serves for all of them.
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
        files: EventFiles,
        tracers: FunctionTracers,
        follow_fork: FollowFork,
        name: str = "",
    ) -> None:
        self.st = st
        self.runtime = runtime
        self.name = name
        self.events = events
        self._follow_fork = follow_fork
        self.guest = runtime.make(KpArray)
        try:
            self.ring = RingBuffer(runtime, self.guest, first=not name)
        except KernelError:
            runtime.free(self.guest)
            raise
        self.err_log = ErrorLog(st.machine.clock.now)
        # the function tracer needs ftrace sites: without them nothing calls it
        self.tracers = TRACERS if st.kprobes_on_ftrace else ("nop",)
        self.options = Options(self._option_changed, self.tracers)
        self.array_events = ArrayEvents(self, st.arch, events, files)
        self.current_tracer = "nop"
        self.function = FunctionTracer(self, tracers)
        self.clock = "local"
        self.buffer_percent = 50
        self.pipes: set[int] = set()  # CPUs whose records are being consumed
        self.clear_trace = False  # True if an event that may have left records is gone
        self.ref = 0  # open files of an instance
        self.removed = False

    def simple(self) -> bool:
        """Return True if guest code may take the short way into this array's ring."""
        return not (
            self.name
            or self.guest.flags & ARRAY_STACKTRACE
            or self.guest.pids
            or self.guest.no_pids
        )

    def find_event_file(self, group: str, name: str) -> EventFile | None:
        """Return a switchable event's state here.  Kernel: find_event_file()"""
        event = self.events.find(group, name)
        if event is None or event.ignore_enable:
            return None
        return self.array_events.file(event)

    def find_cmdline(self, pid: int) -> str:
        """Return a task's name at its last record.  Kernel: trace_find_cmdline()"""
        if pid <= 0:
            return "<XXX>" if pid else "<idle>"
        comm = self.runtime.comm_of(pid)
        return "<...>" if comm is None else comm

    # ---- options

    def _option_changed(self, name: str, on: bool) -> None:
        """Do what the change of an option entails.  Kernel: set_tracer_flag()"""
        if name == "overwrite":
            self.ring.set_overwrite(on)
        elif name in ("stacktrace", "func_stack_trace"):
            flags = ARRAY_STACKTRACE if self.options["stacktrace"] else 0
            if self.options["func_stack_trace"]:
                flags |= ARRAY_FUNC_STACKTRACE
            self.guest.flags = flags
            self.array_events.sync()
        elif name == "function-trace":
            self._switch_tracer()
        elif name == "event-fork":
            events = self.array_events
            lists = events.event_pids, events.event_no_pids
            self._follow_fork.switch(lists, on)
        elif name == "function-fork":
            lists = self.function.pids, self.function.no_pids
            self._follow_fork.switch(lists, on)

    # ---- tracers and clocks

    def set_tracer(self, name: str) -> None:
        """Choose a tracer; EINVAL: there is none.  Kernel: tracing_set_tracer()"""
        self.ring.expand()
        if name not in self.tracers:
            raise KernelError(errno.EINVAL, f"no tracer {name!r}")
        if name != self.current_tracer:
            self.current_tracer = name
            self.ring.reset()
            self._switch_tracer()

    def _switch_tracer(self) -> None:
        traces = self.current_tracer == "function" and self.options["function-trace"]
        self.function.switch(traces)

    def set_clock(self, name: str) -> None:
        """Choose a clock; EINVAL: there is none.  Kernel: tracing_set_clock()"""
        if name not in CLOCKS:
            raise KernelError(errno.EINVAL, f"no clock {name!r}")
        self.clock = name
        offset = self.st.machine.clock.real_offset() if CLOCKS[name] == 1 else 0
        self.ring.set_clock(CLOCKS[name], offset)

    def reset_after_events(self) -> None:
        """Clear the trace if a deleted event may have left records in it."""
        if self.clear_trace:
            self.clear_trace = False
            self.ring.reset()

    def destroy(self) -> None:
        """Take an instance out of use; it has no triggers, and nobody may use it then.

        Kernel: __remove_instance()
        """
        self.removed = True
        self.set_tracer("nop")
        for option in NOT_INHERITED:
            self.options.set(option, False)
        self.array_events.destroy()
        self.function.destroy()
        runtime, guest = self.runtime, self.guest
        self.ring.free()
        runtime.after_quiescence(lambda: runtime.free(guest))
