# SPDX-License-Identifier: GPL-2.0-or-later
"""The loaded modules, read from the kernel's memory.

Kernel: struct module, find_kallsyms_symbol(), find_kallsyms_symbol_value().
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property

from kpfs.base.elf import symbol_rows, symbol_size
from kpfs.base.ktypes import FUNCTION_TYPES, KAddr, Symbol
from kpfs.linux.memory.memory import KernelMemory, OneLook
from kpfs.linux.memory.structures import Reader, Structures, View
from kpfs.linux.memory.symbols import CoreSymbols, SymbolLookup

LIVE, COMING, GOING, UNFORMED = range(4)  # enum module_state
MAX_MODULES = 4096
NAME_MAX = 64
MAX_SECTIONS = 512
SYMBOL_MAX = 512
_MAPPING = re.compile(r"\.L|L0|\$[axtd]")


class LoadedModule:
    """A loaded module. Context: the machine's lock is held when it is made."""

    def __init__(
        self, memory: KernelMemory, structures: Structures, view: View
    ) -> None:
        self._view = view
        self.address = view.addr  # its struct module
        self.name = memory.string(view.place("name"), NAME_MAX)
        self.state = view.number("state", 4)
        if view.layout.has("mem"):  # since 6.4
            self._parts = self._memories(structures)
            self.text = self._parts[structures.values["MOD_TEXT"]]
            self.init_text = self._parts[structures.values["MOD_INIT_TEXT"]]
        else:
            self._parts = self._layouts("size")
            self.text, self.init_text = self._layouts("text_size")
        self.rows = _symbols(memory, structures, view, self.name)

    def _layouts(self, size: str) -> list[tuple[int, int]]:
        view, found = self._view, []
        for layout in ("core_layout", "init_layout"):
            start = view.word(f"{layout}.base")
            end = start + view.number(f"{layout}.{size}", 4) if start else 0
            found.append((start, end))
        return found

    def _memories(self, structures: Structures) -> list[tuple[int, int]]:
        """Return [start, end) of each kind of memory; (0, 0): it has or needs none."""
        raw, at, found = self._view.raw, self._view.layout.at, []
        number = self._view.model.number
        size, kinds = structures["module_memory"].size, "MOD_MEM_NUM_TYPES"
        for place in range(0, structures.values[kinds] * size, size):
            base, length = at["mem.base"] + place, at["mem.size"] + place
            start = number(raw[base : base + self._view.model.long])
            length = number(raw[length : length + 4])
            found.append((start, start + length) if length else (0, 0))
        return found

    def table(self, field: str, count: str) -> tuple[int, int]:
        """Return the address of one of its tables, and the number of its rows."""
        return self._view.word(field), self._view.number(count, 4)

    def sections(self, memory: KernelMemory, structures: Structures) -> dict[str, int]:
        """Return addresses by names of sections; {} if they are not known."""
        if not self._view.layout.has("sect_attrs"):
            return {}
        return dict(_sections(memory, structures, self._view.word("sect_attrs")))

    @property
    def fingerprint(self) -> tuple[int, int, str, tuple[int, int], int]:
        """A value that changes when the module is loaded anew or begins to run."""
        return self._view.addr, self.state, self.name, self.init_text, len(self.rows)

    @property
    def parts(self) -> list[tuple[int, int]]:
        """Return [start, end) of each of its memories; (0, 0) stands for none."""
        return self._parts

    def is_text(self, addr: int) -> bool:
        """Kernel: within_module_text()"""
        return any(start <= addr < end for start, end in (self.text, self.init_text))

    def holds(self, addr: int) -> bool:
        """Return True if it has memory there, text or data.  Kernel: within_module()"""
        return any(start <= addr < end for start, end in self._parts)

    @cached_property
    def _sorted(self) -> tuple[list[int], list[Symbol]]:
        rows = sorted(self.rows, key=lambda row: row.addr)  # the first name stays so
        return [row.addr for row in rows], rows

    def _sized(self, symbol: Symbol) -> Symbol:
        """Return a symbol; its size reaches to the next or the text's end."""
        addrs, _ = self._sorted
        start, end = self.init_text
        limit = end if start <= symbol.addr < end else self.text[1]
        i = bisect_right(addrs, symbol.addr)
        after = addrs[i] if i < len(addrs) else limit
        if symbol.addr < limit:
            after = min(after, limit)
        return symbol._replace(size=max(after - symbol.addr, 0))

    def symbol_at(self, addr: int) -> Symbol | None:
        """Return the first symbol around an address of its memory."""
        addrs, rows = self._sorted
        i = bisect_right(addrs, addr) - 1
        if i < 0 or not self.holds(addr):
            return None
        while i and addrs[i - 1] == addrs[i]:
            i -= 1
        return self._sized(rows[i])

    def lookup_name(self, name: str) -> list[Symbol]:
        return [self._sized(row) for row in self.rows if row.name == name]

    def functions(self) -> Iterator[str]:
        """Return the names of its functions that are in memory."""
        for row in self.rows:
            if row.type in FUNCTION_TYPES and self.is_text(row.addr):
                yield row.name


def _symbols(
    memory: KernelMemory, structures: Structures, view: View, module: str
) -> list[Symbol]:
    kept = View(memory, structures["mod_kallsyms"], view.word("kallsyms"))
    count = kept.number("num_symtab", 4)
    model = memory.model
    table = memory.read(kept.word("symtab"), count * symbol_size(model))
    types = memory.read(kept.word("typetab"), count)
    entries = list(symbol_rows(model, table))
    last = max((entry[0] for entry in entries), default=0)
    strings = kept.word("strtab")
    texts = memory.read(strings, last)
    texts += memory.string(strings + last, SYMBOL_MAX).encode("latin-1") + b"\0"
    rows = []
    for (place, _, _, section, value, _), kind in zip(entries, types, strict=True):
        name = texts[place : texts.find(b"\0", place)].decode("latin-1")
        if section and name and not _MAPPING.match(name):
            rows.append(Symbol(name, KAddr(value), 0, chr(kind), module))
    return rows


def loaded_modules(
    memory: KernelMemory, symbols: CoreSymbols, structures: Structures
) -> list[LoadedModule]:
    """Return the modules in the order of /proc/modules; [] if they cannot be found.

    Raises MemoryFault. Context: the machine's lock is held.
    """
    memory = OneLook(memory)
    layout, head = structures["module"], structures.data("modules")[0]
    if not layout.has("kallsyms") or not head:
        return []
    nodes = memory.nodes(head, MAX_MODULES)
    views = (View(memory, layout, node - layout.at["list"]) for node in nodes)
    formed = [view for view in views if view.number("state", 4) != UNFORMED]
    return [LoadedModule(memory, structures, view) for view in formed]


class ModuleSections(Reader):
    """Reads where the sections of modules lie.  Kernel: struct module_sect_attrs."""

    needs = "module", "sect_attrs"

    def rows(self) -> Iterator[tuple[str, dict[str, int]]]:
        """Yield the name of each module, and addresses by names of sections."""
        for module in self._listed("module", self._structures.data("modules")[0]):
            if module.number("state", 4) != UNFORMED:
                name = self._memory.string(module.place("name"), NAME_MAX)
                memory, addr = self._memory, module.word("sect_attrs")
                yield name, dict(_sections(memory, self._structures, addr))


def _sections(
    memory: KernelMemory, structures: Structures, addr: int
) -> Iterator[tuple[str, int]]:
    """Yield names and addresses of a struct module_sect_attrs."""
    if not addr or not structures["module_sect_attrs"].has("grp.bin_attrs"):
        return
    kind, name, place = "module_sect_attr", "battr.attr.name", "address"
    if not structures[kind].has(place):  # since Linux 6.14
        kind, name, place = "bin_attribute", "attr.name", "private"
    listed = View(memory, structures["module_sect_attrs"], addr).word("grp.bin_attrs")
    for number in range(MAX_SECTIONS):
        at = memory.word(listed + memory.model.long * number)
        if not at:
            break
        row = View(memory, structures[kind], at)
        yield memory.string(row.word(name), NAME_MAX), row.word(place)


class AllSymbols(SymbolLookup):
    """The symbols of the kernel and its modules."""

    def __init__(self, kernel: CoreSymbols, modules: Sequence[LoadedModule]) -> None:
        self.kernel, self.modules = kernel, modules

    def lookup_name(self, name: str) -> Sequence[Symbol]:
        """Return the symbols of a name in the order of kallsyms.

        MODULE:NAME looks only in that module. Kernel: module_kallsyms_lookup_name()
        """
        module, colon, rest = name.partition(":")
        found = [] if colon else list(self.kernel.lookup_name(name))
        for each in self.modules:
            if not colon or each.name == module:
                found += each.lookup_name(rest if colon else name)
        return found

    def module_at(self, addr: int) -> LoadedModule | None:
        """Return the module whose text is around an address."""
        return next((each for each in self.modules if each.is_text(addr)), None)

    def holder(self, addr: int) -> LoadedModule | None:
        """Return the module that has memory at an address, text or data."""
        return next((each for each in self.modules if each.holds(addr)), None)

    def symbol_at(self, addr: int) -> Symbol | None:
        """Return the first symbol around an address."""
        module = self.holder(addr)
        return module.symbol_at(addr) if module else self.kernel.symbol_at(addr)
