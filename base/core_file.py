# SPDX-License-Identifier: GPL-2.0-or-later
"""An ELF core of a kernel: registers, what the kernel says of itself, and memory.

Its layout depends on nothing that changes, so that its size is known before it is
made.  Memory comes once, by physical address, behind a head of fixed size.  A segment
says at which virtual and physical address a part of it lies; several may name the same
part.  Documents: elf(5), core(5), Linux's Documentation/admin-guide/kdump/.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from kpfs.base.data_model import DataModel
from kpfs.base.elf import EHDR_FORM, MODELS, PT_LOAD, pack_segment, segment_size
from kpfs.base.units import PAGE_SIZE, WORD

HEAD_SIZE = 0x2_0000
_NOTE = "III"
_ET_CORE, _PT_NOTE, _ALL = 4, 4, 7
_NT_PRSTATUS, _NT_AUXV = 1, 6
# struct elf_prstatus by the size of a long: before the registers, with the pid in it
_PRSTATUS = {WORD: "32xI76x", 4: "24xI44x"}
_NONE = ""  # a register that is not known, or a word that is none
# machine: the registers in the order of struct elf_prstatus, by gdb's names
_REGISTERS: Mapping[int, tuple[str, ...]] = {
    3: (
        *("ebx", "ecx", "edx", "esi", "edi", "ebp", "eax", "ds", "es", "fs", "gs"),
        *("orig_eax", "eip", "cs", "eflags", "esp", "ss"),
    ),
    40: (*(f"r{n}" for n in range(13)), "sp", "lr", "pc", "cpsr", _NONE),
    8: (
        *(f"r{n}" for n in range(32)),
        *("lo", "hi", "pc", "badvaddr", "status", "cause"),
        *(_NONE for _ in range(7)),
    ),
    21: (
        *(f"r{n}" for n in range(32)),
        *("pc", "msr", _NONE, "ctr", "lr", "xer", "cr", _NONE, _NONE, "dar", "dsisr"),
        *(_NONE for _ in range(5)),
    ),
    22: (
        *("pswm", "pswa", *(f"r{n}" for n in range(16))),
        *(_NONE for _ in range(9)),  # access registers, and what r2 was in a call
    ),
    62: (
        *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax"),
        *("rcx", "rdx", "rsi", "rdi", "orig_rax", "rip", "cs", "eflags", "rsp", "ss"),
        *("fs_base", "gs_base", "ds", "es", "fs", "gs"),
    ),
    183: (*(f"x{n}" for n in range(31)), "sp", "pc", "cpsr"),
    243: (
        *("pc", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "fp", "s1"),
        *(f"a{n}" for n in range(8)),
        *(f"s{n}" for n in range(2, 12)),
        *("t3", "t4", "t5", "t6"),
    ),
}


class MappedRange(NamedTuple):
    """A part of memory: [physical, physical + size), and where it is mapped."""

    virtual: int
    physical: int
    size: int


class CoreProcessor(NamedTuple):
    """A processor when the core was made."""

    pid: int
    registers: Mapping[str, int]


class PhysicalMemory(Protocol):
    """Memory by physical address, as it was at one moment."""

    @property
    def size(self) -> int: ...

    def read(self, at: int, size: int) -> bytes: ...


class CoreFile:
    """The file, of which parts are made as they are read.  Context: any thread."""

    def __init__(
        self,
        machine: int,
        model: DataModel,
        memory: PhysicalMemory,
        segments: Sequence[MappedRange],
        processors: Sequence[CoreProcessor],
        vmcoreinfo: bytes,
    ) -> None:
        """machine: EM_*.  vmcoreinfo: b"" for a kernel that has none."""
        self._memory = memory
        notes = b"".join(
            _note(model, "CORE", _NT_PRSTATUS, _prstatus(machine, model, number, cpu))
            for number, cpu in enumerate(processors)
        )
        if vmcoreinfo:
            notes += _note(model, "VMCOREINFO", 0, vmcoreinfo)
        else:  # drgn wants it where there is no VMCOREINFO
            notes += _note(model, "CORE", _NT_AUXV, bytes(2 * model.long))
        count = 1 + len(segments)
        first, row = model.struct(EHDR_FORM), segment_size(model)
        at = first.size + count * row
        rows = [pack_segment(model, _PT_NOTE, 0, at, 0, 0, len(notes), 4)]
        rows += [
            pack_segment(
                model, PT_LOAD, _ALL, HEAD_SIZE + physical, virtual, physical, size, 0
            )
            for virtual, physical, size in segments
        ]
        kind = next(kind for kind, each in MODELS.items() if each == model)
        head = first.pack(
            bytes((*b"\x7fELF", *kind, 1)),
            *(_ET_CORE, machine, 1, 0, first.size, 0, 0),
            *(first.size, row, count, 0, 0, 0),
        )
        self._head = b"".join((head, *rows, notes)).ljust(HEAD_SIZE, b"\0")
        assert len(self._head) == HEAD_SIZE

    @property
    def size(self) -> int:
        return HEAD_SIZE + self._memory.size

    def read(self, offset: int, size: int) -> bytes:
        """Return up to so many bytes of the file."""
        end = min(offset + size, self.size)
        if offset >= end:
            return b""
        found = self._head[offset:end]
        at = max(offset, HEAD_SIZE) - HEAD_SIZE
        return found + self._memory.read(at, max(end - HEAD_SIZE - at, 0))


class CopiedMemory:
    """Physical memory: pages that were copied, over others that never change."""

    def __init__(self, size: int, pages: Mapping[int, bytes], below: Below) -> None:
        """pages: by their numbers, of PAGE_SIZE each.  below: reads all others."""
        self.size, self._pages, self._below = size, pages, below

    def read(self, at: int, size: int) -> bytes:
        found, end = [], at + size
        while at < end:
            count = min(end - at, PAGE_SIZE - at % PAGE_SIZE)
            page = self._pages.get(at // PAGE_SIZE)
            if page is None:
                while at + count < end and (at + count) // PAGE_SIZE not in self._pages:
                    count = min(end - at, count + PAGE_SIZE)
                found.append(self._below(at, count))
            else:
                start = at % PAGE_SIZE
                found.append(page[start : start + count])
            at += count
        return b"".join(found)


class Below(Protocol):
    """Reads memory that never changes: physical address, size."""

    def __call__(self, at: int, size: int, /) -> bytes: ...


def zeros(_at: int, size: int) -> bytes:
    """Read memory that nobody has written."""
    return bytes(size)


def _note(model: DataModel, name: str, kind: int, content: bytes) -> bytes:
    raw = name.encode() + b"\0"
    head = model.struct(_NOTE).pack(len(raw), len(content), kind)
    return (
        head
        + raw.ljust(-(-len(raw) // 4) * 4, b"\0")
        + content
        + bytes(-len(content) % 4)
    )


def _prstatus(machine: int, model: DataModel, number: int, cpu: CoreProcessor) -> bytes:
    """Return struct elf_prstatus.  gdb wants each thread to have another pid."""
    names, mask = _REGISTERS[machine], (1 << 8 * model.long) - 1
    words = [cpu.registers.get(name, 0) & mask for name in names]
    packed = model.struct(f"{len(words)}L").pack(*words)
    begin = model.struct(_PRSTATUS[model.long]).pack(cpu.pid or number)
    return begin + packed + bytes(model.long)
