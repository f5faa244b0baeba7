# SPDX-License-Identifier: GPL-2.0-or-later
"""tracing/instances/: trace arrays beside the first one, made and removed at will."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from kpfs.backends.guest.files import (
    buffers,
    dynevents,
    events,
    options,
    tracers,
    tracing,
)
from kpfs.backends.guest.files.array_file import bind
from kpfs.backends.guest.files.guest_file import (
    DIR_MODE,
    GuestDir,
    Row,
    populate_configured,
)
from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.base.typed import TYPE_CHECKING
from kpfs.fs.node import Dir, Node

if TYPE_CHECKING:
    from kpfs.engine.trace.array.trace_array import TraceArray


# Files that each trace array has, the first one too.
ARRAY_FILES: tuple[Row, ...] = (
    ("trace", 0o640, tracing.Trace),
    ("trace_pipe", 0o440, tracing.TracePipeFile),
    ("tracing_on", 0o640, tracing.TracingOn),
    ("trace_options", 0o640, options.TraceOptions),
    ("options", DIR_MODE, options.OptionsDir),
    ("trace_marker", 0o220, options.TraceMarker),
    ("trace_marker_raw", 0o220, options.TraceMarkerRaw),
    ("trace_clock", 0o640, buffers.TraceClock),
    ("timestamp_mode", 0o440, buffers.TimestampMode),
    ("tracing_cpumask", 0o640, buffers.TracingCpumask),
    ("buffer_size_kb", 0o640, tracing.BufferSize),
    ("buffer_total_size_kb", 0o440, tracing.BufferTotalSize),
    ("buffer_percent", 0o640, buffers.BufferPercent),
    ("free_buffer", 0o200, buffers.FreeBuffer),
    ("snapshot", 0o640, buffers.SnapshotFile),
    ("per_cpu", DIR_MODE, tracing.PerCpuDir),
    ("error_log", 0o640, dynevents.ErrorLogFile),
    ("current_tracer", 0o640, tracers.CurrentTracer),
    ("available_tracers", 0o440, tracers.AvailableTracers),
    ("set_ftrace_filter", 0o640, tracers.FunctionFilter),
    ("set_ftrace_notrace", 0o640, tracers.FunctionNotrace),
    ("set_ftrace_pid", 0o640, tracers.SetFtracePid),
    ("set_ftrace_notrace_pid", 0o640, tracers.SetFtraceNotracePid),
    ("set_event", 0o640, events.SetEvent),
    ("set_event_pid", 0o640, tracers.SetEventPid),
    ("set_event_notrace_pid", 0o640, tracers.SetEventNotracePid),
    ("events", DIR_MODE, events.EventsDir),
    ("events/enable", 0o640, events.GroupEnable),
)


class InstanceDir(Dir):
    """instances/NAME/."""

    def __init__(self, kernel: GuestKernel, array: TraceArray) -> None:
        super().__init__(DIR_MODE)
        populate_configured(self, ARRAY_FILES, kernel, "tracing/")
        bind(self, array)


class InstancesDir(GuestDir):
    """instances/, where alone mkdir() and rmdir() are allowed."""

    def entry(self, name: str) -> Node | None:
        array = self.kernel.trace.instances.get(name)
        return self.keep(name, array, partial(InstanceDir, self.kernel))

    def entries(self) -> Iterable[str]:
        return list(self.kernel.trace.instances)

    def mkdir(self, name: str) -> None:
        self.kernel.trace.mkdir(name)

    def rmdir(self, name: str) -> None:
        self.kernel.trace.rmdir(name)
