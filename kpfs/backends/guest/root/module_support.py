# SPDX-License-Identifier: GPL-2.0-or-later
"""Serve guest modules by the engine: their own probes, and probes in their text.

Nothing of the engine is built before a module asks for it.
"""

from __future__ import annotations

import errno
from functools import cached_property

from kpfs.base import abi
from kpfs.base.typed import TYPE_CHECKING, NamedTuple, Protocol
from kpfs.guest.loader.modules import INIT_FREED

if TYPE_CHECKING:
    from kpfs.backends.guest.root.event_dirs import EventDirs
    from kpfs.engine.guest_api import GuestApi
    from kpfs.engine.state import State
    from kpfs.engine.trace.array.trace_state import TraceState
    from kpfs.engine.trace.probe.trace_kprobe import TraceKprobeOps
    from kpfs.engine.trace.synth.synth_api import SynthApi
    from kpfs.engine.trace.synth.trace_events_synth import TraceSynthOps
    from kpfs.guest.machine import Guest


class PartsBuilt(NamedTuple):
    """The parts of the engine that are built; None: nobody has asked for it yet."""

    state: State | None
    trace: TraceState | None
    kprobe_events: TraceKprobeOps | None


class Parts(Protocol):
    """The parts of the engine, each built when it is first asked for."""

    @property
    def state(self) -> State: ...

    @property
    def trace(self) -> TraceState: ...

    @property
    def synthetic_events(self) -> TraceSynthOps: ...

    @property
    def event_dirs(self) -> EventDirs: ...

    def parts_built(self) -> PartsBuilt: ...


class ModuleSupport:
    """The APIs of probes and events for modules, and the engine's news of modules.

    Context: control, lock held.
    """

    def __init__(self, guest: Guest, parts: Parts) -> None:
        self._parts = parts
        guest.control.attach(self._serve)
        guest.modules.attach(self._notify, self._ftrace_in_use)

    @cached_property
    def api(self) -> GuestApi:
        from kpfs.engine.guest_api import GuestApi

        return GuestApi(lambda: self._parts.state)

    @cached_property
    def trace_api(self) -> SynthApi:
        from kpfs.engine.trace.synth.synth_api import SynthApi

        parts = self._parts
        return SynthApi(lambda: (parts.trace, parts.synthetic_events))

    def _serve(self, number: int, first: int, second: int) -> int:
        """Serve the calls that are the engine's. See kpfs.guest.running.control."""
        if number <= abi.CTL_KPROBE_CTLBLK:
            return self.api.serve(number, first, second)
        dirs = self._parts.event_dirs
        if number == abi.CTL_TRACE_DIR:
            return dirs.update(first, second)
        if not abi.CTL_TRACE_GET_FILE <= number <= abi.CTL_SYNTH_SIZE:
            return -errno.ENOSYS
        with dirs.deferred():
            return self.trace_api.serve(number, first, second)

    def _notify(self, state: str, module: str) -> None:
        """Tell the tracers and the engine of a module's new state.

        The guest makes and removes the directories of its events afterwards.

        Kernel: ftrace_module_init(), kprobe_module_nb, trace_kprobe_module_nb,
        trace_module_nb
        """
        st, trace, kprobe_events = self._parts.parts_built()
        if st is None:
            return
        if trace is not None and state != "LIVE":
            going = module if state == "GOING" else ""
            trace.function_tracers.modules_changed(going)
        if state == INIT_FREED:
            return
        from kpfs.engine.register import kprobes_module_callback
        from kpfs.engine.state import ModuleState

        gone = kprobes_module_callback(st, ModuleState[state], module)
        if state == "COMING" and kprobe_events is not None:
            kprobe_events.module_coming(module)
        if trace is not None and state in ("COMING", "GOING"):
            with self._parts.event_dirs.deferred():
                if state == "COMING":
                    trace.module_coming(module)
                else:
                    trace.module_going(module)
                    trace.tracing_reset_all()
        if gone and "api" in self.__dict__:
            self.api.sync_flags()

    def _ftrace_in_use(self) -> bool:
        """Return True if a call stands over any entry nop.  Kernel: ftrace_ops_list"""
        st = self._parts.parts_built().state
        if st is None or st.kprobes_all_disarmed:
            return False
        from kpfs.engine.kprobe import kprobe_disabled, kprobe_ftrace

        return any(
            kprobe_ftrace(p) and not kprobe_disabled(p) for p in st.table_entries()
        )
