# SPDX-License-Identifier: GPL-2.0-or-later
"""frozen: a machine goes back to what it was; no guest."""

import pytest

from kpfs.base import pagemap
from kpfs.base.errors import MemoryFault
from kpfs.base.units import PAGE_SIZE
from kpfs.guest.emu import frozen
from kpfs.guest.emu.cpu_registers import REG_DI, REG_IP
from kpfs.guest.emu.frozen import freeze, thaw
from tests.unit.guest.bare import BareCpu

COUNT = b"\x48\xff\x07"  # inc qword ptr [rdi]
TWICE = b"\x48\x83\x07\x02"  # add qword ptr [rdi], 2
STOP = b"\xe7\x10\xeb\x00"


@pytest.fixture
def bare():
    made = BareCpu()
    made.cpu.hypercalls[0x10] = lambda _value: made.cpu.stop()
    yield made
    made.cpu.close()


def run(bare, code=None):
    """Run the text, which is changed as an emulator must not notice by itself."""
    if code is not None:
        bare.memory.write(bare.text, code + STOP)
        bare.cpu.drop(bare.text, 16)
    bare.cpu.write_reg(REG_IP, bare.text)
    bare.cpu.write_reg(REG_DI, bare.data)
    bare.cpu.run()
    return bare.memory.read_u64(bare.data)


def test_memory_code_and_registers(bare):
    assert run(bare, COUNT) == 1
    bare.cpu.write_reg(REG_DI, 77)
    copy = freeze(bare.memory, bare.cpu)
    assert run(bare, TWICE) == 3
    thaw(copy, bare.memory, bare.cpu)
    assert bare.cpu.read_reg(REG_DI) == 77
    assert bare.memory.read_u64(bare.data) == 1
    assert run(bare) == 2  # the old code, and not its successor's translation


def test_pages_that_came_later_are_given_back(bare):
    copy = freeze(bare.memory, bare.cpu)
    page = bare.memory.size - PAGE_SIZE
    bare.memory.ram[page : page + 4] = b"late"
    thaw(copy, bare.memory, bare.cpu)
    assert bare.memory.ram[page : page + 4] == bytes(4)


def test_rings(bare):
    near = bare.memory.near
    addr = near.alloc(PAGE_SIZE)
    bare.memory.write(addr, b"kept")
    copy = freeze(bare.memory, bare.cpu)
    near.free(addr)
    with pytest.raises(MemoryFault):
        bare.memory.read(addr, 4)
    thaw(copy, bare.memory, bare.cpu)
    at = near.phys(addr)
    assert bare.memory.ram[at : at + 4] == b"kept"


def test_linux_without_a_list_of_pages(bare, monkeypatch):
    monkeypatch.setattr(pagemap, "PATH", "/proc/self/no-such-file")
    ranges = [(0, 8 * PAGE_SIZE)]
    assert list(frozen._populated(bare.memory, ranges)) == ranges


def test_hooks_of_memory(bare):
    seen = []
    bare.cpu.accessed = lambda *access: seen.append(access)
    bare.cpu.go_on = lambda: False
    copy = freeze(bare.memory, bare.cpu)
    at = bare.memory.translate(bare.data, 8)
    bare.cpu.hook_memory([(at, at)])
    hooked = freeze(bare.memory, bare.cpu)
    thaw(copy, bare.memory, bare.cpu)
    run(bare, COUNT)
    assert seen == []
    thaw(hooked, bare.memory, bare.cpu)
    run(bare, COUNT)
    assert seen


@pytest.mark.parametrize(
    ("runs", "others", "rest"),
    [
        ([(0, 9)], [], [(0, 9)]),
        ([(0, 9)], [(0, 9)], []),
        ([(0, 9)], [(2, 3), (5, 7)], [(0, 2), (3, 5), (7, 9)]),
        ([(0, 2), (4, 9)], [(1, 6)], [(0, 1), (6, 9)]),
        ([(4, 6), (8, 9)], [(0, 5), (5, 8)], [(8, 9)]),
        ([(4, 6), (7, 9)], [(0, 1), (5, 8)], [(4, 5), (8, 9)]),
    ],
)
def test_what_is_new(runs, others, rest):
    assert list(frozen._without(runs, others)) == rest
