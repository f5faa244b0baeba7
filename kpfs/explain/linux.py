# SPDX-License-Identifier: GPL-2.0-or-later
"""A Linux kernel made by ``kpfs kernel``, judged by its text and tables in memory.

The text of modules is read live, without what probes have written there. Kernel: struct
jump_entry, static_call_site, exception_table_entry; all since 5.10.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from struct import Struct

from kpfs.base.errors import SetupError
from kpfs.base.ktypes import BlacklistEntry, KAddr
from kpfs.engine.arch.arches import JUDGES, TEXT_TOOLS
from kpfs.engine.state import ModuleState
from kpfs.explain.tables import KernelTables
from kpfs.linux.memory import modules
from kpfs.linux.memory.data_symbols import DataSymbols
from kpfs.linux.memory.ftrace import ftrace_sites
from kpfs.linux.memory.kprobes import Kprobes, function_ranges
from kpfs.linux.memory.memory import KernelMemory
from kpfs.linux.memory.modules import AllSymbols, LoadedModule
from kpfs.linux.running.kernel_on_board import KernelOnBoard
from kpfs.linux.running.saved_kernel import SavedKernel
from kpfs.linux.store import image

NOT_UNIQUE = b"The symbol is not unique"
# Rows of tables, which begin with a place: relative to their own address, or L.  Where
# there are several layouts, architecture and configuration decide.
_JUMP_ENTRIES = "iil", "LLl"
_INIT = 2  # flag of a jump label's key: it is in init text
_STATIC_CALL_SITE = "ii"
_EXCEPTIONS = "ii", "iii", "LL"  # fixup and handler lead into text, but out of order
_NEEDED = "kprobe_blacklist", "ftrace_pages_start", "__start___ex_table"
_SAMPLE = 8192  # bytes of a table by which its layout is found
# struct bug_entry: with the file, with the format's text besides (7.x), without either
_BUGS = "iiHH", "iiiHH", "ihxx", "LLHH", "LHxx"
_STATES = {
    modules.LIVE: ModuleState.LIVE,
    modules.COMING: ModuleState.COMING,
    modules.GOING: ModuleState.GOING,
}


class UnprobedTables(KernelTables):
    """The tables of a kernel as if it had no probes, with those of its modules."""

    def __init__(
        self,
        saved: SavedKernel,
        live: KernelMemory | None = None,
        loaded: Sequence[LoadedModule] = (),
    ) -> None:
        """live: the memory of a kernel that runs, in which these modules are loaded.

        Raises SetupError: the kernel has no symbols of data.
        Context: the lock of that kernel is held.
        """
        self._saved, self._live = saved.memory, live or saved.memory
        symbols, self._structures = saved.symbols, saved.structures
        named = TEXT_TOOLS[saved.arch.name]().named_addresses
        self._data = DataSymbols(self._saved, symbols, named)
        if not all(map(self._data.address, _NEEDED)):
            name = os.path.basename(saved.folder)
            why = (
                "was built without CONFIG_KALLSYMS_ALL, and hides where its tables are"
            )
            raise SetupError(f"explain: {name} {why}")
        self._text, self._etext = symbols.address("_stext"), symbols.address("_etext")
        config = image.read_config(saved.folder)
        self.config = config  # the options it was built with, "" if it does not say
        self.kallsyms = AllSymbols(symbols, loaded)
        self._texts = list(self._module_texts(saved))
        self._read_tables(saved.structures["dyn_ftrace"].size)
        ranges = function_ranges(self._live, self._data, "kprobe_blacklist")
        self._blacklist = [
            BlacklistEntry(KAddr(start), KAddr(end), self.kallsyms.name_of(start))
            for start, end in ranges
        ]
        self.text = self.log = self
        self.module_states = {each.name: _STATES[each.state] for each in loaded}
        self.judge = JUDGES[saved.arch.name](self)
        self.judge.follow(saved.meta.release, config)

    @classmethod
    def of(cls, kernel: KernelOnBoard) -> UnprobedTables:
        """Return those of a kernel that runs, as it is now.

        Context: its lock is not held.
        """
        with kernel.lock:
            return cls(kernel.saved, kernel.memory, kernel.modules())

    def _module_texts(self, saved: SavedKernel) -> Iterator[tuple[int, bytes]]:
        """Yield the address and the text of each module, without its probes."""
        for each in self.kallsyms.modules:
            for start, end in (each.text, each.init_text):
                live = self._live.read(start, end - start)
                probes = Kprobes(self._live, saved.symbols, saved.structures)
                yield start, probes.unprobed(start, live, saved.arch.breakpoint_size)

    def _layout(
        self, name: str, layouts: Sequence[str], is_sorted: bool = False
    ) -> str:
        """Return the layout by which most rows of a section lead into text.

        is_sorted: in the table no row's place is below that of the row before.
        """
        start, raw = self._section(name)
        raw = raw[:_SAMPLE]

        def share(row: str) -> float:
            places = list(self._targets(start, raw, row))
            fitting = [
                self.is_text(place) and not (is_sorted and place < before)
                for before, place in zip([0, *places], places, strict=False)
            ]
            return sum(fitting) / max(len(fitting), 1)

        return max(layouts, key=share)

    def _read_tables(self, record: int) -> None:
        """record: bytes of a struct dyn_ftrace."""
        bug = self._layout("bug_table", _BUGS)
        exception = self._layout("ex_table", _EXCEPTIONS, is_sorted=True)
        label = self._layout("jump_table", _JUMP_ENTRIES)
        exceptions = list(self._table("ex_table", exception))
        calls = list(self._table("static_call_sites", _STATIC_CALL_SITE))
        bugs = list(self._table("bug_table", bug))
        labels = list(self._labels(*self._section("jump_table"), label))
        for each in self.kallsyms.modules:
            exceptions += self._module_table(each, "extable", "exentries", exception)
            calls += self._module_table(
                each, "static_call_sites", "static_call_sites", _STATIC_CALL_SITE
            )
            bugs += self._module_table(each, "bug_table", "bugs", bug)
            start, count = each.table("jump_entries", "num_jump_entries")
            size = self._live.model.struct(label).size
            raw = self._live.read(start, count * size)
            labels += self._labels(start, raw, label)
        self._exceptions, self._static_calls = sorted(exceptions), sorted(calls)
        self._jump_labels, self._bugs = sorted(labels), frozenset(bugs)
        memory = self._live if self.kallsyms.modules else self._saved
        self._sites = sorted(ftrace_sites(memory, self._data, record))

    def read(self, addr: int, size: int) -> bytes:
        for start, text in self._texts:
            if 0 <= addr - start < len(text):
                return text[addr - start : addr - start + size]
        memory = self._live if self.kallsyms.holder(addr) else self._saved
        return memory.read(addr, size)

    def is_text(self, addr: int) -> bool:
        return super().is_text(addr) or self.kallsyms.module_at(addr) is not None

    def in_init_text(self, addr: int) -> bool:
        module = self.kallsyms.module_at(addr)
        return module is not None and addr in range(*module.init_text)

    def module_of(self, addr: int) -> str:
        module = self.kallsyms.module_at(addr)
        return module.name if module else ""

    def takes_shared_names(self) -> bool:
        """Return True if a probe may name several symbols: the refusal's words lack."""
        address = self.kallsyms.kernel.address
        start = address("__start_rodata") or self._etext
        end = address("__end_rodata") or address("_sinittext")
        return NOT_UNIQUE not in self._saved.read(start, end - start)

    @cached_property
    def ftrace_is_off(self) -> bool:
        """True if no ftrace site is a call, whatever is registered there."""
        at, _ = self._structures.data("ftrace_enabled")
        return bool(at) and not any(self._live.read(at, 4))

    def _section(self, name: str) -> tuple[int, bytes]:
        """Return address and bytes of the section from __start_NAME to __stop_NAME."""
        address = self._data.address
        start = address(f"__start_{name}") or address(f"__start___{name}")
        end = address(f"__stop_{name}") or address(f"__stop___{name}")
        return start, self.read(start, end - start)

    def _table(self, name: str, row: str) -> Iterator[int]:
        """Yield the addresses at the begin of a kernel table's rows."""
        return self._targets(*self._section(name), row)

    def _module_table(
        self, module: LoadedModule, field: str, count: str, row: str
    ) -> Iterator[int]:
        start, number = module.table(field, f"num_{count}")
        size = self._live.model.struct(row).size
        return self._targets(start, self._live.read(start, number * size), row)

    def _labels(self, start: int, raw: bytes, row: str) -> Iterator[int]:
        places = self._targets(start, raw, row)
        rows = self._live.model.struct(row).iter_unpack(raw)
        for place, (_, _, key) in zip(places, rows, strict=True):
            if not key & _INIT:
                yield place

    def _targets(self, start: int, raw: bytes, row: str) -> Iterator[int]:
        packed = self._live.model.struct(row)
        for number, (place, *_) in enumerate(packed.iter_unpack(_whole(raw, packed))):
            yield place if row[0] == "L" else start + number * packed.size + place

    # ---- other questions of the checks
    def ftrace_location(self, start: int, end: int) -> KAddr | None:
        """Return the first ftrace site in [start, end]."""
        i = bisect_left(self._sites, start)
        found = i < len(self._sites) and self._sites[i] <= end
        return KAddr(self._sites[i]) if found else None

    def is_bug_site(self, addr: int) -> bool:
        return addr in self._bugs


def _whole(raw: bytes, row: Struct) -> bytes:
    return raw[: len(raw) // row.size * row.size]
