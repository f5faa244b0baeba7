# SPDX-License-Identifier: GPL-2.0-or-later
"""The function tracer: which functions call it, for which trace arrays; its event.

All functions are for control context.  Calls are recorded by engine/runtime/trace.c.
"""

from __future__ import annotations

import errno
import struct
from functools import partial
from typing import NamedTuple

from kpfs.base.abi import HC_FN_PROBE
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KAddr
from kpfs.engine.runtime.records import MAIL0, MAIL_RET
from kpfs.engine.runtime.runtime import Runtime
from kpfs.engine.state import State
from kpfs.engine.trace.event.event_file import EventArray
from kpfs.engine.trace.event.fields import Field
from kpfs.engine.trace.event.trace_event import FtraceEvent, Printer, SymbolText
from kpfs.engine.trace.event.trigger import COMMANDS
from kpfs.engine.trace.func.func_probe import FunctionProbes
from kpfs.engine.trace.func.functions import Functions
from kpfs.engine.trace.func.profile import FunctionProfile
from kpfs.engine.trace.pids import GuestSet, PidSet
from kpfs.engine.trace.trace_options import Options

TRACE_FN = 1
_IP_PARENT = struct.Struct("<QQ")


class FunctionTracers:
    """All function tracers, and functions patched for them.  Kernel: ftrace_ops_list"""

    def __init__(self, st: State, runtime: Runtime) -> None:
        self._st = st
        self._runtime = runtime
        self.functions = Functions(st.machine)
        self._patched: set[KAddr] = set()
        self._all: list[FunctionTracer] = []  # the first array's first
        self._active: list[FunctionTracer] = []
        # counts what the first array's filters choose
        self.profile = FunctionProfile(runtime, self.update)
        runtime.machine.traps.on_hypercall(HC_FN_PROBE, self._hit)

    def _hit(self, cpu: int) -> None:
        """Run the commands of a function that is called.  Context: hit."""
        mail = self._runtime.cpus[cpu]
        ip, array = mail.words[mail.base + MAIL0 : mail.base + MAIL0 + 2]
        mail.words[mail.base + MAIL_RET] = int(
            any(
                tracer.probes.run(KAddr(ip))
                for tracer in self._all
                if tracer.array.guest.addr == array
            )
        )

    def add(self, tracer: FunctionTracer) -> None:
        self._all.append(tracer)

    def remove(self, tracer: FunctionTracer) -> None:
        """Forget a tracer whose array is deleted."""
        self._all.remove(tracer)
        self.update()

    def switch(self, tracer: FunctionTracer, on: bool) -> None:
        """Have a tracer trace, or stop it."""
        if on and tracer not in self._active:
            self._active.append(tracer)
        elif not on and tracer in self._active:
            self._active.remove(tracer)
        self.update()

    def modules_changed(self, going: str = "") -> None:
        """A module has come or has lost its init part, or the module going will go."""
        here = self.functions.modules_changed(going)
        self._st.arch.ftrace.gone(self._patched - here)
        self._patched &= here
        for tracer in self._all:
            tracer.modules_changed(here)
        self.update()

    def update(self) -> None:
        """Patch the functions that must call the tracer, and tell guest code for whom.

        Kernel: ftrace_startup(), ftrace_shutdown()
        """
        profiled = self._all[0].chosen() if self.profile.enabled else set()
        commanded: set[KAddr] = set()
        for tracer in self._all:
            commanded |= tracer.probes.functions()
        wanted = commanded.union(profiled, *(t.chosen() for t in self._active))
        add, remove = wanted - self._patched, self._patched - wanted
        self._st.arch.ftrace.trace(add, remove)
        self._patched = wanted
        following = 0
        shared = len(self._active) > 1 or bool(profiled) or bool(commanded)
        for tracer in reversed(self._active):
            tracer.tell(following, shared)
            following = tracer.array.guest.addr
        symbols = self._runtime.symbols
        self._st.machine.write_u64(symbols["kp_fn_arrays"], following)
        following = 0
        for tracer in reversed(self._all):
            following = tracer.probes.tell(following)
        self._st.machine.write_u64(symbols["kp_fn_probe_arrays"], following)
        self.profile.tell(profiled)


class FunctionTracer:
    """The functions that a trace array traces.  Kernel: trace_array.ops, its hashes."""

    def __init__(self, array: EventArray, tracers: FunctionTracers) -> None:
        self.array = array
        self._tracers = tracers
        self._functions = tracers.functions
        self.filter: set[KAddr] = set()  # empty: all
        self.notrace: set[KAddr] = set()
        # of modules that are not loaded, newest first: (functions, module)
        self.filter_mods: list[tuple[str, str]] = []
        self.notrace_mods: list[tuple[str, str]] = []
        self.probes = FunctionProbes(array, tracers.functions, tracers.update)
        guest = array.guest
        self.pids = PidSet(array.runtime, partial(setattr, guest, "fn_pids"))
        self.no_pids = PidSet(array.runtime, partial(setattr, guest, "fn_no_pids"))
        self._hash: GuestSet | None = None
        tracers.add(self)

    def switch(self, on: bool) -> None:
        """Start tracing, or stop."""
        self._tracers.switch(self, on)

    def update(self) -> None:
        """Patch and tell guest code anew, as what it traces has changed."""
        self._tracers.update()

    def chosen(self) -> set[KAddr]:
        """Return the functions that it traces."""
        if self.filter or self.filter_mods:
            return self.filter - self.notrace
        return {f.addr for f in self._functions.all()} - self.notrace

    def modules_changed(self, here: set[KAddr]) -> None:
        """Forget functions that are gone; take what was chosen of a module that came.

        Kernel: ftrace_release_mod(), process_cached_mods()
        """
        self.probes.forget(self.probes.functions() - here)
        self.filter &= here
        self.notrace &= here
        modules = {f.module for f in self._functions.all()}
        for chosen, mods in (
            (self.filter, self.filter_mods),
            (self.notrace, self.notrace_mods),
        ):
            for pattern, module in [m for m in mods if m[1] in modules]:
                mods.remove((pattern, module))
                chosen |= self._functions.match(pattern, module)

    def destroy(self) -> None:
        """Clean up, as the array is deleted."""
        self.probes.forget(self.probes.functions())
        self._tracers.remove(self)
        self.pids.clear()
        self.no_pids.clear()

    def tell(self, following: int, shared: bool) -> None:
        """Tell guest code; shared: functions may be patched that others want."""
        guest, old = self.array.guest, self._hash
        self._hash = None
        if shared and (self.filter or self.filter_mods or self.notrace):
            self._hash = GuestSet(self.array.runtime, self.chosen())
        guest.fn_hash = self._hash.addr if self._hash else 0
        guest.fn_next = following
        if old is not None:
            old.free()

    def set_pids(self, pids: PidSet, data: bytes | None) -> int:
        """Write to pids or no_pids, None clears; return bytes.  Kernel: pid_write()"""
        if data is None:
            pids.clear()
        return pids.write(data) if data else 0


class FilterState(NamedTuple):
    """The state that words written to a filter file may change."""

    functions: Functions
    chosen: set[KAddr]
    mods: list[tuple[str, str]] | None  # None: the file belongs to no trace array
    probes: FunctionProbes | None  # None: the file takes no commands

    def take(self, word: str) -> None:
        """Do what a word says; EINVAL, ENODEV, and the errors of commands.

        Kernel: ftrace_process_regex()
        """
        pattern, colon, rest = word.partition(":")
        command, more, param = rest.partition(":")
        if not colon:
            if not self._choose(pattern, None):
                raise KernelError(errno.EINVAL, f"no function {pattern!r}")
            return
        if command != "mod" and command not in COMMANDS:
            raise KernelError(errno.EINVAL, f"no command {command!r}")
        if self.mods is None:
            raise KernelError(errno.ENODEV, "commands are for trace arrays")
        if command == "mod":
            module = param.partition(":")[0] if more else None
            if not self._choose(pattern, module):
                self._cache(self.mods, pattern, param)
        elif self.probes is None:
            raise KernelError(errno.EINVAL, "commands are for set_ftrace_filter")
        else:
            self.probes.store(pattern, command, param if more else None)

    def _choose(self, pattern: str, module: str | None) -> bool:
        """Add functions, or remove them if it says "!".  Kernel: match_records()"""
        found = self.functions.match(pattern.removeprefix("!"), module)
        if pattern.startswith("!"):
            self.chosen.difference_update(found)
        else:
            self.chosen.update(found)
        return bool(found)

    def _cache(self, mods: list[tuple[str, str]], pattern: str, module: str) -> None:
        """Remember it until the module comes; EINVAL.  Kernel: cache_mod()"""
        if pattern.startswith("!"):
            gone = [m for m in mods if m[1] == module and pattern[1:] in (m[0], "*")]
            for mod in gone:
                mods.remove(mod)
            if not gone:
                raise KernelError(errno.EINVAL, "nothing is remembered of it")
        elif any(f.module == module for f in self.functions.all() if module):
            raise KernelError(errno.EINVAL, f"no such function in {module}")
        else:
            mods.insert(0, (pattern, module))


class FunctionEvent(FtraceEvent):
    """A call of a function, and its caller.  Kernel: TRACE_FN, trace_fn_event."""

    def __init__(self, options: Options) -> None:
        super().__init__(
            "function",
            TRACE_FN,
            '" %ps <-- %ps", (void *)REC->ip, (void *)REC->parent_ip',
            Field("unsigned long", "ip", 8, 8, False),
            Field("unsigned long", "parent_ip", 16, 8, False),
        )
        self._options = options

    def printer(self, symbol: SymbolText) -> Printer:
        """Kernel: trace_fn_trace()"""
        unpack = _IP_PARENT.unpack_from
        parents = self._options["print-parent"]
        known: dict[tuple[int, int], str] = {}

        def show(pages: memoryview, record: int) -> str:
            key = unpack(pages, record + 8)
            text = known.get(key)
            if text is None:
                text = symbol(key[0], False)
                if parents and key[1]:
                    text += f" <-{symbol(key[1], False)}"
                text += "\n"
                known[key] = text
            return text

        return show
