# SPDX-License-Identifier: GPL-2.0-or-later
"""The first trace array with its instances, and what all trace arrays share.

The files of tracing/ (kpfs/backends/guest/files) show and change it.  A file there or
of an instance has a trace array, which is TraceState itself or one of its
``instances``; the dynamic events are ``dyn_events``, with which each kind of them
registers itself.
All of it is for control context, under the kernel's lock.  Text is str with one
character per byte: encode and decode it with "latin-1".
"""

from __future__ import annotations

import errno

from kpfs.base.errors import KernelError
from kpfs.engine.runtime.runtime import Runtime
from kpfs.engine.state import State
from kpfs.engine.trace.array.dynevent import DynEvents
from kpfs.engine.trace.array.marker import PrintEvent, RawDataEvent
from kpfs.engine.trace.array.trace_array import TraceArray
from kpfs.engine.trace.event.event_file import EventFiles, enable_disable
from kpfs.engine.trace.event.stack import StackEvent, StackTraces
from kpfs.engine.trace.event.static_events import (
    KernelEvent,
    module_events,
    static_events,
)
from kpfs.engine.trace.event.trace_event import Events, EventWatcher, TraceEvent
from kpfs.engine.trace.event.trigger import Triggers
from kpfs.engine.trace.follow_fork import FollowFork
from kpfs.engine.trace.func.function_tracer import FunctionEvent, FunctionTracers


class TraceState(TraceArray):
    """The first trace array, and what all share.  Kernel: global_trace and more."""

    def __init__(
        self, st: State, runtime: Runtime, watcher: EventWatcher | None = None
    ) -> None:
        """watcher: is told of events that come and go."""
        self.event_files = EventFiles()
        self.function_tracers = tracers = FunctionTracers(st, runtime)
        self.follow_fork = FollowFork(runtime)
        events, files = Events(watcher), self.event_files
        super().__init__(st, runtime, events, files, tracers, self.follow_fork)
        self.traced_functions, self.profile = tracers.functions, tracers.profile
        self.instances: dict[str, TraceArray] = {}
        # by instance: entries that were lost to newer ones, and for lack of room
        self._lost: dict[str, tuple[int, int]] = {}
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
            st.machine,
            self.events,
            st.arch.text_poke,
            self.tracing_reset_all,
        )

    def arrays(self) -> list[TraceArray]:
        return [self, *self.instances.values()]

    def lost(self) -> dict[str, tuple[int, int]]:
        """Return CpuRing.lost() by instance, of all that there ever were."""
        found = dict(self._lost)
        for array in self.arrays():
            rows = [found.get(array.name, (0, 0))]
            rows += [ring.lost() for ring in array.ring.cpus]
            found[array.name] = sum(row[0] for row in rows), sum(row[1] for row in rows)
        return found

    # ---- instances

    def mkdir(self, name: str) -> TraceArray:
        """Make an instance; EEXIST, ENOMEM.  Kernel: instance_mkdir()"""
        if name in self.instances:
            raise KernelError(errno.EEXIST, f"there is an instance {name}")
        array = TraceArray(
            self.st,
            self.runtime,
            self.events,
            self.event_files,
            self.function_tracers,
            self.follow_fork,
            name,
        )
        array.options.inherit(self.options)
        self.instances[name] = array
        return array

    def rmdir(self, name: str) -> None:
        """Remove an instance; ENODEV; EBUSY: open.  Kernel: instance_rmdir()"""
        array = self.instances.get(name)
        if array is None:
            raise KernelError(errno.ENODEV, f"no instance {name}")
        if array.ref:
            raise KernelError(errno.EBUSY, f"a file of instance {name} is open")
        self._lost[name] = self.lost()[name]
        del self.instances[name]
        for file in array.array_events.files():
            self.triggers.clear(file)
        array.destroy()

    # ---- events of modules

    def module_coming(self, name: str) -> None:
        """Add the events of a module.  Kernel: trace_module_add_events()"""
        with self.events:
            for event in module_events(self.runtime, name):
                found = self.events.find(event.group, event.name)
                if found is None:
                    self.events.add(event)

    def module_going(self, name: str) -> None:
        """Remove them, also while they are on.  Kernel: trace_module_remove_events()"""
        gone = [
            event
            for event in self.events
            if isinstance(event, KernelEvent) and event.module == name
        ]
        with self.events:
            for event in gone:
                for array in self.arrays():
                    file = self.event_files.find(event, array)
                    if file is not None:
                        self.triggers.clear(file)
                        enable_disable(file, False)
                self.remove_event_call(event)
                event.forget()

    # ---- events that go

    def tracing_reset_all(self) -> None:
        """Clear each trace in which a deleted event may have left records."""
        for array in self.arrays():
            array.reset_after_events()

    def remove_event_call(self, event: TraceEvent) -> None:
        """Remove an event; EBUSY: enabled.  Kernel: trace_remove_event_call()."""
        if event.tracing:
            for array in self.arrays():
                array.clear_trace = False
            raise KernelError(errno.EBUSY, f"{event.group}:{event.name} is enabled")
        for array in self.arrays():
            file = self.event_files.find(event, array)
            array.clear_trace |= file is not None and file.was_enabled
        self.event_files.remove(event)
        self.events.remove(event)
