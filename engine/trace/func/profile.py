# SPDX-License-Identifier: GPL-2.0-or-later
"""The function profiler: how often functions are called, on each CPU.

All of it is for control context.  Guest code counts: engine/runtime/trace.c.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Collection, Mapping

from kpfs.base import abi
from kpfs.base.ktypes import KAddr
from kpfs.engine.runtime.runtime import Runtime
from kpfs.engine.trace.pids import GuestTable, places

HEADER = """\
  Function                               Hit
  --------                               ---
"""
_ENTRY = struct.Struct("<2Q")


class HitTable(GuestTable):
    """A table with a count for each function: guest code's struct kp_fn_table."""

    def __init__(self, runtime: Runtime, hits: Mapping[KAddr, int]) -> None:
        table = places(hits)
        entries = [_ENTRY.pack(fn, hits.get(KAddr(fn), 0)) for fn in table]
        head = abi.KpFnTable.STRUCT.pack(len(table) - 1)
        super().__init__(runtime, head + b"".join(entries))

    def hits(self) -> Counter[KAddr]:
        """Return the functions and their counts."""
        entries = _ENTRY.iter_unpack(self.view[abi.KpFnTable.fn :])
        return Counter({KAddr(addr): count for addr, count in entries if addr})


class FunctionProfile:
    """Counts functions while it is enabled.  Kernel: ftrace_profile_stats"""

    def __init__(self, runtime: Runtime, changed: Callable[[], None]) -> None:
        """changed() is called after a change of ``enabled``."""
        self._runtime = runtime
        self._changed = changed
        self.enabled = False
        self._tables: list[HitTable] = []  # one for each CPU while it is enabled
        self._counted: Collection[KAddr] = set()
        self._hits: list[Counter[KAddr]] = [
            Counter() for _ in range(runtime.machine.nr_cpus)
        ]

    def enable(self, on: bool) -> None:
        """Count from 0, or stop and keep the counts.  Kernel: ftrace_profile_write()"""
        if on == self.enabled:
            return
        if on:
            self._hits = [Counter() for _ in self._hits]
        self.enabled = on
        self._changed()

    def tell(self, chosen: Collection[KAddr]) -> None:
        """Have guest code count the calls of these functions from now on."""
        if chosen == self._counted and bool(self._tables) == self.enabled:
            return
        old = self._tables
        if old:
            self._hits = self._read()
        self._counted = chosen
        self._tables = []
        if self.enabled:
            self._tables = [
                HitTable(self._runtime, {addr: hits[addr] for addr in chosen})
                for hits in self._hits
            ]
        machine, words = self._runtime.machine, self._runtime.symbols["kp_fn_hits"]
        for cpu in range(machine.nr_cpus):
            addr = self._tables[cpu].addr if self._tables else 0
            machine.write_u64(words + 8 * cpu, addr)
        for table in old:
            table.free()

    def _read(self) -> list[Counter[KAddr]]:
        """Return all counts, also of functions that are no longer counted."""
        return [
            hits | table.hits()
            for hits, table in zip(self._hits, self._tables, strict=True)
        ]

    def text(self, cpu: int) -> str:
        """Return the text of trace_stat/functionN.  Kernel: function_stat_show()"""
        hits = (self._read() if self._tables else self._hits)[cpu]
        lines = [HEADER]
        for addr, count in hits.most_common():
            symbol = self._runtime.machine.kallsyms.symbol_at(addr)
            if count and symbol is not None:
                lines.append(f"  {symbol.name:<30.30}  {count:>10}\n")
        return "".join(lines)
