# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.base.elf: reading and linking hand-made files."""

import struct

import pytest

from kpfs.base import elf
from kpfs.base.errors import KernelError
from tests.there import there
from tests.unit.guest.bare import ALLOC, EXEC, NOBITS, PROGBITS, WRITE, make_elf

GLOBAL_FUNC, WEAK, LOCAL = 0x12, 0x20, 0x00


def object_file(relocations, symbols):
    sections = [
        (".text", PROGBITS, ALLOC | EXEC, 0, bytes(32)),
        (".bss", NOBITS, ALLOC | WRITE, 0, 64),
    ]
    return elf.ElfFile(make_elf(sections, symbols, [(1, relocations)]))


def link(relocations, symbols, resolve=lambda name: None, base=0x1000):
    image = object_file(relocations, symbols)
    images, own = elf.relocate(image, {1: base, 2: 0x2000}, resolve)
    return own, bytes(images[1])


def test_segments_sections_and_symbols():
    data = make_elf(
        [(".text", PROGBITS, ALLOC | EXEC, 0x4000, b"abc"), (".bss", NOBITS, 3, 0, 9)],
        [("one", 0x4000, 1, GLOBAL_FUNC)],
        segments=[(5, 0x4000, b"abc", 0x10)],
        kind=2,
    )
    image = elf.ElfFile(data)
    assert [(s.vaddr, s.filesz, s.memsz) for s in image.segments] == [(0x4000, 3, 16)]
    text = there(image.section(".text"))
    assert image.contents(text) == b"abc"
    assert image.contents(there(image.section(".bss"))) == bytes(9)
    assert image.section(".nope") is None
    assert image.symbols()[1] == elf.ElfSymbol("one", 0x4000, 0, 1, 2, 1)
    assert image.addresses() == {
        symbol.name: symbol.value
        for symbol in image.symbols()
        if symbol.shndx and symbol.bind == elf.STB_GLOBAL
    }


def test_relocations():
    own, text = link(
        [
            (0, elf.R_X86_64_64, 1, 4),
            (8, elf.R_X86_64_PC32, 1, -4),  # wraps at 64 bits
            (12, elf.R_X86_64_PLT32, 2, -4),
            (16, elf.R_X86_64_32, 1, 0),
            (20, elf.R_X86_64_32S, 2, 0),
        ],
        [("here", 8, 2, GLOBAL_FUNC), ("far", 0, 0, GLOBAL_FUNC)],
        resolve={"far": 0xFFFFFFFF81000000}.get,
        base=0xFFFFFFFFC0000000,
    )
    assert own == {"here": 0x2008}
    assert struct.unpack_from("<Q", text, 0)[0] == 0x200C
    pc32, plt32, abs32, abs32s = struct.unpack_from("<iiIi", text, 8)
    assert plt32 == -0x3F000000 - 12 - 4
    assert abs32 == 0x2008
    assert abs32s == -0x7F000000
    assert pc32 == 0x2008 - 4 + 0x40000000 - 8


@pytest.mark.parametrize(
    ("relocation", "symbol", "errno"),
    [
        ((0, elf.R_X86_64_32, 1, -0x3000), ("a", 0, 2, GLOBAL_FUNC), "ENOEXEC"),
        ((0, 99, 1, 0), ("a", 0, 2, GLOBAL_FUNC), "ENOEXEC"),
        ((30, elf.R_X86_64_64, 1, 0), ("a", 0, 2, GLOBAL_FUNC), "ENOEXEC"),
        ((0, elf.R_X86_64_64, 1, 0), ("missing", 0, 0, GLOBAL_FUNC), "ENOENT"),
    ],
)
def test_relocations_that_fail(relocation, symbol, errno):
    with pytest.raises(KernelError, match=errno):
        link([relocation], [symbol])


def test_missing_weak_symbol_is_zero():
    _own, text = link([(0, elf.R_X86_64_64, 1, 0)], [("maybe", 0, 0, WEAK)])
    assert text[:8] == bytes(8)


@pytest.mark.parametrize("size", [0, 10, 63, 64, 100, 300])
def test_a_cut_file_is_refused(size):
    data = make_elf([(".text", PROGBITS, ALLOC, 0, bytes(8))])
    assert len(data) > 300
    with pytest.raises(KernelError):
        elf.ElfFile(data[:size])


def test_another_machine_is_refused():
    data = bytearray(make_elf([]))
    data[18] = 183
    with pytest.raises(KernelError, match="ENOEXEC"):
        elf.ElfFile(bytes(data))
