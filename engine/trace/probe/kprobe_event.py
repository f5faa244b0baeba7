# SPDX-License-Identifier: GPL-2.0-or-later
"""A kprobe event: its fields and texts, its probes, and its structs in the guest."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from kpfs.base.abi import EVENT_RETURN
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KAddr
from kpfs.engine.kprobe import kprobe_gone
from kpfs.engine.kretprobe import Kretprobe
from kpfs.engine.register import disable_kprobe, enable_kprobe
from kpfs.engine.runtime.records import KpEvent
from kpfs.engine.runtime.runtime import Runtime
from kpfs.engine.state import State
from kpfs.engine.trace.array.dynevent import DynEvent, DynEventOps
from kpfs.engine.trace.event.event_file import EventFiles
from kpfs.engine.trace.event.fields import Field
from kpfs.engine.trace.event.trace_event import Printer, SymbolText, TraceEvent
from kpfs.engine.trace.probe.fetch import (
    ProbeArg,
    encode,
    print_args,
    print_fmt,
    prog_size,
)
from kpfs.engine.trace.probe.parse import ProbePlace

_IP = struct.Struct("<Q")
_FUNC_RET_IP = struct.Struct("<QQ")


@dataclass(eq=False, slots=True)
class TraceKprobe(DynEvent):
    """One probe of a kprobe event.  Kernel: struct trace_kprobe."""

    ops: DynEventOps
    group: str
    name: str
    place: ProbePlace
    rp: Kretprobe  # a probe that is no return probe uses only its kp
    args: list[ProbeArg]
    event: KprobeEvent
    guest: KpEvent
    prog: KAddr | None = None
    registered: bool = False

    @property
    def is_return(self) -> bool:
        return self.place.is_return

    @property
    def same_as(self) -> tuple[object, ...]:
        """The place and the expressions, in which two probes of one event must differ.

        Kernel: trace_kprobe_has_same_kprobe()
        """
        return self.place.symbol, self.place.offset, *[arg.comm for arg in self.args]

    @property
    def start(self) -> int:
        """Offset of the first argument in a record."""
        return 24 if self.is_return else 16


class GuestEvents:
    """The probes' struct kp_event and programs in the guest.  Context: control."""

    def __init__(self, runtime: Runtime, files: EventFiles) -> None:
        self._runtime = runtime
        self._files = files

    def free(self, tk: TraceKprobe) -> None:
        runtime, guest, prog = self._runtime, tk.guest, tk.prog

        def done() -> None:
            runtime.free(guest)
            if prog:
                runtime.heap.free(prog, prog_size(tk.args))

        runtime.after_quiescence(done)

    def write(self, tk: TraceKprobe) -> None:
        """Describe a probe that is about to be registered; its nhit is kept."""
        heap = self._runtime.heap
        if tk.args:
            room = prog_size(tk.args)
            tk.prog = tk.prog or heap.alloc(room)
            heap.view(tk.prog, room)[:] = encode(tk.args, tk.start, tk.prog)
            size = tk.start + sum([arg.size for arg in tk.args])
        else:
            size = tk.start
        event = tk.event
        tk.guest.describe(event.id, size, tk.prog or 0, event.guest_flags())
        if event.tracing:
            self._files.sync(event, tk.guest)


class KprobeEvent(TraceEvent):
    """The state that probes of one name share.  Kernel: struct trace_probe_event."""

    def __init__(self, group: str, name: str, st: State) -> None:
        super().__init__(group, name)
        self.probes: list[TraceKprobe] = []
        # same_as of each, as soon as somebody compares them
        self._same: set[tuple[object, ...]] | None = None
        self._st = st
        self._armed = False

    def add(self, tk: TraceKprobe) -> None:
        self.probes.append(tk)
        if self._same is not None:
            self._same.add(tk.same_as)

    def remove(self, tk: TraceKprobe) -> None:
        self.probes.remove(tk)
        if self._same is not None:
            self._same.discard(tk.same_as)

    def has_same(self, tk: TraceKprobe) -> bool:
        """Return True if one of its probes has tk's place and expressions."""
        if self._same is None:
            self._same = {probe.same_as for probe in self.probes}
        return tk.same_as in self._same

    def guest_events(self) -> Sequence[KpEvent]:
        return [tk.guest for tk in self.probes]

    def guest_flags(self) -> int:
        return EVENT_RETURN if self.probes[0].is_return else 0

    def fields(self) -> Sequence[Field]:
        """Kernel: kprobe_event_define_fields(), kretprobe_event_define_fields()"""
        tk = self.probes[0]
        names = ["__probe_func", "__probe_ret_ip"] if tk.is_return else ["__probe_ip"]
        fields = [
            Field("unsigned long", name, 8 + 8 * i, 8, False)
            for i, name in enumerate(names)
        ]
        return fields + [
            Field(a.fmttype, a.name, tk.start + a.offset, a.size, a.type.is_signed)
            for a in tk.args
        ]

    def print_fmt(self) -> str:
        """Kernel: traceprobe_set_print_fmt()"""
        tk = self.probes[0]
        if tk.is_return:
            fmt, values = "(%lx <- %lx)", ", REC->__probe_func, REC->__probe_ret_ip"
        else:
            fmt, values = "(%lx)", ", REC->__probe_ip"
        return print_fmt(fmt, values, tk.args)

    def reg(self, enable: bool) -> None:
        """Arm or disarm the probes.  Context: control."""
        if self.tracing == self._armed:
            return  # another trace array still has it on, or had it on before
        self._armed = enable
        if not enable:
            self._disable_probes()
            return
        try:
            for tk in self.probes:
                if tk.registered and not kprobe_gone(tk.rp.kp):
                    enable_kprobe(self._st, tk.rp.kp)
        except KernelError:
            self._disable_probes()
            self._armed = False
            raise

    def _disable_probes(self) -> None:
        for tk in self.probes:
            if tk.registered:
                with suppress(KernelError):
                    disable_kprobe(self._st, tk.rp.kp)

    def printer(self, symbol: SymbolText, mark: str = "") -> Printer:
        """Make the function that prints the records.  Context: control.

        Kernel: print_kprobe_event(), print_kretprobe_event()
        """
        first = self.probes[0]
        name = self.name
        places: dict[tuple[int, ...], str] = {}
        unpack = (_FUNC_RET_IP if first.is_return else _IP).unpack_from

        def place(key: tuple[int, ...]) -> str:
            if first.is_return:
                func, ret_ip = key
                text = f"{name}: ({symbol(ret_ip, True)} <- {symbol(func, False)})"
            else:
                text = f"{name}: ({symbol(key[0], True)})"
            places[key] = text
            return text

        def bare(pages: memoryview, record: int) -> str:
            key = unpack(pages, record + 8)
            return (places.get(key) or place(key)) + "\n"

        if not first.args:
            return bare
        show_args = print_args(
            first.args, first.start, self._st.machine.kallsyms.sprint_symbol, mark
        )

        def full(pages: memoryview, record: int) -> str:
            key = unpack(pages, record + 8)
            return f"{places.get(key) or place(key)}{show_args(pages, record)}{mark}\n"

        return full

    def pieces(self, symbol: SymbolText) -> Printer:
        return self.printer(symbol, "\0")
