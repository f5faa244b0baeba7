# SPDX-License-Identifier: GPL-2.0-or-later
"""Symbols of the kernel and its modules, by name and by address.

Order and the choice among several names of one address are those of scripts/kallsyms.c
and kernel/kallsyms.c.  The tables are made at the first question.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterator, Sequence
from functools import cached_property, lru_cache

from kpfs.base import elf
from kpfs.base.ktypes import KAddr, Symbol
from kpfs.engine import machine

_TYPE_OF_FLAGS = {
    elf.SHF_ALLOC | elf.SHF_EXECINSTR: "t",
    elf.SHF_ALLOC | elf.SHF_EXECINSTR | elf.SHF_WRITE: "t",
    elf.SHF_ALLOC | elf.SHF_WRITE: "d",
    elf.SHF_ALLOC: "r",
}


TEXT = "tTwW"  # the letters of functions


def symbol_type(sym: elf.ElfSymbol, sections: Sequence[elf.Section]) -> str:
    """Return the letter that nm prints; "" for symbols that kallsyms leaves out."""
    if sym.kind in (elf.STT_SECTION, elf.STT_FILE) or not sym.name:
        return ""
    if not 0 < sym.shndx < len(sections):
        return ""
    section = sections[sym.shndx]
    if sym.bind == elf.STB_WEAK:
        return "V" if sym.kind == elf.STT_OBJECT else "W"
    if section.type == elf.SHT_NOBITS:
        letter = "b"
    else:
        letter = _TYPE_OF_FLAGS.get(section.flags & 7, "")
    return letter.upper() if sym.bind == elf.STB_GLOBAL else letter


def _may_be_linker_script_provide_symbol(name: str) -> bool:
    if len(name) < 8 or not name.startswith("__"):
        return False
    rest = name[2:]
    return rest.startswith(("start_", "stop_", "end_")) or name.endswith(
        ("_start", "_end")
    )


def _order(item: tuple[int, str, str]) -> tuple[int, bool, bool, int, str]:
    """Return kallsyms' sort key. Kernel: compare_symbols() in scripts/kallsyms.c."""
    addr, name, kind = item
    return (
        addr,
        kind in "Ww",
        _may_be_linker_script_provide_symbol(name),
        len(name) - len(name.lstrip("_")),
        name,
    )


def kernel_symbols(
    image: elf.ElfFile, everything: bool = True, hidden: Container[str] = ()
) -> list[Symbol]:
    """Return all symbols of an executable, each up to the next address.

    everything: those of data too.  Kernel: CONFIG_KALLSYMS_ALL
    hidden: names of functions that are as if they were not there.
    """
    sections = image.sections
    rows = []
    for sym in image.symbols():
        kind = symbol_type(sym, sections)
        if kind and (everything or kind in TEXT):
            rows.append((sym.value, sym.name, kind))
    rows.sort(key=_order)
    ends = sorted(s.vaddr + s.memsz for s in image.segments)
    end = ends[-1 if everything else 0] if ends else 0
    return [s for s in with_sizes(rows, lambda _addr: end) if s.name not in hidden]


def with_sizes(
    rows: list[tuple[int, str, str]], end_of: Callable[[int], int], module: str = ""
) -> list[Symbol]:
    """Return symbols of (address, name, type), each as long as up to the next address.

    end_of: where the part of the image ends that an address is in.
    """
    result: list[Symbol] = []
    following = previous = 0
    for addr, name, kind in reversed(rows):
        if addr != previous:
            following, previous = previous, addr
        end = end_of(addr)
        size = (following if addr < following < end else end) - addr
        result.append(Symbol(name, KAddr(addr), max(size, 0), kind, module))
    result.reverse()
    return result


class SymbolTable:
    """The symbols of one image: the kernel's or a module's."""

    def __init__(self, symbols: Sequence[Symbol]) -> None:
        """The symbols are in kallsyms order."""
        self.symbols = symbols
        self._addrs = [s.addr for s in symbols]
        # the last answer of at(): for addresses from, to, the symbol
        self.last: tuple[int, int, Symbol | None] = 0, 0, None

    @cached_property
    def by_name(self) -> dict[str, list[Symbol]]:
        names: dict[str, list[Symbol]] = {}
        for sym in self.symbols:
            names.setdefault(sym.name, []).append(sym)
        return names

    def at(self, addr: int) -> Symbol | None:
        """Return the first symbol that covers addr.  Kernel: get_symbol_pos()."""
        addrs = self._addrs
        following = bisect_right(addrs, addr)
        if not following:
            return None
        sym = self.symbols[bisect_left(addrs, addrs[following - 1])]
        end = sym.addr + sym.size
        if addr >= end:
            return None
        if following < len(addrs):
            end = min(end, addrs[following])
        self.last = sym.addr, end, sym
        return sym


@lru_cache(maxsize=4)  # configurations at once
def _kernel_table(
    data: bytes, everything: bool, hidden: tuple[str, ...]
) -> SymbolTable:
    """Return the table of an image, which all kernels of a process share."""
    return SymbolTable(kernel_symbols(elf.ElfFile(data), everything, hidden))


class Kallsyms(machine.Kallsyms):
    """The kernel's table and those of the modules, in order of their loading."""

    def __init__(
        self,
        image: elf.ElfFile,
        everything: bool = True,
        hidden: Sequence[str] = (),
    ) -> None:
        """everything, hidden: see kernel_symbols()."""
        self._image, self._hidden = image, hidden
        self.everything = everything
        self._modules: dict[str, SymbolTable] = {}
        self._freed: dict[str, SymbolTable] = {}
        self._runtime = SymbolTable(())

    @cached_property
    def kernel(self) -> SymbolTable:
        hidden = tuple(self._hidden)
        return _kernel_table(self._image.data, self.everything, hidden)

    def set_module(self, name: str, symbols: Sequence[Symbol]) -> None:
        """Set a module's symbols, with sizes; a new one is first.  Context: control."""
        self.generation += 1
        if name in self._modules:
            self._modules[name] = SymbolTable(symbols)
        else:
            self._modules = {name: SymbolTable(symbols), **self._modules}

    def set_freed(self, name: str, symbols: Sequence[Symbol]) -> None:
        """Set the functions of a module's freed init text, to be found by address.

        Context: control.  Kernel: struct ftrace_mod_map
        """
        self.generation += 1
        self._freed[name] = SymbolTable(symbols)

    def set_runtime(self, symbols: Sequence[Symbol]) -> None:
        """Set the functions of the engine's code.

        Stack traces show them, and probes on them are refused; no list has them.
        """
        self.generation += 1
        self._runtime = SymbolTable(symbols)

    def remove_module(self, name: str) -> None:
        self.generation += 1
        del self._modules[name]
        self._freed.pop(name, None)

    def __iter__(self) -> Iterator[Symbol]:
        yield from self.kernel.symbols
        for tables in (self._modules, self._freed):
            for table in tables.values():
                yield from table.symbols

    def lookup_name(self, name: str) -> Sequence[Symbol]:
        """Return all symbols of that name; "mod:name" means one module's.

        Kernel: kallsyms_lookup_name(), which takes the first.
        """
        if ":" in name:
            module, _, rest = name.partition(":")
            table = self._modules.get(module)
            return table.by_name.get(rest, []) if table else []
        found = self.kernel.by_name.get(name, [])
        for table in self._modules.values():
            if more := table.by_name.get(name):
                found = [*found, *more]
        return found or self._runtime.by_name.get(name, [])

    def symbol_at(self, addr: int) -> Symbol | None:
        """Return the symbol that covers addr. Kernel: kallsyms_lookup()."""
        start, end, found = self.kernel.last
        if start <= addr < end:  # most come again: a probe is looked up often
            return found
        found = self.kernel.at(addr)
        if found is None:
            for table in (*self._modules.values(), *self._freed.values()):
                found = table.at(addr)
                if found is not None:
                    break
        return found or self._runtime.at(addr)
