# SPDX-License-Identifier: GPL-2.0-or-later
"""A synthetic event: its fields and texts, and its description for guest code.

No place in the kernel triggers it: guest code that has got one of its files
(trace_get_event_file()) makes the records, for the trace array of that file.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Sequence
from functools import partial

from kpfs.base import abi
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KAddr
from kpfs.engine.runtime.runtime import Runtime
from kpfs.engine.trace.array.dynevent import DynEvent, DynEventOps
from kpfs.engine.trace.event.fields import Field, string_at
from kpfs.engine.trace.event.trace_event import Printer, SymbolText, TraceEvent
from kpfs.engine.trace.synth.synth_field import SynthField, gfp_text, number_text

SYNTH_SYSTEM = "synthetic"
FIELDS_AT = 8  # the offset of the fields in a record
_SLOTS = {1: struct.Struct("<B"), 2: struct.Struct("<H"), 4: struct.Struct("<I")}
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")


class SynthTraceEvent(TraceEvent):
    """The trace event of a synthetic event.  Kernel: synth_event.call"""

    def __init__(self, name: str, fields: list[SynthField], runtime: Runtime) -> None:
        super().__init__(SYNTH_SYSTEM, name)
        self.synth_fields = fields
        self.n_u64 = 0
        for field in fields:
            field.at = self.n_u64
            self.n_u64 += field.words
        self.module = 0  # address of the struct module that has made it
        self._runtime = runtime
        self._description: KAddr | None = None
        self._size = 0

    # ---- switching

    def reg(self, enable: bool) -> None:
        """Keep the module that has made it from being unloaded; EBUSY: it is already.

        Context: control.  Kernel: synth_event_reg()
        """
        machine = self._runtime.machine
        if not self.module:
            return
        if not enable:
            machine.modules.module_put(self.module)
        elif not machine.modules.try_module_get(self.module):
            raise KernelError(errno.EBUSY, "its module is going")

    # ---- texts

    def fields(self) -> Sequence[Field]:
        """Kernel: synth_event_define_fields()"""
        return [
            Field(f.type, f.name, FIELDS_AT + 8 * f.at, f.size, f.is_signed)
            for f in self.synth_fields
        ]

    def print_fmt(self) -> str:
        """Kernel: __set_synth_event_print_fmt()"""
        fmt = ", ".join(f"{f.name}={f.fmt}" for f in self.synth_fields)
        return f'"{fmt}"' + "".join(map(_fmt_value, self.synth_fields))

    def printer(self, symbol: SymbolText) -> Printer:
        """Kernel: print_synth_event()"""
        name = self.name
        parts = [self._part(field) for field in self.synth_fields]

        def show(pages: memoryview, record: int) -> str:
            return f"{name}: {''.join([part(pages, record) for part in parts])}\n"

        return show

    def _part(self, field: SynthField) -> Printer:
        """Make the function that prints one field, with the blank behind it."""
        at = FIELDS_AT + 8 * field.at
        name = field.name
        blank = "" if field is self.synth_fields[-1] else " "
        if field.is_stack:
            return partial(self._stack_text, name, at)
        if field.is_string:

            def show_string(pages: memoryview, record: int) -> str:
                start = record + at
                if field.is_dynamic:
                    start = record + (_U32.unpack_from(pages, start)[0] & 0xFFFF)
                return f"{name}={string_at(pages, start)}{blank}"

            return show_string
        unpack = _SLOTS.get(field.size, _U64).unpack_from
        text = number_text(field)
        if field.type == "gfp_t":

            def show_flags(pages: memoryview, record: int) -> str:
                (value,) = unpack(pages, record + at)
                return f"{name}={text(value)}{blank} ({gfp_text(value)})"

            return show_flags

        def show_number(pages: memoryview, record: int) -> str:
            return f"{name}={text(unpack(pages, record + at)[0])}{blank}"

        return show_number

    def _stack_text(self, name: str, at: int, pages: memoryview, record: int) -> str:
        (where,) = _U32.unpack_from(pages, record + at)
        start, length = record + (where & 0xFFFF), where >> 16
        lines = [f"{name}=STACK:\n"]
        for place in range(start, min(start + length, len(pages)) - 7, 8):
            (addr,) = _U64.unpack_from(pages, place)
            if not addr:
                break
            lines.append(f"=> {self._runtime.machine.kallsyms.sprint_symbol(addr)}\n")
        return "".join(lines)

    # ---- for guest code

    def describe(self) -> KAddr:
        """Return the address of its struct synth_event.  Context: control."""
        if self._description is None:
            heap, fields = self._runtime.heap, self.synth_fields
            table = abi.SynthEvent.SIZE + abi.SynthField.SIZE * len(fields)
            names = b"".join(f.name.encode("latin-1") + b"\0" for f in fields)
            self._size = table + len(names)
            self._description = at = heap.alloc(self._size)
            dynamic = sum(f.is_dynamic for f in fields)
            data = abi.SynthEvent.STRUCT.pack(self.id, len(fields), dynamic, self.n_u64)
            name_at = at + table
            for f in fields:
                flags = (
                    abi.FIELD_STRING * f.is_string | abi.FIELD_DYNAMIC * f.is_dynamic
                )
                data += abi.SynthField.STRUCT.pack(name_at, f.size, f.at, flags)
                name_at += len(f.name) + 1
            heap.view(at, self._size)[:] = data + names
        return self._description

    def free(self) -> None:
        """Free the description, as the event is deleted.  Context: control."""
        runtime, at, size = self._runtime, self._description, self._size
        self._description = None
        if at is not None:
            runtime.after_quiescence(lambda: runtime.heap.free(at, size))


class SynthEvent(DynEvent):
    """A synthetic event in the list of dynamic events.  Kernel: struct synth_event."""

    def __init__(self, ops: DynEventOps, event: SynthTraceEvent) -> None:
        self.ops = ops
        self.group = event.group
        self.name = event.name
        self.event = event

    def definition(self) -> str:
        """Return its line in synthetic_events.  Kernel: __synth_event_show()"""
        fields = "; ".join(field.declaration for field in self.event.synth_fields)
        return f"{self.name}\t{fields}\n"


def _fmt_value(field: SynthField) -> str:
    if field.is_string and field.is_dynamic:
        return f", __get_str({field.name})"
    if field.is_stack:
        return f", __get_stacktrace({field.name})"
    return f", REC->{field.name}"
