# SPDX-License-Identifier: GPL-2.0-or-later
"""Dynamic events and the state that the files of tracefs show.

For the files (kpfs/fs/files).  All of it is for control context, under the kernel lock;
all str are latin-1, one character per byte: encode and decode with "latin-1".

    ts = TraceState(st, runtime)   one per kernel; kpfs/kernel.py makes it
    ops = TraceKprobeOps(ts)       registers itself with ts (trace_kprobe.py)

A file of tracing/ or of an instance has a trace array, tr: ts itself, or one of
ts.instances.

    kprobe_events      ts.show(ops); ts.run_commands(data, ops); ts.release_all(ops)
    synthetic_events   the same with its ops, and ops.own_show()
    dynamic_events     ts.show(); ts.run_commands(data); ts.release_all()
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
    trace_options      tr.options (options.py)
    current_tracer     tracers.py
    trace_stat/        ts.profile (profile.py)
    buffer_size_kb     tr.ring (ring.py): resize(), expand(), cpus[n].stats()
    modules            ops.module_coming(name) after kprobes' own notifier
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Protocol

from kpfs.engine.errors import KernelError
from kpfs.engine.runtime.runtime import Runtime
from kpfs.engine.trace.array import TraceArray
from kpfs.engine.trace.event.marker import PrintEvent, RawDataEvent
from kpfs.engine.trace.event.stack import StackEvent, StackTraces
from kpfs.engine.trace.event.static_events import add_static_events
from kpfs.engine.trace.event.trace_event import Events, TraceEvent
from kpfs.engine.trace.event.trigger import Triggers
from kpfs.engine.trace.func.function_tracer import FunctionEvent, Functions
from kpfs.engine.trace.func.profile import FunctionProfile
from kpfs.engine.trace.kstr import argv_split
from kpfs.engine.trace.ring.cpu_ring import TRACE_BUF_SIZE_DEFAULT

if TYPE_CHECKING:
    from kpfs.engine.state import State

WRITE_BUFSIZE = 4096
# filter of a group, which never shows anything else
DEFAULT_SYS_FILTER_MESSAGE = """\
### global filter ###
# Use this to set filters for multiple events.
# Only events with the given fields will be affected.
# If no events are modified, an error message will be displayed here
"""


class DynEvent:
    """An event made by a command.  Kernel: struct dyn_event."""

    ops: DynEventOps
    group: str
    name: str


class DynEventOps(Protocol):
    """A kind of dynamic event.  Kernel: struct dyn_event_operations."""

    def create(self, command: str) -> bool:
        """Make what command says; False if it is not for this kind (ECANCELED)."""

    def own_command(self, command: str) -> bool:
        """Do what only this kind's own file takes; False: it takes what others do."""
        return False

    def show(self, event: DynEvent) -> str:
        """The line that would make it again, newline included."""

    def is_busy(self, event: DynEvent) -> bool: ...

    def free(self, event: DynEvent) -> None:
        """Unregister and forget it; EBUSY."""

    def match(
        self, system: str | None, name: str, argv: list[str], event: DynEvent
    ) -> bool:
        """Whether a deleting command with these words means it."""


class TraceState(TraceArray):
    """The first trace array and the dynamic events.  Kernel: global_trace and more."""

    def __init__(self, st: State, runtime: Runtime) -> None:
        """Context: control."""
        self.traced_functions = Functions(st, runtime)
        super().__init__(st, runtime, Events(), self.traced_functions)
        self.profile = FunctionProfile(runtime, self.function)
        self.traced_functions.profile = self.profile
        self.instances: dict[str, TraceArray] = {}
        self.triggers = Triggers(runtime)
        self._stack_traces = StackTraces(runtime)
        for event in (
            FunctionEvent(self),
            StackEvent(),
            PrintEvent(runtime.machine),
            RawDataEvent(),
        ):
            self.events.add(event)
        add_static_events(self.events, st.machine, runtime)
        self._ops: list[DynEventOps] = []
        self._dyn_events: dict[DynEvent, None] = {}  # in order of registration
        self._by_name: dict[str, dict[DynEvent, None]] = {}

    def arrays(self) -> list[TraceArray]:
        return [self, *self.instances.values()]

    # ---- instances

    def mkdir(self, name: str) -> TraceArray:
        """Make an instance; EEXIST.  Context: control.  Kernel: instance_mkdir()."""
        if name in self.instances:
            raise KernelError(errno.EEXIST, f"there is an instance {name}")
        functions = self.traced_functions
        array = TraceArray(self.st, self.runtime, self.events, functions, name)
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
        array.destroy()

    # ---- registry of dynamic events

    def dyn_event_register(self, ops: DynEventOps) -> None:
        self._ops.append(ops)

    def dyn_event_add(self, event: DynEvent) -> None:
        self._dyn_events[event] = None
        self._by_name.setdefault(event.name, {})[event] = None

    def dyn_event_remove(self, event: DynEvent) -> None:
        del self._dyn_events[event]
        same = self._by_name[event.name]
        del same[event]
        if not same:
            del self._by_name[event.name]

    def dyn_events(self, ops: DynEventOps | None = None) -> list[DynEvent]:
        """Those of one kind, or all, in the order in which they were added."""
        return [e for e in self._dyn_events if ops is None or e.ops is ops]

    def dyn_events_named(self, name: str) -> list[DynEvent]:
        return list(self._by_name.get(name, ()))

    # ---- kprobe_events and dynamic_events

    def show(self, ops: DynEventOps | None = None) -> str:
        """Context: control.  Kernel: probes_seq_show(), dyn_event_seq_show()."""
        return "".join([e.ops.show(e) for e in self.dyn_events(ops)])

    def run_commands(self, data: bytes, ops: DynEventOps | None = None) -> None:
        """Run the lines of one write, up to the first that fails.

        EINVAL also for a line that 4095 bytes do not hold, or with a NUL in it.
        Context: control.  Kernel: trace_parse_run_command().
        """
        done, count = 0, len(data)
        while done < count:
            chunk = data[done : done + WRITE_BUFSIZE - 1]
            length = chunk.find(0)
            length = len(chunk) if length < 0 else length
            start = 0
            while done < count:
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
        self.st.machine.log.printk(4, text)
        raise KernelError(errno.EINVAL, text)

    def run_command(self, command: str, ops: DynEventOps | None = None) -> None:
        """Create or delete.  Context: control.

        Kernel: create_or_delete_trace_kprobe(), create_dyn_event().
        """
        if ops is not None and ops.own_command(command):
            return
        if command.startswith("-" if ops else ("-", "!")):
            self.release(command, ops)
        elif not argv_split(command):
            return
        elif not any(kind.create(command) for kind in ([ops] if ops else self._ops)):
            raise KernelError(errno.EINVAL, "not a command of any kind of event")

    def release(self, command: str, ops: DynEventOps | None = None) -> None:
        """Delete every event that command names; ENOENT, EBUSY, EINVAL.

        Context: control.  Kernel: dyn_event_release().
        """
        system, name, argv = _parse_release(command)
        found = False
        try:
            for event in self.dyn_events_named(name) if name else self.dyn_events():
                if ops is not None and event.ops is not ops:
                    continue
                if event.ops.match(system, name, argv, event):
                    found = True
                    event.ops.free(event)
        finally:
            self.tracing_reset_all()
        if not found:
            raise KernelError(errno.ENOENT, f"no event {command!r}")

    def release_all(self, ops: DynEventOps | None = None) -> None:
        """Delete all of a kind, or nothing and EBUSY if one of them is in use.

        Context: control.  Kernel: dyn_events_release_all().
        """
        events = self.dyn_events(ops)
        try:
            if any(event.ops.is_busy(event) for event in events):
                raise KernelError(errno.EBUSY, "an event is in use")
            # the guest must not run before its text is as the engine believes it is
            with self.events.held(), self.st.arch.text_poke:
                for event in events:
                    event.ops.free(event)
        finally:
            self.tracing_reset_all()

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
        for file in event.files.values():
            file.array.clear_trace |= file.was_enabled
            file.free()
        event.files.clear()
        self.events.remove(event)


def _parse_release(command: str) -> tuple[str | None, str, list[str]]:
    """(group or None, event or "", further words); EINVAL.

    Kernel: dyn_event_release().
    """
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
