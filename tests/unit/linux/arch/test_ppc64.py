# SPDX-License-Identifier: GPL-2.0-or-later
"""A board of ppc64el without a kernel: registers, clocks, calls, page tables.

Also tests kpfs.linux.make.ppc64.
"""

import mmap
import termios

import pytest

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.data_model import BIG_64, LITTLE_64
from kpfs.linux.arch.arches import PPC64
from kpfs.linux.errors import UnfitError
from kpfs.linux.make import ppc64 as firmware
from kpfs.linux.package.image_file import KernelImage
from kpfs.linux.store import processor
from tests.unit.linux.arch.boards import AT, PAUSE, boards, find, go_on_elsewhere

SC, HYPERCALL, ILLEGAL, NOP = 0x44000002, 0x44000022, 0, 0x60000000
HANDLERS = 0x500, 0x700, 0x900, 0xC00
MSR, EE, PR = 1 << 63 | 1 << 12 | 1, 1 << 15, 1 << 14
H_SET_MODE, H_TABLE, H_CPPR, H_IPI, H_XIRR = 0x31C, 0x37C, 0x68, 0x6C, 0x74
LITTLE = {"r3": H_SET_MODE, "r4": 1, "r5": 4}


@pytest.fixture
def make():
    with boards(PPC64) as make:
        yield make


def put(board, at, *words):
    raw = b"".join(LITTLE_64.raw(word, 4) for word in words)
    board.ram[at : at + len(raw)] = raw
    return at + len(raw)


def branch(at, to):
    return 18 << 26 | to - at & 0x3FFFFFC


def run(board, *code, at=AT, **registers):
    """Run instructions, then go to where the agent would wait."""
    end = put(board, at, *code)
    for place in (end, *HANDLERS):
        put(board, place, branch(place, PAUSE))
    put(board, PAUSE, NOP)
    board.set(pause=PAUSE)
    board.flush()
    for name, value in {"msr": MSR, **registers, "pc": at}.items():
        PPC64.set_debugged(board, name, value)
    return board.run()


def register(board, name):
    return PPC64.debugged(board, name)


def call(board, number, *arguments):
    """Make a hypercall; return r3, and r4."""
    given = {f"r{4 + n}": value for n, value in enumerate(arguments)}
    assert run(board, HYPERCALL, r3=number, **given) == abi.STOP_PAUSE
    return register(board, "r3"), register(board, "r4")


def test_processors_go_on_on_another_board(make):
    board = make(cpus=2)
    for number in range(2):
        board.select(number)
        values = processor.save(board, number)
        values.registers.update(at_00018=0x100 + number, at_00200=0x200 + number)
        processor.load(board, number, values)
        board.set_cpu(number, priority=5, message=6)
    saved = go_on_elsewhere(PPC64, make, board)
    assert [one.registers["at_00018"] for one in saved] == [0x100, 0x101]
    assert [one.registers["at_00200"] for one in saved] == [0x200, 0x201]


@pytest.mark.parametrize(
    "change", [{"registers": {}}, {"tables": {"f": [1]}}, {"mode": 3}]
)
def test_a_state_that_is_not_sound(make, change):
    saved = processor.save(make(), 0)
    assert processor.is_sound(PPC64, saved)
    assert not processor.is_sound(PPC64, saved._replace(**change))


def test_registers_in_pieces(make):
    board = make()
    for name, value in {"cr": 0x12345678, "xer": 0xE0000007}.items():
        PPC64.set_debugged(board, name, value)
        assert register(board, name) == value
    assert run(board, 0x7C600026, 0x7C8102A6) == abi.STOP_PAUSE  # mfcr r3; mfxer r4
    assert (register(board, "r3"), register(board, "r4")) == (0x12345678, 0xE0000007)


def test_the_clock_goes_by_blocks(make):
    board = make()
    assert run(board, 0x7C6C42A6, 0x7C8C42A6) == abi.STOP_PAUSE  # mftb r3; mftb r4
    assert 0 < register(board, "r4") - register(board, "r3") < 1000


def test_the_decrementer_interrupts(make):
    """Time goes on to the moment for which a processor waits."""
    board = make()
    assert run(board, HYPERCALL, **LITTLE) == abi.STOP_PAUSE
    # mtdec r6; sc 1, which is H_CEDE
    given = {"r3": 0xE0, "r6": 1_000_000}
    assert run(board, 0x7CD603A6, HYPERCALL, **given) == abi.STOP_PAUSE
    assert board.get(abi.Board.now) > 1_000_000
    assert board.get(abi.Board.interrupts) == 1
    assert register(board, "srr0") == AT + 8


def test_calls_and_what_is_illegal(make):
    board = make()
    assert call(board, *LITTLE.values())[0] == 0
    assert run(board, SC) == abi.STOP_PAUSE
    assert (register(board, "srr0"), board.get(abi.Board.syscalls)) == (AT + 4, 1)
    assert run(board, ILLEGAL) == abi.STOP_PAUSE
    assert (register(board, "srr0"), register(board, "srr1") & 0xF0000) == (AT, 0x80000)
    # a program may not call the hypervisor
    assert run(board, HYPERCALL, msr=MSR | PR) == abi.STOP_PAUSE
    assert register(board, "srr1") & 0xF0000 == 0x40000
    assert call(board, 0x9999)[0] == abi.NEVER - 1  # H_FUNCTION


def test_processors_interrupt_each_other(make):
    board = make(cpus=2)
    call(board, *LITTLE.values())
    assert call(board, H_CPPR, 0xFF)[0] == 0
    assert call(board, H_IPI, 7, 4)[0] == abi.NEVER - 3  # there is none
    assert call(board, H_IPI, 0, 4)[0] == 0
    assert run(board, NOP, msr=MSR | EE) == abi.STOP_PAUSE
    assert board.get(abi.Board.interrupts) == 1
    assert call(board, H_XIRR)[1] == 0xFF000002
    assert run(board, NOP, msr=MSR | EE) == abi.STOP_PAUSE
    assert board.get(abi.Board.interrupts) == 1


def test_addresses_are_those_of_the_trees(make):
    """A tree of 52 bits: 13, 9, 9, 9, and pages of 4 KiB."""
    board, table, tree = make(), 0x40000, 0x50000
    entry = BIG_64.struct("Q")

    def link(at, number, to, bits):
        entry.pack_into(board.ram, at + 8 * number, 1 << 63 | to | bits)

    size = 52 - 31
    root = (size >> 3 & 3) << 61 | (size & 7) << 5 | tree | 13
    entry.pack_into(board.ram, table, root)
    link(tree, 0, 0x60000, 9)
    link(0x60000, 0, 0x61000, 9)
    link(0x61000, 1, 0x62000, 9)  # 2 MiB
    entry.pack_into(board.ram, 0x62000 + 8 * 3, 3 << 62 | 0x55000 | 0x186)
    assert call(board, H_TABLE, 5, table, 0, 4)[0] == 0
    at = 0xC000_0000_0020_3000
    assert find(board, at + 8) == 0x55008
    assert find(board, at + 0x1000) is None


def request_of(number):
    return PPC64.native(nr.IOCTL, (3, number, 0))[1][1]


def test_calls_have_their_numbers():
    call = nr.OPENAT, (-100, b"x", 0o200000)
    assert PPC64.native(*call) == (286, (-100, b"x", 0o40000))
    assert PPC64.native(nr.SYNC_FILE_RANGE, (3, 0, 4, 7)) == (308, (3, 7, 0, 4))
    assert PPC64.native(9999, ()) == (0xFFF, ())
    assert PPC64.open_flags(0o2740001) == 0o2740001 & ~0o740000 | 0o740000
    assert request_of(termios.TIOCSWINSZ) == 0x80087467
    same = nr.IOCTL, (3, termios.TIOCSCTTY, 0)
    assert PPC64.native(*same) == (54, same[1])
    assert request_of(0x2400) == 0x20002400  # PERF_EVENT_IOC_ENABLE
    assert request_of(0x80042407) == 0x40042407  # reads 4 bytes
    assert PPC64.native(nr.IOCTL, (3, 0x40042408, 0)) == (54, (3, 0x80042408, 0))


def test_terminals_and_mappings():
    """Flags, special characters and requests have other places."""
    like = LITTLE_64.struct("4I").pack(0x400, 4, 0xB0, 0xA) + b"\0" + bytes(range(19))
    number, (_, how, made) = PPC64.native(nr.IOCTL, (1, termios.TCSETS, like))
    assert (number, how, len(made)) == (54, 0x802C7414, 44)
    assert LITTLE_64.struct("4I").unpack_from(made) == (0x200, 2, 0xB00, 0x108)
    assert (made[16 + 5], made[16 + 12], made[16 + 17 + 2]) == (6, 10, 0)
    assert PPC64.native(nr.MMAP, (0, 1, 3, 0x2022, -1, 0))[1][3] == 0xA2


def kernel(size=0x20000):
    return KernelImage("6.12", bytes(size), 0, size, PPC64)


def test_what_a_kernel_finds():
    ram = mmap.mmap(-1, 8 << 20)
    assert firmware.place(ram, kernel(), b"initrd", "quiet", 2) == 0
    tree, reserved = (8 << 20) - (3 << 20), (8 << 20) - (2 << 20)
    assert ram[tree : tree + 4] == b"\xd0\x0d\xfe\xed"
    assert BIG_64.struct("2Q").unpack_from(ram, tree + 40) == (reserved, 0x10000)
    assert BIG_64.number(ram[reserved : reserved + 4]) == 0x7C641B78
    with pytest.raises(UnfitError, match="more memory"):
        firmware.place(ram, kernel(6 << 20), b"initrd", "")
