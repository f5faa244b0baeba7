# SPDX-License-Identifier: GPL-2.0-or-later
"""The ELF file of a dump, as readelf and Python's struct see it."""

import shutil
import struct
import subprocess

import pytest

from kpfs.base.core_file import (
    HEAD_SIZE,
    CopiedMemory,
    CoreFile,
    CoreProcessor,
    MappedRange,
    zeros,
)
from kpfs.base.data_model import BIG_64, LITTLE_32, LITTLE_64
from kpfs.base.units import PAGE_SIZE

INFO = b"OSRELEASE=6.1\nPAGESIZE=4096\n"
SIZE = 8 * PAGE_SIZE


def memory():
    pages = {1: b"\1" * PAGE_SIZE, 2: b"\2" * PAGE_SIZE, 5: b"\5" * PAGE_SIZE}
    return CopiedMemory(SIZE, pages, lambda at, size: b"-" * size)


def made(info=INFO, machine=62):
    segments = [
        MappedRange(0x7000_0000, PAGE_SIZE, PAGE_SIZE),
        MappedRange(0x1000, 0, SIZE),
    ]
    cpus = [CoreProcessor(0, {"rip": 0x1234, "rsp": -1}), CoreProcessor(77, {})]
    model = {22: BIG_64, 3: LITTLE_32, 40: LITTLE_32}.get(machine, LITTLE_64)
    return CoreFile(machine, model, memory(), segments, cpus, info)


def test_memory_is_copied_over_what_is_below():
    whole = memory().read(0, SIZE)
    assert [whole[at] for at in range(0, SIZE, PAGE_SIZE)] == list(b"-\1\2--\5--")
    for at, size in ((0, 1), (PAGE_SIZE - 1, 2), (100, 3 * PAGE_SIZE), (SIZE - 5, 5)):
        assert memory().read(at, size) == whole[at : at + size]
    assert zeros(5, 3) == bytes(3)


def test_parts_of_the_file_are_those_of_the_whole():
    core = made()
    whole = core.read(0, 1 << 30)
    assert len(whole) == core.size == HEAD_SIZE + SIZE
    assert whole[HEAD_SIZE:] == memory().read(0, SIZE)
    for at, size in ((0, 10), (HEAD_SIZE - 3, 6), (HEAD_SIZE, 1), (core.size - 1, 9)):
        assert core.read(at, size) == whole[at : at + size]
    assert core.read(core.size, 10) == b""


@pytest.mark.parametrize(("machine", "digits"), [(62, 16), (3, 8)])
def test_readelf_reads_it(tmp_path, machine, digits):
    if not shutil.which("readelf"):
        pytest.skip("readelf is missing (Debian: binutils)")
    (tmp_path / "core").write_bytes(made(machine=machine).read(0, 1 << 30))
    words = "readelf", "-W", "-h", "-l", "-n", tmp_path / "core"
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    said = " ".join(done.stdout.split())
    assert "Type: CORE" in said
    assert said.count("NT_PRSTATUS") == 2
    assert "VMCOREINFO" in said
    places = " ".join(f"0x{at:0{digits}x}" for at in (0x7000_0000, 0x1000))
    assert f"LOAD 0x021000 {places} 0x01000" in said or f"{places} 0x001000" in said


SIZES = [
    (62, 27),
    (183, 34),
    (243, 32),
    (21, 48),
    (22, 27),
    (8, 45),
]  # words of elf_gregset_t


@pytest.mark.parametrize(("machine", "words"), SIZES)
def test_registers_are_those_of_each_architecture(machine, words):
    raw = made(machine=machine).read(0, HEAD_SIZE)
    order = ">" if machine == 22 else "<"
    offset, size = struct.unpack_from(f"{order}Q8x8xQ", raw, 64 + 8)
    notes = raw[offset : offset + size]
    name_size, desc_size, kind = struct.unpack_from(f"{order}III", notes)
    assert (name_size, desc_size, kind) == (5, 112 + 8 * words + 8, 1)
    if machine == 62:
        registers = struct.unpack_from(f"<{words}Q", notes, 20 + 112)
        assert registers[16] == 0x1234
        assert registers[19] == (1 << 64) - 1


@pytest.mark.parametrize(("machine", "words"), [(3, 17), (40, 18)])
def test_registers_of_32_bits(machine, words):
    raw = made(machine=machine).read(0, HEAD_SIZE)
    offset, size = struct.unpack_from("<I8xI", raw, 52 + 4)
    notes = raw[offset : offset + size]
    assert struct.unpack_from("<III", notes) == (5, 72 + 4 * words + 4, 1)


def test_a_kernel_without_vmcoreinfo_has_an_empty_auxv():
    assert b"VMCOREINFO" not in made(b"").read(0, HEAD_SIZE)
