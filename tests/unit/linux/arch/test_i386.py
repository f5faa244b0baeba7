# SPDX-License-Identifier: GPL-2.0-or-later
"""A board of i386 without a kernel: its first state, gates, page tables, calls.

Also tests kpfs.linux.make.i386.
"""

import pytest

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.data_model import LITTLE_32
from kpfs.emulator.x86_registers import CONTROL, GENERAL
from kpfs.linux.arch import x86
from kpfs.linux.arch.arches import I386
from kpfs.linux.arch.state import address_of, word
from kpfs.linux.make import i386 as firmware
from kpfs.linux.store import processor
from tests.unit.linux.arch.boards import AT, PAUSE, boards, find, go_on_elsewhere, put

IDT, HANDLER, STACK = 0x3000, AT + 0x2000, 0x7000


@pytest.fixture
def make():
    with boards(I386) as make:
        yield make


def jump(at, to):
    return b"\xe9" + LITTLE_32.struct("i").pack(to - at - 5)


def run(board, code, **registers):
    """Run instructions, then go to where the agent would wait."""
    firmware.prepare(board, AT)
    gate = HANDLER & 0xFFFF | 0x60 << 16 | 0xEE00 << 32
    LITTLE_32.struct("Q").pack_into(board.ram, IDT + 8 * 0x80, gate)
    x86.write_table(board, "idtr", (0, IDT, 0x7FF, 0))
    board.write_reg(GENERAL["rsp"], STACK)
    end = put(board, AT, bytes.fromhex(code))
    put(board, end, jump(end, PAUSE))
    put(board, HANDLER, jump(HANDLER, PAUSE))
    put(board, PAUSE, b"\xf3\x90")
    board.set(pause=PAUSE)
    for name, value in registers.items():
        I386.set_debugged(board, name, value)
    return board.run()


def words(board, at, count):
    return LITTLE_32.struct(f"{count}I").unpack_from(board.ram, at)


def test_code_is_of_32_bits(make):
    board = make()
    # inc eax; push eax; mov [esp+4], ecx (48 and 40 are prefixes on x86-64)
    assert run(board, "4050894c2404", eax=7, ecx=9) == abi.STOP_PAUSE
    assert words(board, STACK - 4, 2) == (8, 9)
    assert I386.debugged(board, "esp") == STACK - 4
    assert I386.in_kernel(board)
    with pytest.raises(KeyError):
        I386.set_debugged(board, "cs", 3)


def test_a_gate_is_entered(make):
    board = make()
    assert run(board, "cd80", eflags=0x202) == abi.STOP_PAUSE
    address, cs, flags = words(board, STACK - 12, 3)
    assert (address, cs & ~3, flags & 0x200) == (AT + 2, 0x10, 0x200)
    assert I386.debugged(board, "eip") == PAUSE
    assert not I386.debugged(board, "eflags") & 0x200


def test_processors_go_on_on_another_board(make):
    board = make(cpus=2)
    for number in range(2):
        board.select(number)
        values = processor.save(board, number)
        values.registers.update(at_0018=0x100 + number)
        processor.load(board, number, values)
        board.set_cpu(number, nmi=1, cr2=3 + number)
    saved = go_on_elsewhere(I386, make, board)
    assert [one.registers["at_0018"] for one in saved] == [0x100, 0x101]


@pytest.mark.parametrize("has_three", [False, True])
def test_pages_are_found(make, has_three):
    board, table, second, third = make(), 0x10000, 0x11000, 0x12000
    size, form = (8, "Q") if has_three else (4, "I")
    pack = LITTLE_32.struct(form).pack_into
    state = address_of(board)
    word(state + abi.X86State.cr).value = 1 << 31 | 1
    word(state + abi.X86State.cr + 3 * 8).value = table
    word(state + abi.X86State.cr + 4 * 8).value = 0x20 if has_three else 0
    if has_three:
        pack(board.ram, table + 8 * 3, second | 1)
        rows, first, large = second, 0, 21
    else:
        rows, first, large = table, 0x300, 22
    pack(board.ram, rows + size * first, 0x83)
    pack(board.ram, rows + size * (first + 1), third | 3)
    pack(board.ram, third + size * 2, 0x20003)
    base = 0xC0000000
    for addr, at in (
        *((base + 0x12345, 0x12345), (base + (1 << large) + 0x2345, 0x20345)),
        *((base + (1 << large) + 0x3000, None), (base - 4096, None)),
    ):
        assert find(board, addr) == at
    board.write_reg(CONTROL["cr0"], 0x11)


@pytest.mark.parametrize(
    ("number", "args", "found"),
    [
        (nr.OPENAT, (-100, b"x", 0o200000), (295, (-100, b"x", 0o200000))),
        (nr.PREAD64, (3, b"", 9, 5 << 32 | 1), (180, (3, b"", 9, 1, 5))),
        (nr.FTRUNCATE, (3, 1 << 32), (194, (3, 0, 1))),
        (nr.STATFS, (b"x", b"out"), (268, (b"x", 84, b"out"))),
        (nr.FADVISE64, (3, 1, 2, 4), (272, (3, 1, 0, 2, 0, 4))),
        (9999, (), (0xFFF, ())),
    ],
)
def test_calls_have_their_numbers_and_arguments(number, args, found):
    assert I386.native(number, args) == found


def test_a_stub_tells_its_address_and_jumps():
    assert I386.stub(0xE0000010, 0xE0000800).hex() == "b8100000e0" + "e9e6070000"
