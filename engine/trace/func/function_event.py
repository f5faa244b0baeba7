# SPDX-License-Identifier: GPL-2.0-or-later
"""The event of the function tracer's records."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kpfs.engine.trace.event.fields import Field
from kpfs.engine.trace.event.trace_event import Printer, SymbolText, TraceEvent
from kpfs.engine.trace.trace_options import Options

TRACE_FN = 1
_IP_PARENT = struct.Struct("<QQ")


class FunctionEvent(TraceEvent):
    """A call of a function, and its caller.  Kernel: TRACE_FN, trace_fn_event."""

    ignore_enable = True

    def __init__(self, options: Options) -> None:
        super().__init__("ftrace", "function", TRACE_FN)
        self._options = options

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
