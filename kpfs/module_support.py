# SPDX-License-Identifier: GPL-2.0-or-later
"""What guest modules have to do with the engine: their probes, and those in their text.

Nothing of the engine is built before a module asks for it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from kpfs import abi
from kpfs.guest.loader.modules import INIT_FREED

if TYPE_CHECKING:
    from kpfs.engine.guest_api import GuestApi
    from kpfs.engine.trace.synth.synth_api import SynthApi
    from kpfs.kernel import Kernel

API_CALLS = range(abi.CTL_KPROBES, abi.CTL_KPROBES_HANDLED + 1)
TRACE_CALLS = range(abi.CTL_TRACE_GET_FILE, abi.CTL_TRACE_DIR + 1)


class ModuleSupport:
    """Serves modules the APIs of probes and events, tells the engine of the modules.

    Context: control, lock held.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        kernel.guest.control.register(API_CALLS, self._serve)
        kernel.guest.control.register(TRACE_CALLS, self._serve_trace)
        kernel.guest.modules.notifiers.append(self._notify)
        kernel.guest.modules.keep_init_names = self._ftrace_in_use

    @cached_property
    def api(self) -> GuestApi:
        from kpfs.engine.guest_api import GuestApi

        return GuestApi(lambda: self._kernel.state)

    def _serve(self, number: int, first: int, second: int) -> int:
        return self.api.serve(number, first, second)

    @cached_property
    def trace_api(self) -> SynthApi:
        from kpfs.engine.trace.synth.synth_api import SynthApi

        kernel = self._kernel
        return SynthApi(lambda: (kernel.trace, kernel.synthetic_events))

    def _serve_trace(self, number: int, first: int, second: int) -> int:
        dirs = self._kernel.event_dirs
        if number == abi.CTL_TRACE_DIR:
            return dirs.update(first)
        dirs.deferred = True
        try:
            return self.trace_api.serve(number, first, second)
        finally:
            dirs.deferred = False

    def _notify(self, state: str, module: str) -> None:
        """Tell the tracers and the engine.

        Kernel: ftrace_module_init(), kprobe_module_nb, trace_kprobe_module_nb,
        trace_module_nb
        """
        st, kprobe_events = self._kernel.parts_built()
        if st is None:
            return
        trace = self._kernel.trace_built()
        if trace is not None and state != "LIVE":
            going = module if state == "GOING" else ""
            trace.traced_functions.modules_changed(going)
        if state == INIT_FREED:
            return
        from kpfs.engine.register import kprobes_module_callback
        from kpfs.engine.state import ModuleState

        kprobes_module_callback(st, ModuleState[state], module)
        if state == "COMING" and kprobe_events is not None:
            kprobe_events.module_coming(module)
        if state == "GOING" and trace is not None:
            trace.tracing_reset_all()
        if "api" in self.__dict__:
            self.api.sync_flags()

    def _ftrace_in_use(self) -> bool:
        """Whether a call stands over any entry nop.  Kernel: ftrace_ops_list"""
        st, _ = self._kernel.parts_built()
        if st is None or st.kprobes_all_disarmed:
            return False
        from kpfs.engine.kprobe import kprobe_disabled, kprobe_ftrace

        return any(
            kprobe_ftrace(p) and not kprobe_disabled(p) for p in st.table_entries()
        )
