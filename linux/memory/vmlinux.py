# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes an ELF file of a kernel's memory and symbols.  Document: elf(5)."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import NamedTuple

from kpfs.base.errors import MemoryFault
from kpfs.guest.loader import elf
from kpfs.linux.memory.memory import KernelMemory, pages_of
from kpfs.linux.memory.symbols import CoreSymbols

PAGE = 4096
_EXEC, _PROGBITS, _SYMTAB, _STRTAB, _NOBITS = 2, 1, 2, 3, 8
_IDENT = b"\x7fELF\2\1\1".ljust(16, b"\0")
_ALLOC, _WRITE, _CODE = elf.SHF_ALLOC, elf.SHF_WRITE, elf.SHF_EXECINSTR
# name, flags, the symbols where it begins and ends
_PARTS = (
    (".text", _ALLOC | _CODE, "_stext", "_etext"),
    (".rodata", _ALLOC, "__start_rodata", "__end_rodata"),
    (".data", _ALLOC | _WRITE, "_sdata", "_edata"),
    (".bss", _ALLOC | _WRITE, "__bss_start", "__bss_stop"),
    (".BTF", 0, "__start_BTF", "__stop_BTF"),
)
_FUNCTIONS, _OBJECTS = frozenset("tTwW"), frozenset("dDbBrRvV")


class _Part(NamedTuple):
    name: str
    flags: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return 0 if self.name == ".bss" else self.end - self.start


class Vmlinux:
    """The ELF file of an image. Context: any; an image never changes."""

    def __init__(
        self, memory: KernelMemory, symbols: CoreSymbols, machine: int
    ) -> None:
        """machine: the architecture, EM_*."""
        self._memory, self._symbols, self._machine = memory, symbols, machine

    @cached_property
    def _parts(self) -> list[_Part]:
        address = self._symbols.address
        found = [
            _Part(name, flags, address(start), address(end))
            for name, flags, start, end in _PARTS
        ]
        return [part for part in found if 0 < part.start < part.end]

    @cached_property
    def _sizes(self) -> tuple[int, int]:
        """Return the sizes of the symbol table and of its string table."""
        names = [name for _, _, name in self._symbols.rows()]
        strings = 1 + sum(len(name) + 1 for name in names)
        return (len(names) + 1) * elf.SYM.size, strings

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return self._headers_at + (len(self._parts) + 4) * elf.SHDR.size

    @cached_property
    def _headers_at(self) -> int:
        return self._names_at + len(self._names)

    @property
    def _symbols_at(self) -> int:
        return PAGE + sum(part.size for part in self._parts)

    @property
    def _names_at(self) -> int:
        return self._symbols_at + sum(self._sizes)

    @property
    def _names(self) -> bytes:
        names = [part.name for part in self._parts]
        return "\0".join(("", *names, ".symtab", ".strtab", ".shstrtab", "")).encode()

    def content(self) -> bytes:
        """Return the whole file."""
        table, strings, local = self._symbol_table()
        pieces = [self._head().ljust(PAGE, b"\0")]
        pieces += [self._bytes(part) for part in self._parts]
        pieces += [table, strings, self._names, self._headers(local)]
        return b"".join(pieces)

    def _head(self) -> bytes:
        count = len(self._parts) + 4
        return elf.EHDR.pack(
            *(_IDENT, _EXEC, self._machine, 1, 0, 0, self._headers_at, 0),
            *(elf.EHDR.size, 0, 0, elf.SHDR.size, count, count - 1),
        )

    def _bytes(self, part: _Part) -> bytes:
        """Return a part's bytes from memory, zeros where memory is missing."""
        pieces = []
        for at, size in pages_of(part.start, part.size):
            try:
                pieces.append(self._memory.read(at, size))
            except MemoryFault:
                pieces.append(bytes(size))
        return b"".join(pieces)

    def _symbol_table(self) -> tuple[bytes, bytes, int]:
        """Return symbol table, string table, and the number of local symbols."""
        rows = sorted(self._symbols.rows(), key=lambda row: row[1].isupper())
        addrs = sorted({addr for addr, _, _ in rows})
        table, strings, at = [bytes(elf.SYM.size)], [b""], 1
        local = 1
        for addr, kind, name in rows:
            number, part = self._part_of(addr)
            after = bisect_right(addrs, addr)
            end = addrs[after] if after < len(addrs) else addr
            size = min(end, part.end) - addr if part else 0
            what = elf.STT_FUNC if kind in _FUNCTIONS else 0
            what = elf.STT_OBJECT if kind in _OBJECTS else what
            info = (elf.STB_GLOBAL if kind.isupper() else 0) << 4 | what
            local += not kind.isupper()
            table.append(elf.SYM.pack(at, info, 0, number, addr, size))
            text = name.encode("latin-1")
            strings.append(text)
            at += len(text) + 1
        return b"".join(table), b"\0".join((*strings, b"")), local

    def _part_of(self, addr: int) -> tuple[int, _Part | None]:
        """Return the number of the section around an address, and the section."""
        for number, part in enumerate(self._parts, 1):
            if part.flags and part.start <= addr < part.end:
                return number, part
        return elf.SHN_ABS, None

    def _headers(self, local: int) -> bytes:
        names, at = self._names, PAGE
        rows = [bytes(elf.SHDR.size)]

        def row(name: str, kind: int, flags: int, addr: int, at: int, size: int,
                link: int = 0, info: int = 0, entry: int = 0) -> None:  # fmt: skip
            place = names.index(f"\0{name}\0".encode()) + 1
            rows.append(
                elf.SHDR.pack(
                    *(place, kind, flags, addr, at, size, link, info, 1, entry)
                )
            )

        for name, flags, start, end in self._parts:
            kind = _NOBITS if name == ".bss" else _PROGBITS
            row(name, kind, flags, start if flags else 0, at, end - start)
            at += 0 if kind == _NOBITS else end - start
        size, strings = self._sizes
        last = len(self._parts) + 2
        row(".symtab", _SYMTAB, 0, 0, at, size, last, local, elf.SYM.size)
        row(".strtab", _STRTAB, 0, 0, at + size, strings)
        row(".shstrtab", _STRTAB, 0, 0, self._names_at, len(names))
        return b"".join(rows)
