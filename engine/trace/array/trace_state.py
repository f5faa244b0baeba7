# SPDX-License-Identifier: GPL-2.0-or-later
"""The state that the files of tracefs show, and which part of it is for which file.

For the files (kpfs/fs/files).  All of it is for control context, under the kernel lock;
all str are latin-1, one character per byte: encode and decode with "latin-1".

    ts = TraceState(st, runtime)   one per kernel, which makes it
    dyn = ts.dyn_events            the dynamic events (dynevent.py)
    ops = TraceKprobeOps(ts)       a kind of them, registers itself (trace_kprobe.py)

A file of tracing/ or of an instance has a trace array, tr: ts itself, or one of
ts.instances.

    kprobe_events      dyn.show(ops); dyn.run_commands(data, ops);
                       dyn.release_all(ops)
    synthetic_events   the same with its ops, and ops.own_show()
    dynamic_events     dyn.show(); dyn.run_commands(data); dyn.release_all()
                       release_all() belongs to an open for writing with O_TRUNC and
                       its errno is the open's; run_commands() takes the data of one
                       write(), all of which is consumed or an errno answered
    kprobe_profile     ops.profile()
    instances/         ts.instances (dict), ts.mkdir(name), ts.rmdir(name)
    error_log          tr.err_log.text(); tr.err_log.clear() for O_TRUNC; what is
                       written is ignored
    trace              trace_text(tr) -> str (output.py); tr.ring.reset() for O_TRUNC
    trace_pipe         pipe = TracePipe(tr) (output.py), one per open file;
                       pipe.read(count) -> str, "" when there is nothing (wait, or
                       EAGAIN); pipe.ready() -> bool for poll
    tracing_on         tr.ring.on (bool, may be set)
    events/            tr.events.groups() -> list[str]
    events/GROUP/      tr.events.group(name) -> dict[name, TraceEvent], {} if absent
    events/G/E/        tr.events.find(group, name) -> TraceEvent | None
                       keep the object in the open file; event.removed: ENODEV
        enable         tr.enable_text(event); tr.enable_store(event, data)
        id             event.id
        format         event.format_text()
        filter         tr.filter_text(event); tr.filter_store(event, data)
        trigger        ts.triggers.text(tr.file(event)), .store(tr.file(event), data)
    filter of a group  DEFAULT_SYS_FILTER_MESSAGE; tr.group_filter_store(group, data)
    enable of a group  tr.group_enable_text(group); tr.group_enable_store(group, data)
    events/enable      the same with group None
    available_events   tr.available_events_text()
    set_event          tr.set_event_text(); tr.set_event_store(data) -> count consumed;
                       tr.set_event_clear() for O_TRUNC
    set_event_pid      tr.event_pids.text(); tr.set_event_pids(tr.event_pids, data)
    trace_options      tr.options (trace_options.py)
    current_tracer     tracers.py
    trace_stat/        ts.profile (profile.py)
    buffer_size_kb     tr.ring (ring_buffer.py): resize(), expand(), cpus[n].stats()
    modules            ops.module_coming(name) after kprobes' own notifier
"""

from __future__ import annotations

import errno

from kpfs.engine.errors import KernelError
from kpfs.engine.runtime.runtime import Runtime
from kpfs.engine.state import State
from kpfs.engine.trace.array.dynevent import DynEvents
from kpfs.engine.trace.array.marker import PrintEvent, RawDataEvent
from kpfs.engine.trace.array.trace_array import TraceArray
from kpfs.engine.trace.event.event_file import EventFiles
from kpfs.engine.trace.event.stack import StackEvent, StackTraces
from kpfs.engine.trace.event.static_events import static_events
from kpfs.engine.trace.event.trace_event import Events, EventWatcher, TraceEvent
from kpfs.engine.trace.event.trigger import Triggers
from kpfs.engine.trace.func.function_event import FunctionEvent
from kpfs.engine.trace.func.function_tracer import FunctionTracers
from kpfs.engine.trace.ring.cpu_ring import TRACE_BUF_SIZE_DEFAULT


class TraceState(TraceArray):
    """The first trace array, and what there is once.  Kernel: global_trace and more."""

    def __init__(
        self, st: State, runtime: Runtime, watcher: EventWatcher | None = None
    ) -> None:
        """watcher: of the events that come and go.  Context: control."""
        self.event_files = EventFiles()
        self.function_tracers = tracers = FunctionTracers(st, runtime)
        super().__init__(st, runtime, Events(watcher), self.event_files, tracers)
        self.traced_functions, self.profile = tracers.functions, tracers.profile
        self.instances: dict[str, TraceArray] = {}
        self.triggers = Triggers(runtime)
        self._stack_traces = StackTraces(runtime)
        for event in (
            FunctionEvent(self.options),
            StackEvent(),
            PrintEvent(runtime.machine),
            RawDataEvent(),
            *static_events(runtime),
        ):
            self.events.early_add(event)
        self.dyn_events = DynEvents(
            st.machine, self.events, self._text_poke, self.tracing_reset_all
        )

    def arrays(self) -> list[TraceArray]:
        return [self, *self.instances.values()]

    # ---- instances

    def mkdir(self, name: str) -> TraceArray:
        """Make an instance; EEXIST.  Context: control.  Kernel: instance_mkdir()."""
        if name in self.instances:
            raise KernelError(errno.EEXIST, f"there is an instance {name}")
        array = TraceArray(
            self.st,
            self.runtime,
            self.events,
            self.event_files,
            self.function_tracers,
            name,
        )
        array.ring.resize(TRACE_BUF_SIZE_DEFAULT)
        array.options.inherit(self.options)
        self.instances[name] = array
        return array

    def rmdir(self, name: str) -> None:
        """Remove an instance; ENODEV, EBUSY while a file of it is open.

        Context: control.  Kernel: instance_rmdir()
        """
        array = self.instances.get(name)
        if array is None:
            raise KernelError(errno.ENODEV, f"no instance {name}")
        if array.ref:
            raise KernelError(errno.EBUSY, f"a file of instance {name} is open")
        del self.instances[name]
        for file in array.files():
            self.triggers.clear(file)
        array.destroy()

    # ---- events that go

    def tracing_reset_all(self) -> None:
        """Clear each trace that an event has left records in.

        Context: control.  Kernel: tracing_reset_all_online_cpus()
        """
        for array in self.arrays():
            array.reset_after_events()

    def remove_event_call(self, event: TraceEvent) -> None:
        """Take an event out of the registry; EBUSY while it is enabled.

        Context: control.  Kernel: trace_remove_event_call().
        """
        if event.tracing:
            for array in self.arrays():
                array.clear_trace = False
            raise KernelError(errno.EBUSY, f"{event.group}:{event.name} is enabled")
        for array in self.arrays():
            file = self.event_files.find(event, array)
            array.clear_trace |= file is not None and file.was_enabled
        self.event_files.remove(event)
        self.events.remove(event)
