# SPDX-License-Identifier: GPL-2.0-or-later
"""Stack traces in the trace, which the machine finds and guest code records."""

from __future__ import annotations

import struct

from kpfs.base.abi import HC_STACK, KP_STACK_MAX
from kpfs.engine.runtime.records import MAIL0, MAIL_RET
from kpfs.engine.runtime.runtime import Runtime
from kpfs.engine.trace.event.fields import Field
from kpfs.engine.trace.event.trace_event import FtraceEvent, Printer, SymbolText

TRACE_STACK = 4


class StackTraces:
    """Serves guest code that wants to add a stack trace to its record."""

    def __init__(self, runtime: Runtime) -> None:
        """Context: control."""
        self._machine = machine = runtime.machine
        self._cpus = runtime.cpus
        room = machine.area.alloc_data(8 * KP_STACK_MAX * machine.nr_cpus)
        self._words = machine.view(room, 8 * KP_STACK_MAX * machine.nr_cpus)
        for number, cpu in enumerate(self._cpus):
            cpu.stack = room + 8 * KP_STACK_MAX * number
        machine.traps.on_hypercall(HC_STACK, self._hit)

    def _hit(self, cpu: int) -> None:
        """Find the callers that guest code on a CPU asks for.  Context: hit."""
        mail = self._cpus[cpu]
        base = mail.base + MAIL0
        ip, sp, bp, skip = mail.words[base : base + 4]
        found = self._machine.backtrace.trace(ip, sp, bp, KP_STACK_MAX)[skip:]
        at = 8 * KP_STACK_MAX * cpu
        struct.pack_into(f"<{len(found)}Q", self._words, at, *found)
        mail.words[mail.base + MAIL_RET] = len(found)


class StackEvent(FtraceEvent):
    """The event of stack traces.  Kernel: TRACE_STACK, trace_stack_event."""

    def __init__(self) -> None:
        rows = ['"' + "\\t=> %ps\\n" * n + '"' for n in (3, 3, 2)]
        values = ", ".join(f"(void *)REC->caller[{i}]" for i in range(8))
        super().__init__(
            "kernel_stack",
            TRACE_STACK,
            f"{' '.join(rows)}, {values}",
            Field("int", "size", 8, 4, True),
            Field("unsigned long", "caller[8]", 16, 64, False),
        )

    def printer(self, symbol: SymbolText) -> Printer:
        """Kernel: trace_stack_print()"""

        def show(pages: memoryview, record: int) -> str:
            (count,) = struct.unpack_from("<i", pages, record + 8)
            callers = struct.unpack_from(f"<{count}Q", pages, record + 16)
            lines = "".join(f" => {symbol(addr, False)}\n" for addr in callers)
            return f"<stack trace>\n{lines}"

        return show
