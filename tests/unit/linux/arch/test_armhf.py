# SPDX-License-Identifier: GPL-2.0-or-later
"""A board of armhf without a kernel: registers, Thumb code, calls, page tables.

Also tests kpfs.linux.arch.small_calls,
kpfs.linux.make.armhf.
"""

import mmap
from typing import Any

import pytest

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.data_model import LITTLE_32
from kpfs.linux.arch import armhf
from kpfs.linux.arch.arches import ARMHF
from kpfs.linux.arch.state import word
from kpfs.linux.make import armhf as firmware
from kpfs.linux.package.image_file import KernelImage
from kpfs.linux.store import processor
from tests.unit.linux.arch.boards import AT, PAUSE, boards, find, go_on_elsewhere, put

BRANCH = 0xEA000000  # b
R = armhf.R


@pytest.fixture
def make():
    with boards(ARMHF) as make:
        yield make


def run(board, *code, **registers):
    """Run instructions in AArch32, then go to where the agent would wait."""
    board.set_mode(AT)
    for name, value in registers.items():
        board.write_reg(R[name], value)
    end = put(board, AT, *code)
    put(board, end, BRANCH | (PAUSE - end - 8) // 4 & 0xFFFFFF)
    put(board, PAUSE, 0xE320F000)
    board.set(pause=PAUSE)
    return board.run()


def test_registers_are_those_of_32_bits(make):
    board = make()
    # add r0, r1, r2; mov r12, sp; cmp r0, r0
    assert run(board, 0xE0810002, 0xE1A0C00D, 0xE1500000, r1=7, r2=1 << 31, sp=64) == (
        abi.STOP_PAUSE
    )
    assert board.read_reg(R["r0"]) == 7 + (1 << 31)
    assert ARMHF.debugged(board, "r12") == 64
    assert ARMHF.debugged(board, "pc") == PAUSE
    assert ARMHF.debugged(board, "cpsr") & 0xF00001FF == 0x600001D3
    ARMHF.set_debugged(board, "r3", 5)
    assert board.read_reg(R["r3"]) == 5


def test_the_clock_goes_by_blocks(make):
    board = make()
    # mrrc p15, 1, r0, r1, c14; mrrc p15, 1, r2, r3, c14
    run(board, 0xEC510F1E, 0xEC532F1E)
    assert 0 < board.read_reg(R["r2"]) - board.read_reg(R["r0"]) < 4096


def test_an_access_in_an_it_block_is_made_once(make):
    """A look for a reason to stop behind it would make it again."""
    board = make()
    # add r3, pc, #1; bx r3; in Thumb: cmp r0, r0; it eq; strbeq r0, [r2]; adds r1, #1;
    # ldrexb r4, [r2]; cmp r0, r0; it eq; strexbeq r5, r0, [r2]; add r3, pc, #4; bx r3
    thumb = "804208bf10700131d2e84f4f804208bfc2e8450f01a3184700bf00bf"
    words = 0xE28F3001, 0xE12FFF13, bytes.fromhex(thumb)
    assert run(board, *words, r0=9, r1=0, r2=AT + 0x800, r5=7) == abi.STOP_PAUSE
    assert (board.read_reg(R["r1"]), board.ram[AT + 0x800]) == (1, 9)
    assert board.read_reg(R["r5"]) == 0  # the exclusive store has succeeded


def test_domains_are_read_as_written(make):
    board = make()
    # mcr p15, 0, r0, c3, c0, 0; mrc p15, 0, r1, c3, c0, 0
    run(board, 0xEE030F10, 0xEE131F10, r0=0x51)
    assert board.read_reg(R["r1"]) == 0x51
    assert board.get_cpu(0, ARMHF.cpu_field("domains")) == 0x51


def test_processors_go_on_on_another_board(make):
    board = make(cpus=2)
    for number in range(2):
        board.select(number)
        values = processor.save(board, number)
        values.registers.update(at_0008=0x100 + number, at_0c10=0x200 + number)
        processor.load(board, number, values)
        board.set_cpu(number, domains=0x55, enabled=3)
    saved = go_on_elsewhere(ARMHF, make, board)
    assert [one.registers["at_0c10"] for one in saved] == [0x200, 0x201]


def test_pages_are_found(make):
    board, table, second = make(), 0x10000, 0x18000
    pack = LITTLE_32.struct("I").pack_into
    pack(board.ram, table + 4 * 0xC00, 0x00000C02)  # a section, of the first MiB
    pack(board.ram, table + 4 * 0xC01, second | 1)
    pack(board.ram, second + 4 * 3, 0x20000 | 2)  # a small page
    pack(board.ram, second + 4 * 16, 0x30000 | 1)  # a large one
    state = board.get(abi.Board.state)
    for place in (abi.ARM64_STATE_TTBR0, abi.ARM64_STATE_TTBR1):
        word(state + place).value = table
    for addr, at in (
        *((0xC0012345, 0x12345), (0xC0103456, 0x20456), (0xC0110789, 0x30789)),
        *((0xC0104000, None), (0xC0200000, None)),
    ):
        assert find(board, addr) == at
    assert find(board, 1 << 32 | 0xC0012345) is None


@pytest.mark.parametrize(
    ("number", "args", "found"),
    [
        (nr.OPENAT, (-100, b"x", 0o200000), (322, (-100, b"x", 0o40000))),
        (nr.PREAD64, (3, b"", 9, 5 << 32 | 1), (180, (3, b"", 9, 0, 1, 5))),
        (nr.FTRUNCATE, (3, 1 << 32), (194, (3, 0, 0, 1))),
        (nr.MMAP, (0, 1, 3, 2, 4, 8192), (192, (0, 1, 3, 2, 4, 2))),
        (nr.NANOSLEEP, (b"t", 0), (407, (1, 0, b"t", 0))),
        (nr.STATFS, (b"x", b"out"), (266, (b"x", 88, b"out"))),
        (9999, (), (0xFFF, ())),
    ],
)
def test_calls_have_their_numbers_and_arguments(number, args, found):
    assert ARMHF.native(number, args) == found


def test_a_stub_tells_its_address_and_jumps():
    code = ARMHF.stub(0xBF000010, 0xBF000800)
    assert code.hex() == "08c04fe2" + "f90100ea"


def test_what_a_kernel_finds(make):
    ram = mmap.mmap(-1, 8 << 20)
    kernel = KernelImage("6.12", b"kernel", 0x208000, 6, ARMHF)
    assert firmware.place(ram, kernel, b"initrd", "quiet", 2) == 0x208000
    tree = ram.find(b"\xd0\x0d\xfe\xed")
    assert ram.find(b"arm,cortex-a15\0", tree) > tree
    board: Any = make()
    firmware.prepare(board, AT)
    assert [board.read_reg(R[name]) for name in ("r1", "r2", "pc")] == [
        *(0xFFFFFFFF, tree, AT),
    ]
