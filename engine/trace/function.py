# SPDX-License-Identifier: GPL-2.0-or-later
"""The function tracer: which functions call it, and for which trace arrays.

All functions are for control context.  What runs at a call is guest/runtime/trace.c.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import KernelError
from engine.ktypes import KAddr
from engine.runtime import Runtime
from engine.trace.events import Printer, SymbolText, TraceEvent
from engine.trace.fields import Field
from engine.trace.glob import glob
from engine.trace.kstr import is_digit
from engine.trace.pids import GuestSet, PidSet

if TYPE_CHECKING:
    from engine.state import State
    from engine.trace.array import TraceArray
    from engine.trace.profile import FunctionProfile

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
        self.profile: FunctionProfile | None = None

    def all(self) -> list[Function]:
        """In the order of available_filter_functions."""
        if self._all is None:
            machine = self._st.machine
            self._all = []
            for addr in machine.ftrace_locations():
                symbol = machine.symbol_at(addr)
                if symbol is not None:
                    self._all.append(Function(addr, symbol.name, symbol.module))
        return self._all

    def modules_changed(self) -> None:
        """A module has come or is about to go."""
        self._all = None
        here = set(self._st.machine.ftrace_locations())
        gone = self._patched - here
        self._patched -= gone
        self._st.arch.ftrace_gone(gone)
        self.update()

    def update(self) -> None:
        """Patch what has to call the tracer now, and tell guest code for whom.

        Kernel: ftrace_startup(), ftrace_shutdown()
        """
        profiled = self.profile.chosen() if self.profile else ()
        wanted = set(profiled)
        everything = None
        for tracer in self.tracers:
            chosen = tracer.chosen()
            if chosen is None:
                everything = everything or {f.addr for f in self.all()}
                chosen = everything - tracer.notrace
            wanted |= chosen
        add, remove = wanted - self._patched, self._patched - wanted
        self._st.arch.ftrace_trace(add, remove)
        self._patched = wanted
        following = 0
        shared = len(self.tracers) > 1 or bool(profiled)
        for tracer in reversed(self.tracers):
            tracer.tell(following, shared)
            following = tracer.array.guest.addr
        symbols = self._runtime.symbols
        self._st.machine.write_u64(symbols["kp_fn_arrays"], following)
        if self.profile:
            self.profile.tell(profiled)

    def match(self, pattern: str, module: str | None = None) -> set[KAddr]:
        """The functions that a word of set_ftrace_filter means.

        Kernel: match_records()
        """
        if is_digit(pattern[:1]) and module is None:
            index = int(pattern) if all(map(is_digit, pattern)) else 0
            functions = self.all()
            return {functions[index - 1].addr} if 0 < index <= len(functions) else set()
        fits = glob(pattern) if pattern else lambda _name: True
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
    if wanted in ("", "*"):
        return bool(module)
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
        self.pids = PidSet(array.runtime)
        self.no_pids = PidSet(array.runtime)
        self._hash: GuestSet | None = None

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
        return self.filter - self.notrace if self.filter else None

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


def filter_word(functions: Functions, chosen: set[KAddr], word: str) -> None:
    """Take one word of set_ftrace_filter or set_ftrace_notrace into a set; EINVAL.

    Kernel: ftrace_process_regex()
    """
    pattern, colon, rest = word.partition(":")
    module = None
    if colon:
        command, _, module = rest.partition(":")
        if command != "mod":
            raise KernelError(errno.EINVAL, f"no command {command!r}")
    remove, pattern = pattern.startswith("!"), pattern.removeprefix("!")
    found = functions.match(pattern, module)
    if not found and module is None:
        raise KernelError(errno.EINVAL, f"no function {pattern!r}")
    if remove:
        chosen -= found
    else:
        chosen |= found
