# SPDX-License-Identifier: GPL-2.0-or-later
"""The function tracer: which functions call it, and for which trace arrays.

All functions are for control context.  What runs at a call is engine/runtime/trace.c.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kpfs.engine.errors import KernelError
from kpfs.engine.ktypes import KAddr
from kpfs.engine.runtime.runtime import HC_FN_PROBE, MAIL0, MAIL_RET, Runtime
from kpfs.engine.trace.event.fields import Field
from kpfs.engine.trace.event.trace_event import Printer, SymbolText, TraceEvent
from kpfs.engine.trace.func.func_probe import COMMANDS, FunctionProbes
from kpfs.engine.trace.func.glob import glob
from kpfs.engine.trace.kstr import is_digit, simple_strtoul
from kpfs.engine.trace.pids import GuestSet, PidSet

if TYPE_CHECKING:
    from kpfs.engine.state import State
    from kpfs.engine.trace.array import TraceArray
    from kpfs.engine.trace.func.profile import FunctionProfile

TRACE_FN = 1
_IP_PARENT = struct.Struct("<QQ")


class Function(NamedTuple):
    """One that can be traced.  Kernel: struct dyn_ftrace."""

    addr: KAddr
    name: str
    module: str

    def text(self) -> str:
        module = f" [{self.module}]" if self.module else ""
        return f"{self.name}{module}\n"


class FunctionEvent(TraceEvent):
    """Kernel: TRACE_FN, trace_fn_event."""

    ignore_enable = True

    def __init__(self, array: TraceArray) -> None:
        super().__init__("ftrace", "function")
        self.id = TRACE_FN
        self._array = array

    def fields(self) -> Sequence[Field]:
        return (
            Field("unsigned long", "ip", 8, 8, False),
            Field("unsigned long", "parent_ip", 16, 8, False),
        )

    def print_fmt(self) -> str:
        return '" %ps <-- %ps", (void *)REC->ip, (void *)REC->parent_ip'

    def printer(self, symbol: SymbolText) -> Printer:
        """Kernel: trace_fn_trace()"""
        unpack = _IP_PARENT.unpack_from
        parents = self._array.options["print-parent"]
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


class Functions:
    """All functions that can be traced, and who traces which."""

    def __init__(self, st: State, runtime: Runtime) -> None:
        self._st = st
        self._runtime = runtime
        self._patched: set[KAddr] = set()
        self._all: list[Function] | None = None
        self.tracers: list[FunctionTracer] = []  # active ones
        self.all_tracers: list[FunctionTracer] = []
        self.profile: FunctionProfile | None = None
        runtime.machine.traps.on_hypercall(HC_FN_PROBE, self._hit)

    def _hit(self, cpu: int) -> None:
        """A function with commands is called.  Context: hit."""
        mail = self._runtime.cpus[cpu]
        ip, array = mail.words[mail.base + MAIL0 : mail.base + MAIL0 + 2]
        mail.words[mail.base + MAIL_RET] = int(
            any(
                tracer.probes.run(KAddr(ip))
                for tracer in self.all_tracers
                if tracer.array.guest.addr == array
            )
        )

    def all(self) -> list[Function]:
        """In the order of available_filter_functions."""
        if self._all is None:
            machine = self._st.machine
            self._all = []
            for addr in machine.text.ftrace_locations():
                symbol = machine.kallsyms.symbol_at(addr)
                if symbol is not None:
                    self._all.append(Function(addr, symbol.name, symbol.module))
        return self._all

    def modules_changed(self, going: str = "") -> None:
        """A module has come, has lost its init part, or that one is about to go."""
        self._all = None
        self._all = [f for f in self.all() if not going or f.module != going]
        here = {f.addr for f in self._all}
        self._st.arch.ftrace.gone(self._patched - here)
        self._patched &= here
        for tracer in self.all_tracers:
            tracer.modules_changed(here)
        self.update()

    def update(self) -> None:
        """Patch what has to call the tracer now, and tell guest code for whom.

        Kernel: ftrace_startup(), ftrace_shutdown()
        """
        profiled = self.profile.chosen() if self.profile else ()
        commanded: set[KAddr] = set()
        for tracer in self.all_tracers:
            commanded |= tracer.probes.functions()
        wanted = commanded.union(profiled)
        everything = None
        for tracer in self.tracers:
            chosen = tracer.chosen()
            if chosen is None:
                everything = everything or {f.addr for f in self.all()}
                chosen = everything - tracer.notrace
            wanted |= chosen
        add, remove = wanted - self._patched, self._patched - wanted
        self._st.arch.ftrace.trace(add, remove)
        self._patched = wanted
        following = 0
        shared = len(self.tracers) > 1 or bool(profiled) or bool(commanded)
        for tracer in reversed(self.tracers):
            tracer.tell(following, shared)
            following = tracer.array.guest.addr
        symbols = self._runtime.symbols
        self._st.machine.write_u64(symbols["kp_fn_arrays"], following)
        following = 0
        for tracer in reversed(self.all_tracers):
            following = tracer.probes.tell(following)
        self._st.machine.write_u64(symbols["kp_fn_probe_arrays"], following)
        if self.profile:
            self.profile.tell(profiled)

    def match(self, pattern: str, module: str | None = None) -> set[KAddr]:
        """The functions that a word of set_ftrace_filter means.

        Kernel: match_records()
        """
        if is_digit(pattern[:1]):
            index = simple_strtoul(pattern)[0]
            functions = self.all()
            return {functions[index - 1].addr} if 0 < index <= len(functions) else set()
        any_name = not pattern and module is not None
        fits = (lambda _name: True) if any_name else glob(pattern)
        return {
            f.addr
            for f in self.all()
            if (module is None or fits_module(module, f.module)) and fits(f.name)
        }

    def text(self, chosen: Collection[KAddr]) -> str:
        return "".join(f.text() for f in self.all() if f.addr in chosen)


def fits_module(wanted: str, module: str) -> bool:
    """``*`` is any module, ``!name`` all but that one.

    Kernel: ftrace_match_record()
    """
    if wanted in ("", "*", "!"):
        return bool(module) != (wanted == "!")
    if wanted.startswith("!"):
        return not glob(wanted[1:])(module)
    return bool(module) and glob(wanted)(module)


class FunctionTracer:
    """What one trace array traces.  Kernel: trace_array.ops and its hashes."""

    def __init__(self, array: TraceArray, functions: Functions) -> None:
        self.array = array
        self.functions = functions
        self.filter: set[KAddr] = set()  # empty: all
        self.notrace: set[KAddr] = set()
        # of modules that are not loaded, newest first: (functions, module)
        self.filter_mods: list[tuple[str, str]] = []
        self.notrace_mods: list[tuple[str, str]] = []
        self.probes = FunctionProbes(array)
        self.pids = PidSet(array.runtime)
        self.no_pids = PidSet(array.runtime)
        self._hash: GuestSet | None = None
        functions.all_tracers.append(self)

    @property
    def active(self) -> bool:
        return (
            self.array.current_tracer == "function"
            and self.array.options["function-trace"]
        )

    def update(self) -> None:
        """Something about this tracer has changed."""
        tracers = self.functions.tracers
        if self.active and self not in tracers:
            tracers.append(self)
        elif not self.active and self in tracers:
            tracers.remove(self)
        self.functions.update()

    def chosen(self) -> set[KAddr] | None:
        """The functions that it traces; None: all but self.notrace."""
        some = self.filter or self.filter_mods
        return self.filter - self.notrace if some else None

    def modules_changed(self, here: set[KAddr]) -> None:
        """Forget functions that are gone; take what was chosen of a module that came.

        Kernel: ftrace_release_mod(), process_cached_mods()
        """
        self.probes.forget(self.probes.functions() - here)
        self.filter &= here
        self.notrace &= here
        modules = {f.module for f in self.functions.all()}
        for chosen, mods in (
            (self.filter, self.filter_mods),
            (self.notrace, self.notrace_mods),
        ):
            for pattern, module in [m for m in mods if m[1] in modules]:
                mods.remove((pattern, module))
                chosen |= self.functions.match(pattern, module)

    def destroy(self) -> None:
        """The array is going."""
        self.probes.forget(self.probes.functions())
        self.functions.all_tracers.remove(self)
        self.functions.update()

    def tell(self, following: int, shared: bool) -> None:
        """Tell guest code; shared: others have functions patched that this has not."""
        guest, old = self.array.guest, self._hash
        self._hash = None
        if shared:
            chosen = self.chosen()
            if chosen is None and self.notrace:
                everything = {f.addr for f in self.functions.all()}
                chosen = everything - self.notrace
            if chosen is not None:
                self._hash = GuestSet(self.array.runtime, chosen)
        guest.fn_hash = self._hash.addr if self._hash else 0
        guest.fn_next = following
        guest.fn_pids, guest.fn_no_pids = self.pids.addr, self.no_pids.addr
        if old is not None:
            old.free()

    def set_pids(self, pids: PidSet, data: bytes | None) -> int:
        """Write pids or no_pids, or clear it; bytes consumed.  Kernel: pid_write()"""
        used = 0
        if data is None:
            pids.clear()
        elif data:
            used = pids.write(data)
        self.array.guest.fn_pids = self.pids.addr
        self.array.guest.fn_no_pids = self.no_pids.addr
        return used


class Words(NamedTuple):
    """What a word of one of the filter files may change."""

    functions: Functions
    chosen: set[KAddr]
    mods: list[tuple[str, str]] | None  # None: it is no trace array's
    probes: FunctionProbes | None  # None: there are no commands

    def take(self, word: str) -> None:
        """EINVAL, ENODEV and those of commands.  Kernel: ftrace_process_regex()"""
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
            self.probes.store(self.functions, pattern, command, param if more else None)

    def _choose(self, pattern: str, module: str | None) -> bool:
        """Kernel: match_records()"""
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
