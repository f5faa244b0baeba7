# SPDX-License-Identifier: GPL-2.0-or-later
"""Properties of the kernel's and its modules' text.  Context: control."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial

from kpfs.base.elf import ElfFile
from kpfs.base.ktypes import BlacklistEntry, KAddr
from kpfs.guest.loader.kallsyms import Kallsyms
from kpfs.guest.loader.modules import Module, Modules
from kpfs.guest.loader.sections import SectionTables

_NOTHING = SectionTables()
_SECTIONS = "kprobes", "noinstr"  # NAME.text of a module that no probe may be in


class KernelText:
    """Implements kpfs.engine.machine.KernelText."""

    def __init__(
        self,
        image: ElfFile,
        kallsyms: Kallsyms,
        modules: Modules,
        address_of: Callable[[str], int | None],
        *,
        text: range,
        dynamic_ftrace: bool,
    ) -> None:
        """text: the kernel's own; address_of: addresses of its symbols.

        dynamic_ftrace: the nops at functions' entries may become calls; else they are
        nops like any other.
        """
        self._image = image
        self._kallsyms = kallsyms
        self._modules = modules
        self._address_of = address_of
        self._dynamic_ftrace = dynamic_ftrace
        self._text = text

    @cached_property
    def kernel(self) -> SectionTables:
        """The kernel's own tables, without those of modules."""
        tables, image = SectionTables(), self._image
        tables.add(image, lambda name: at.addr if (at := image.section(name)) else None)
        return tables

    def _tables(self, addr: int) -> SectionTables:
        """Return the tables of the image that addr is in."""
        if addr in self._text:
            return self.kernel
        module = self._modules.at(addr)
        return module.tables if module else _NOTHING

    def is_text(self, addr: int) -> bool:
        module = self._modules.at(addr)
        return addr in self._text or bool(module and module.layout.is_text(addr))

    def in_init_text(self, addr: int) -> bool:
        """Return True for a module's init text; the kernel's own is freed by now."""
        module = self._modules.at(addr)
        return bool(module and module.layout.in_init(addr))

    def module_of(self, addr: int) -> str:
        module = None if addr in self._text else self._modules.at(addr)
        return module.name if module else ""

    def blacklist(self) -> Sequence[BlacklistEntry]:
        """Return the blacklist, with modules' NOKPROBE functions and __kprobes text.

        Kernel: populate_kprobe_blacklist(), add_module_kprobe_blacklist()
        """
        symbol_at = self._kallsyms.symbol_at
        result = [*self.kernel.blacklist(symbol_at, self._address_of)]
        for module in self._modules.by_age():
            address_of = partial(_text_end, module)
            result += module.tables.blacklist(symbol_at, address_of)
        return result

    def ftrace_location(self, start: int, end: int) -> KAddr | None:
        if not self._dynamic_ftrace:
            return None
        return self._tables(start).ftrace_location(start, end)

    def ftrace_locations(self) -> Sequence[KAddr]:
        if not self._dynamic_ftrace:
            return []
        tables = [self.kernel, *[m.tables for m in self._modules.by_age()]]
        return [KAddr(addr) for t in tables for addr in t.ftrace_sites]

    def text_reserved(self, start: int, end: int) -> bool:
        return self._tables(start).text_reserved(start, end)

    def has_exception_entry(self, start: int, end: int) -> bool:
        return self._tables(start).has_exception_entry(start, end)

    def is_bug_site(self, addr: int) -> bool:
        return addr in self._tables(addr).bugs


def _text_end(module: Module, symbol: str) -> int | None:
    """Return begin or end of one of a module's blacklisted sections, by its symbol."""
    name, _, end = symbol.removeprefix("__").partition("_text_")
    place, raw = module.section(f".{name}.text") if name in _SECTIONS else (0, b"")
    if not raw:
        return None
    return place + len(raw) if end == "end" else place
