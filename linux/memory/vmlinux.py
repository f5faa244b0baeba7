# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes ELF files of a kernel and its modules: text, data, symbols, call frames.

A debugger gets them without what is in memory, which it reads of the target itself:
the sections are there, and are empty in the file. Symbols and call frames are long in
the making; those of a kernel never change, and are kept.

Document: elf(5).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from kpfs.base import elf
from kpfs.base.errors import MemoryFault
from kpfs.base.ktypes import FUNCTION_TYPES
from kpfs.linux.memory import (
    back_chains,
    call_frames,
    frame_pointers,
    frame_records,
    orc,
    unwind_tables,
)
from kpfs.linux.memory.call_frames import Code, Named, Spans
from kpfs.linux.memory.ftrace import Trampoline
from kpfs.linux.memory.memory import KernelMemory, pages_of
from kpfs.linux.memory.modules import LoadedModule
from kpfs.linux.memory.structures import Structures
from kpfs.linux.memory.symbols import CoreSymbols

PAGE = 4096
MAX_TEXT = 64 << 20  # bytes of a module
_EXEC, _PROGBITS, _SYMTAB, _STRTAB, _NOBITS = 2, 1, 2, 3, 8
_ALLOC, _WRITE, _CODE = elf.SHF_ALLOC, elf.SHF_WRITE, elf.SHF_EXECINSTR
# name, flags, the symbols where it begins and ends
_PARTS = (
    (".text", _ALLOC | _CODE, "_stext", "_etext"),
    (".rodata", _ALLOC, "__start_rodata", "__end_rodata"),
    (".data", _ALLOC | _WRITE, "_sdata", "_edata"),
    (".bss", _ALLOC | _WRITE, "__bss_start", "__bss_stop"),
    (".BTF", 0, "__start_BTF", "__stop_BTF"),
)
# by the architecture, EM_*; x86-64 has tables instead
_CODES: Mapping[int, Code] = {
    elf.EM_386: frame_pointers.I386,
    elf.EM_AARCH64: frame_records.ARM64,
    elf.EM_RISCV: frame_records.RISCV64,
    elf.EM_PPC64: back_chains.PPC64,
    elf.EM_S390: back_chains.S390X,
}
_TABLES = ".debug_frame", ".symtab", ".strtab", ".shstrtab"
_OBJECTS = frozenset("dDbBrRvV")


class _Part(NamedTuple):
    name: str
    flags: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """Bytes in a file that has what memory has."""
        return 0 if self.name == ".bss" else self.end - self.start


# call frames, symbol table, and its strings
_Tables = Sequence[bytes | memoryview]
Keep = Callable[[Callable[[], _Tables]], _Tables]


class _Infos(dict[str, int]):
    """The fields st_info of symbols by their kinds."""

    def __missing__(self, kind: str) -> int:
        what = elf.STT_FUNC if kind in FUNCTION_TYPES else 0
        what = elf.STT_OBJECT if kind in _OBJECTS else what
        self[kind] = (elf.STB_GLOBAL if kind.isupper() else 0) << 4 | what
        return self[kind]


class SymbolFile:
    """An ELF file of something that lies in memory."""

    def __init__(
        self, memory: KernelMemory, structures: Structures, machine: int
    ) -> None:
        """machine: the architecture, EM_*."""
        self._memory, self._machine = memory, machine
        self._structures = structures

    # ---- what is in it
    def _rows(self) -> Iterable[tuple[int, str, str]]:
        """Return address, kind and name of each symbol, as kallsyms has them."""
        raise NotImplementedError

    def _sections(self) -> Sequence[_Part]:
        raise NotImplementedError

    def _frames(self) -> bytes:
        """Return .debug_frame, b"" if nothing tells of it; MemoryFault."""
        raise NotImplementedError

    def _of_text(
        self,
        code: Code,
        start: int,
        end: int,
        lasts: Spans = (),
        interrupts: Spans = (),
    ) -> bytes:
        """Return .debug_frame by what the instructions of functions tell."""
        rows = self._rows()
        starts = {
            at for at, kind, _ in rows if kind in FUNCTION_TYPES and start <= at < end
        }
        return call_frames.debug_frame(
            *(code, start, self._bytes(_Part("", 0, start, end)), sorted(starts)),
            *(lasts, interrupts, self._structures["pt_regs"].at.get("stackframe", 0)),
        )

    @cached_property
    def _parts(self) -> Sequence[_Part]:
        return [part for part in self._sections() if 0 < part.start < part.end]

    @cached_property
    def _tables(self) -> _Tables:
        return self._made_tables()

    def _made_tables(self) -> _Tables:
        try:
            frames = self._frames()
        except MemoryFault:
            frames = b""
        return frames, *self._symbol_table()

    @property
    def call_frames(self) -> bytes | memoryview:
        """The contents of .debug_frame."""
        return self._tables[0]

    # ---- the file
    @property
    def size(self) -> int:
        """The size of content() in bytes."""
        headers, at = self._headers(has_memory=True)
        return at + len(headers)

    def content(self) -> bytes:
        """Return the whole file."""
        return self._file(has_memory=True)

    def for_debugger(self) -> bytes:
        """Return the file without what is in memory."""
        return self._file(has_memory=False)

    def _file(self, *, has_memory: bool) -> bytes:
        headers, at = self._headers(has_memory=has_memory)
        model = self._memory.model
        first, row = model.struct(elf.EHDR_FORM), model.struct(elf.SHDR_FORM).size
        count = len(headers) // row
        kind = next(kind for kind, each in elf.MODELS.items() if each == model)
        head = first.pack(
            *(bytes((*b"\x7fELF", *kind, 1)), _EXEC, self._machine, 1, 0, 0, at, 0),
            *(first.size, 0, 0, row, count, count - 1),
        )
        parts = [self._bytes(part) for part in self._parts] if has_memory else []
        return b"".join(
            (head.ljust(PAGE, b"\0"), *parts, *self._tables, self._names, headers)
        )

    @property
    def _names(self) -> bytes:
        names = (part.name for part in self._parts)
        return "\0".join(("", *names, *_TABLES, "")).encode()

    def _headers(self, *, has_memory: bool) -> tuple[bytes, int]:
        """Return the headers of all sections, and where they are in the file."""
        names, at, model = self._names, PAGE, self._memory.model
        rows = [bytes(model.struct(elf.SHDR_FORM).size)]
        pack = model.struct(elf.SHDR_FORM).pack

        def row(name: str, kind: int, size: int, flags: int = 0, addr: int = 0,
                link: int = 0, info: int = 0, entry: int = 0) -> None:  # fmt: skip
            nonlocal at
            place = names.index(f"\0{name}\0".encode()) + 1
            rows.append(
                pack(*(place, kind, flags, addr, at, size, link, info, 1, entry))
            )
            at += 0 if kind == _NOBITS else size

        for name, flags, start, end in self._parts:
            kind = _PROGBITS if has_memory and name != ".bss" else _NOBITS
            row(name, kind, end - start, flags, start if flags else 0)
        frames, symbols, strings = self._tables
        # the first ones are local; the low bits say of what a symbol is
        size = elf.symbol_size(model)
        infos = bytes(symbols[elf.symbol_info(model) :: size])
        local = bisect_left(infos, 1, key=lambda info: info >> 4)
        row(".debug_frame", _PROGBITS, len(frames))
        links = {"link": len(rows) + 1, "info": local, "entry": size}
        row(".symtab", _SYMTAB, len(symbols), **links)
        row(".strtab", _STRTAB, len(strings))
        row(".shstrtab", _STRTAB, len(names))
        return b"".join(rows), at

    def _bytes(self, part: _Part) -> bytes:
        """Return a part's bytes from memory, zeros where memory is missing."""
        pieces = []
        for at, size in pages_of(part.start, part.size):
            try:
                pieces.append(self._memory.read(at, size))
            except MemoryFault:
                pieces.append(bytes(size))
        return b"".join(pieces)

    def _symbol_table(self) -> tuple[bytes, bytes]:
        """Return the symbol table, in which local ones are first, and its strings."""
        rows = list(self._rows())
        places, infos = self._places({addr for addr, _, _ in rows}), _Infos()
        model = self._memory.model
        table, strings, at = [bytes(elf.symbol_size(model))], [b""], 1
        local = [row for row in rows if not infos[row[1]] >> 4]
        for addr, kind, name in (*local, *(row for row in rows if infos[row[1]] >> 4)):
            number, size = places.get(addr, (elf.SHN_ABS, 0))
            table.append(elf.pack_symbol(model, at, infos[kind], number, addr, size))
            text = name.encode("latin-1")
            strings.append(text)
            at += len(text) + 1
        return b"".join(table), b"\0".join((*strings, b""))

    def _places(self, addresses: set[int]) -> dict[int, tuple[int, int]]:
        """Return the section's number and the size of what begins in a section."""
        addrs, found = sorted(addresses), {}
        for number, part in enumerate(self._parts, 1):
            if part.flags:
                first, last = (bisect_left(addrs, at) for at in (part.start, part.end))
                ends = (*addrs[first + 1 : last], part.end)
                for addr, end in zip(addrs[first:last], ends, strict=False):
                    found[addr] = number, end - addr
        return found


class Vmlinux(SymbolFile):
    """The ELF file of an image. Context: any; an image never changes."""

    def __init__(
        self,
        memory: KernelMemory,
        symbols: CoreSymbols,
        structures: Structures,
        machine: int,
        keep: Keep | None = None,
    ) -> None:
        """keep: given what makes the tables, returns them."""
        super().__init__(memory, structures, machine)
        self._symbols, self._keep = symbols, keep

    def _rows(self) -> Iterable[tuple[int, str, str]]:
        return self._symbols.rows()

    def _made_tables(self) -> _Tables:
        make = super()._made_tables
        return self._keep(make) if self._keep else make()

    def _sections(self) -> Sequence[_Part]:
        address = self._symbols.address
        return [
            _Part(name, flags, address(start), address(end))
            for name, flags, start, end in _PARTS
        ]

    def _frames(self) -> bytes:
        address = self._symbols.address
        text = address("_stext"), address("_etext")
        if self._machine == elf.EM_ARM:
            lasts = self._spans(unwind_tables.LASTS)
            return unwind_tables.debug_frame(self._memory, *text, lasts)
        if code := _CODES.get(self._machine):
            spans = self._spans(code.lasts), self._spans(code.interrupts)
            return self._of_text(code, *text, *spans)
        found = self._symbols.lookup_name("entry_SYSCALL_64_after_hwframe")
        entry = next(((row.addr, row.addr + row.size) for row in found), (0, 0))
        return self._of_rows(text, system_call=entry)

    def _spans(self, named: Named) -> Spans:
        """Return the text of those of these symbols that the kernel has."""
        found = []
        for first, behind in named:
            for row in self._symbols.lookup_name(first):
                end = self._symbols.address(behind) if behind else row.addr + row.size
                found.append((row.addr, end))
        return [(start, end) for start, end in found if start < end]

    def _of_rows(
        self,
        text: tuple[int, int],
        system_call: tuple[int, int] = (0, 0),
        moved: int = 0,
    ) -> bytes:
        """Return what the kernel's ORC tables say; see orc.debug_frame()."""
        address, layout = self._symbols.address, self._structures["orc_entry"]
        places, end = address("__start_orc_unwind_ip"), address("__stop_orc_unwind_ip")
        table = orc.OrcTable(
            places, address("__start_orc_unwind"), (end - places) // orc.PLACE_SIZE
        )
        return orc.debug_frame(self._memory, layout, table, [text], system_call, moved)


class ModuleFile(SymbolFile):
    """The ELF file of a loaded module.  Context: the machine's lock is held."""

    def __init__(
        self,
        memory: KernelMemory,
        module: LoadedModule,
        structures: Structures,
        machine: int,
    ) -> None:
        super().__init__(memory, structures, machine)
        self._module = module

    def _rows(self) -> Iterable[tuple[int, str, str]]:
        return [(row.addr, row.type, row.name) for row in self._module.rows]

    def _sections(self) -> Sequence[_Part]:
        texts = (".text", self._module.text), (".init.text", self._module.init_text)
        return [
            _Part(name, _ALLOC | _CODE, start, end)
            for name, (start, end) in texts
            if end - start <= MAX_TEXT
        ]

    def _frames(self) -> bytes:
        module = self._module
        if self._machine == elf.EM_ARM:
            texts = sorted((module.text, module.init_text))
            return unwind_tables.module_frame(
                self._memory, texts, self._unwind_tables()
            )
        if code := _CODES.get(self._machine):
            return self._of_text(code, *module.text)
        places, count = module.table("arch.orc_unwind_ip", "arch.num_orcs")
        rows, _ = module.table("arch.orc_unwind", "arch.num_orcs")
        text = sorted((module.text, module.init_text))
        table = orc.OrcTable(places, rows, count)
        layout = self._structures["orc_entry"]
        return orc.debug_frame(self._memory, layout, table, text)

    def _unwind_tables(self) -> list[tuple[int, int]]:
        """Return where the unwind tables are: each ends before what follows."""
        sections = self._module.sections(self._memory, self._structures)
        ends = sorted((*sections.values(), *(end for _, end in self._module.parts)))
        return [
            (at, next((end for end in ends if end > at), at))
            for name, at in sections.items()
            if name.startswith(unwind_tables.SECTION)
        ]


class TrampolineFile(Vmlinux):
    """The ELF file of text that ftrace has copied.  Context: lock held."""

    def __init__(
        self,
        memory: KernelMemory,
        symbols: CoreSymbols,
        structures: Structures,
        machine: int,
        trampoline: Trampoline,
    ) -> None:
        super().__init__(memory, symbols, structures, machine)
        self._trampoline = trampoline

    def _rows(self) -> Iterable[tuple[int, str, str]]:
        return [(self._trampoline.start, "t", "ftrace_trampoline")]

    def _sections(self) -> Sequence[_Part]:
        start, end, _ = self._trampoline
        return [_Part(".text", _ALLOC | _CODE, start, end)]

    def _frames(self) -> bytes:
        start, end, name = self._trampoline
        origin = self._symbols.address(name)
        if not origin:
            return b""
        return self._of_rows((origin, origin + end - start), moved=start - origin)
