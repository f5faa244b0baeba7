# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.guest.emu.memory: translation, the image, the page allocator."""

import pytest

from kpfs import abi
from kpfs.engine.errors import KernelError, MemoryFault
from kpfs.guest.emu.memory import (
    AREA_END,
    AREA_SIZE,
    KERNEL_DATA,
    KERNEL_MAP,
    KERNEL_TEXT,
    PAGE_SIZE,
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


def test_a_stack_has_nothing_below_it(memory):
    """Nor does it reach into another."""
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
