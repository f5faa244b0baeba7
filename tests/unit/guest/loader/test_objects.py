# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.guest.loader.objects: placing, linking and giving back relocatable objects."""

import struct

import pytest

from kpfs.base import elf
from kpfs.base.errors import KernelError
from kpfs.guest.emu.memory import Memory
from kpfs.guest.loader.objects import load_object
from tests.unit.guest.bare import ALLOC, EXEC, NOBITS, PROGBITS, WRITE, make_elf

FUNC = 0x12


@pytest.fixture
def memory():
    return Memory()


def object_file(undefined="helper"):
    return make_elf(
        [
            (".text", PROGBITS, ALLOC | EXEC, 0, b"\x90" * 16),
            (".init.text", PROGBITS, ALLOC | EXEC, 0, b"\xc3" * 16),
            (".data", PROGBITS, ALLOC | WRITE, 0, bytes(8)),
            (".rodata", PROGBITS, ALLOC, 0, b"constant"),
            (".bss", NOBITS, ALLOC | WRITE, 0, 5000),
            (".comment", PROGBITS, 0, 0, b"ignored"),
        ],
        [("run", 4, 1, FUNC), ("zeros", 0, 5, FUNC), (undefined, 0, 0, FUNC)],
        [(3, [(0, elf.R_X86_64_64, 3, 0)])],
    )


def section_address(loaded, name):
    """Return the address of the first section of that name, None without one."""
    index = [section.name for section in loaded.image.sections].index(name)
    return loaded.places.get(index)


def test_sections_lie_by_kind(memory):
    loaded = load_object(memory, object_file(), {"helper": 0x1234}.get)
    text, init, data = (
        section_address(loaded, n) for n in (".text", ".init.text", ".data")
    )
    assert text >> 12 == init >> 12 != data >> 12
    assert section_address(loaded, ".comment") is None
    assert loaded.symbols == {"run": text + 4, "zeros": section_address(loaded, ".bss")}
    assert memory.read(text, 16) == b"\x90" * 16
    assert memory.read(section_address(loaded, ".rodata"), 8) == b"constant"
    assert struct.unpack("<Q", memory.read(data, 8))[0] == 0x1234
    assert memory.read(loaded.symbols["zeros"], 5000) == bytes(5000)


def test_nothing_stays_of_what_cannot_be_linked(memory):
    with pytest.raises(KernelError, match="ENOENT"):
        load_object(memory, object_file(), lambda _name: None)
    assert memory.area.alloc(1, 0) == Memory().area.alloc(1, 0)
