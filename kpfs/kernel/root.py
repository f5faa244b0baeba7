# SPDX-License-Identifier: GPL-2.0-or-later
"""One kernel: the guest, the engine on it, and the lock that both are used under.

What is not needed to answer the first request is built when it is first asked for.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kpfs.config import Config
from kpfs.engine.errors import KernelError
from kpfs.guest.machine import Guest
from kpfs.kernel.background import Background
from kpfs.kernel.host_calls import HostCalls
from kpfs.kernel.modules import ModuleSupport, PartsBuilt

if TYPE_CHECKING:
    from kpfs.engine.state import State
    from kpfs.engine.trace.dynevent import TraceState
    from kpfs.engine.trace.probe.trace_kprobe import TraceKprobeOps
    from kpfs.engine.trace.synth.trace_events_synth import TraceSynthOps
    from kpfs.kernel.event_dirs import EventDirs

DEFAULTS = Config()


def _no_mount_table(_pid: int) -> bytes:
    raise KernelError(errno.ENOENT, "there is no mount")


class Kernel:
    """The composition root.  ``lock`` is held for whatever touches what is below."""

    def __init__(
        self,
        *,
        nr_cpus: int = 2,
        quiet: bool = False,
        config: Config = DEFAULTS,
        mount_table: Callable[[int], bytes] = _no_mount_table,
    ) -> None:
        """quiet: no background tasks and a virtual clock, so that runs repeat.

        mount_table: what /proc/PID/mounts of a process of the host is to show.
        """
        self.mount_table = mount_table
        self.lock = threading.RLock()
        self.config = config
        ftrace = config.on("KPROBES_ON_FTRACE")
        self.guest = Guest(nr_cpus, quiet=quiet, dynamic_ftrace=ftrace)
        self.background = Background(self.guest, self.lock)
        self.syscalls = HostCalls(self.guest, self.background.guest_ran)
        ModuleSupport(self.guest, self)
        self._state: State | None = None
        self._trace: TraceState | None = None
        self._kprobe_events: TraceKprobeOps | None = None
        self._synthetic_events: TraceSynthOps | None = None

    # ---- the parts, each built when it is first asked for, with the lock held or not
    @property
    def state(self) -> State:
        """The kprobes core."""
        if self._state is None:
            with self.lock:
                self._state = self._state or self._make_state()
        return self._state

    @property
    def trace(self) -> TraceState:
        """What the files of tracefs are about."""
        if self._trace is None:
            with self.lock:
                self._trace = self._trace or self._make_trace()
        return self._trace

    @property
    def kprobe_events(self) -> TraceKprobeOps:
        """The kprobe events among the dynamic events."""
        if self._kprobe_events is None:
            with self.lock:
                self._kprobe_events = self._kprobe_events or self._make_kprobe_events()
        return self._kprobe_events

    @property
    def synthetic_events(self) -> TraceSynthOps:
        """The synthetic events among the dynamic events."""
        if self._synthetic_events is None:
            with self.lock:
                self._synthetic_events = (
                    self._synthetic_events or self._make_synthetic_events()
                )
        return self._synthetic_events

    @property
    def dynamic_events(self) -> TraceState:
        """trace, with all kinds of dynamic events that are configured."""
        if self.config.on("KPROBE_EVENTS"):
            _ = self.kprobe_events
        _ = self.synthetic_events
        return self.trace

    @cached_property
    def event_dirs(self) -> EventDirs:
        """What the guest knows of the directories of events."""
        from kpfs.kernel.event_dirs import EventDirs

        return EventDirs(self.guest)

    def parts_built(self) -> PartsBuilt:
        """What of it somebody has asked for."""
        return PartsBuilt(self._state, self._trace, self._kprobe_events)

    def _make_state(self) -> State:
        from kpfs.engine.arches import ARCHES
        from kpfs.engine.state import State

        return State(
            *(self.guest, ARCHES[self.guest.arch](self.guest)),
            optprobes=self.config.on("OPTPROBES"),
            kprobes_on_ftrace=self.config.on("KPROBES_ON_FTRACE"),
        )

    def _make_trace(self) -> TraceState:
        from kpfs.engine.trace.dynevent import TraceState

        # the architecture's, for it is its code that runs in the guest
        arch: Any = self.state.arch
        trace = TraceState(self.state, arch.runtime)
        trace.events.watcher = self.event_dirs
        return trace

    def _make_kprobe_events(self) -> TraceKprobeOps:
        from kpfs.engine.trace.probe.trace_kprobe import TraceKprobeOps

        return TraceKprobeOps(self.trace)

    def _make_synthetic_events(self) -> TraceSynthOps:
        from kpfs.engine.trace.synth.trace_events_synth import TraceSynthOps

        return TraceSynthOps(self.trace)

    def stats(self) -> dict[str, int]:
        """Counters of the machine."""
        return {**self.syscalls.stats(), **self.guest.stats()}

    def stop(self) -> None:
        """End the guest; nothing of this kernel may be used afterwards."""
        self.background.stop()
        with self.lock:
            self.syscalls.close()
            self.guest.close()
