# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.guest.emu.memory: translation, the image, the page allocator."""

import mmap

import pytest

from kpfs.base import abi
from kpfs.base.errors import KernelError, MemoryFault
from kpfs.base.units import LARGE_PAGE, PAGE_SIZE
from kpfs.guest.emu.memory import (
    AREA_END,
    AREA_SIZE,
    KERNEL_DATA,
    KERNEL_MAP,
    KERNEL_TEXT,
    USER_END,
    Memory,
)


@pytest.fixture
def memory():
    return Memory()


def test_direct_map_is_ram(memory):
    memory.write(abi.DIRECT_MAP + 0x20_0000, b"hello")
    assert memory.ram[0x20_0000:0x20_0005] == b"hello"
    assert memory.read(abi.DIRECT_MAP + 0x20_0001, 3) == b"ell"


def test_image(memory):
    memory.load_image(abi.TEXT_BASE, b"\x90" * 10, 5000, KERNEL_TEXT)
    memory.load_image(abi.TEXT_BASE + 0x20_0000, b"data", 4, KERNEL_DATA)
    assert memory.read(abi.TEXT_BASE, 11) == b"\x90" * 10 + b"\0"
    assert memory.read(abi.TEXT_BASE - KERNEL_MAP + abi.DIRECT_MAP, 2) == b"\x90\x90"
    assert memory.image_pages_end == abi.TEXT_BASE - KERNEL_MAP + 0x20_1000


@pytest.mark.parametrize(
    ("addr", "size"),
    [
        (0, 1),
        (8, 8),
        (abi.USER_BASE - 1, 1),
        (USER_END - 4, 8),
        (abi.DIRECT_MAP - 8, 8),
        (abi.TEXT_BASE, 1),
        (abi.MODULE_BASE, 1),
        (AREA_END - 1, 2),
        ((1 << 64) - 8, 8),
        (0x8000_0000_0000_0000, 8),
    ],
)
def test_missing_pages_fault(memory, addr, size):
    with pytest.raises(MemoryFault) as info:
        memory.read(addr, size)
    assert info.value.addr == addr
    with pytest.raises(MemoryFault):
        memory.write(addr, bytes(size))


def test_words_and_views(memory):
    addr = memory.area.alloc(100, KERNEL_DATA)
    memory.write_u64(addr, -1)
    assert memory.read_u64(addr) == 0xFFFF_FFFF_FFFF_FFFF
    assert memory.read_u32(addr + 4) == 0xFFFF_FFFF
    view = memory.view(addr, 16)
    view[8:12] = b"view"
    assert memory.read(addr + 8, 4) == b"view"
    with pytest.raises(MemoryFault):
        memory.view(addr, PAGE_SIZE + 1)


def test_cstring(memory):
    addr = memory.area.alloc(PAGE_SIZE, KERNEL_DATA)
    memory.write(addr, b"path\0rest")
    assert memory.read_cstring(addr, 100) == b"path"
    assert memory.read_cstring(addr, 2) == b"pa"
    memory.write(addr + PAGE_SIZE - 3, b"end")
    with pytest.raises(MemoryFault):
        memory.read_cstring(addr + PAGE_SIZE - 3, 10)


def test_area_is_reused_zeroed_and_merged(memory):
    area = memory.area
    one, two, three = (area.alloc(2 * PAGE_SIZE, KERNEL_DATA) for _ in range(3))
    assert (one, two) == (abi.MODULE_BASE, abi.MODULE_BASE + 2 * PAGE_SIZE)
    memory.write(two, b"dirt")
    area.free(two)
    with pytest.raises(MemoryFault):
        memory.read(two, 1)
    assert memory.read(three, 1) == b"\0"
    assert area.alloc(3 * PAGE_SIZE, KERNEL_DATA) == three + 2 * PAGE_SIZE
    assert area.alloc(1, KERNEL_DATA) == two
    assert memory.read(two, 4) == bytes(4)
    area.free(one)
    area.free(two)
    assert area.alloc(4 * PAGE_SIZE, KERNEL_DATA) == one


def test_full_area(memory):
    memory.area.alloc(AREA_SIZE - PAGE_SIZE, KERNEL_DATA)
    with pytest.raises(KernelError, match="ENOMEM"):
        memory.area.alloc(2 * PAGE_SIZE, KERNEL_DATA)
    memory.area.alloc(PAGE_SIZE, KERNEL_DATA)


def test_untouched_memory_costs_nothing():
    def resident():
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * PAGE_SIZE

    before = resident()
    memory = Memory()
    assert resident() - before < 2 << 20
    assert memory.size > 100 << 20


@pytest.mark.parametrize("kind", ["near", "far"])
def test_a_ring_area_gives_what_it_gets_back(memory, kind):
    area = getattr(memory, kind)
    free = list(area._free)
    blocks = [area.alloc(size) for size in (1, PAGE_SIZE, 3 << 20, 100 << 20)]
    assert all(area.has(block) for block in blocks)
    memory.write(blocks[2] + (3 << 20) - 4, b"last")
    assert memory.read(blocks[2] + (3 << 20) - 4, 4) == b"last"
    for addr, size in ((blocks[0] - 1, 1), (blocks[3] + (100 << 20), 1)):
        with pytest.raises(MemoryFault):
            memory.read(addr, size)
    for block in (blocks[1], blocks[3], blocks[0], blocks[2]):
        area.free(block)
        with pytest.raises(MemoryFault):
            memory.read(block, 1)
    assert area._free == free
    again = area.alloc(200 << 20)
    assert not any(memory.read(again + (1 << 20), 3 << 20))
    area.free(again)


def test_a_ring_area_refuses_what_the_host_has_not(memory, monkeypatch):
    monkeypatch.setattr("kpfs.guest.emu.memory._available", lambda: 1 << 20)
    with pytest.raises(KernelError, match="ENOMEM"):
        memory.far.alloc(2 << 20)
    memory.far.free(memory.far.alloc(1 << 20))
    monkeypatch.setattr("kpfs.guest.emu.memory._available", lambda: 1 << 50)
    with pytest.raises(KernelError, match="ENOMEM"):
        memory.near.alloc(1 << 40)


def test_a_host_that_grants_less_makes_the_area_smaller(monkeypatch):
    real, asked = mmap.mmap, []

    def grant(fileno, size, flags):
        asked.append(size)
        if size > 8 << 30:
            raise OSError("no overcommitment")
        return real(fileno, size, flags)

    monkeypatch.setattr("kpfs.guest.emu.memory.mmap.mmap", grant)
    memory = Memory()
    assert len(asked) == 4
    with pytest.raises(KernelError, match="ENOMEM"):
        memory.far.alloc(5 << 30)
    monkeypatch.setattr("kpfs.guest.emu.memory._available", lambda: 1 << 50)
    memory.far.free(memory.far.alloc(3 << 30))


def test_a_host_that_grants_little(monkeypatch):
    """All other memory is there; a ring of a megabyte or two has room."""
    real = mmap.mmap

    def grant(fileno, size, flags, *more):
        if size > 300 << 20:
            raise OSError("a limit on addresses")
        return real(fileno, size, flags, *more)

    monkeypatch.setattr("kpfs.guest.emu.memory.mmap.mmap", grant)
    memory = Memory()
    for area in (memory.near, memory.far):
        assert area.has(area.alloc(4 << 20))
        with pytest.raises(KernelError, match="ENOMEM"):
            area.alloc(64 << 20)


def test_guest_code_reaches_both_ring_areas(memory):
    """Through page tables: from a large page to the next."""
    for area in (memory.near, memory.far):
        block = area.alloc(5 << 20)
        for at in range(block, block + (5 << 20), 1 << 20):
            assert walk_tables(memory, at) == area.phys(at)


def walk_tables(memory, addr):
    """The physical address that the guest's page tables say; large pages alone."""
    table = memory.cr3
    for shift in (39, 30):
        at = table + (addr >> shift & 511) * 8
        table = int.from_bytes(memory.ram[at : at + 8], "little") & 0xFFFFFFFFFF000
    at = table + (addr >> 21 & 511) * 8
    entry = int.from_bytes(memory.ram[at : at + 8], "little")
    assert entry & 0x81 == 0x81
    return (entry & 0x000FFFFFFFE00000) + (addr & (LARGE_PAGE - 1))


def test_a_stack_has_nothing_below_it(memory):
    """A stack reaches into no other one, either."""
    first = abi.STACK_BASE + abi.STACK_STRIDE - abi.STACK_SIZE
    for slot in (0, 1, abi.STACKS - 1):
        start = first + slot * abi.STACK_STRIDE
        memory.write(start, bytes([slot & 255]) * abi.STACK_SIZE)
    for slot in (0, 1, abi.STACKS - 1):
        start = first + slot * abi.STACK_STRIDE
        assert memory.read(start + abi.STACK_SIZE - 1, 1) == bytes([slot & 255])
        for addr, size in ((start - 1, 1), (start - 1, 2), (start, abi.STACK_SIZE + 1)):
            with pytest.raises(MemoryFault):
                memory.read(addr, size)
