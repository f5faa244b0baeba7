# SPDX-License-Identifier: GPL-2.0-or-later
"""A board of mips64el without a kernel: registers, clocks, exceptions, page tables.

Also tests kpfs.linux.arch.changed, kpfs.linux.make.mips64.
"""

import mmap
import termios

import pytest

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.data_model import BIG_64, LITTLE_64
from kpfs.linux.arch.arches import MIPS64
from kpfs.linux.errors import UnfitError
from kpfs.linux.make import mips64 as firmware
from kpfs.linux.package.image_file import KernelImage
from kpfs.linux.store import processor
from tests.unit.linux.arch.boards import AT, PAUSE, boards, find, go_on_elsewhere, put

NOP, SYSCALL, BREAK, WAIT, ILLEGAL = 0, 0x0C, 0x0D, 0x4200_0020, 0x7C00_003E
MFC0_V0_COUNT, MFC0_V1_COUNT = 0x4002_4800, 0x4003_4800
MTC0_A0_COMPARE, MTC0_A1_STATUS = 0x4084_5800, 0x4085_6000
SEGMENT, VECTORS = 0xFFFF_FFFF_8000_0000, 0xFFFF_FFFF_8000_0000
KX, TIMER_ON = 0x80, 0x8001


@pytest.fixture
def make():
    with boards(MIPS64) as make:
        yield make


def run(board, *code, at=AT, **registers):
    """Run instructions, then go to where the agent would wait."""
    end = put(board, at, *code)
    jump = 2 << 26 | PAUSE >> 2
    for place in (end, 0x80, 0x180):
        put(board, place, jump, NOP)
    put(board, PAUSE, NOP)
    board.set(pause=SEGMENT + PAUSE)
    board.flush()
    for name, value in {**registers, "pc": SEGMENT + at}.items():
        MIPS64.set_debugged(board, name, value)
    return board.run()


def register(board, name):
    return MIPS64.debugged(board, name)


def test_processors_go_on_on_another_board(make):
    """The TLB is kept, too."""
    board = make(cpus=2)
    for number in range(2):
        board.select(number)
        values = processor.save(board, number)
        values.registers.update(at_0018=0x100 + number, tlb_0028=0x200 + number)
        processor.load(board, number, values)
        board.set_cpu(number, raised=5, enabled=6)
    saved = go_on_elsewhere(MIPS64, make, board)
    assert [one.registers["at_0018"] for one in saved] == [0x100, 0x101]
    assert [one.registers["tlb_0028"] for one in saved] == [0x200, 0x201]


@pytest.mark.parametrize(
    "change", [{"registers": {}}, {"tables": {"f": [1]}}, {"mode": 3}]
)
def test_a_state_that_is_not_sound(make, change):
    saved = processor.save(make(), 0)
    assert processor.is_sound(MIPS64, saved)
    assert not processor.is_sound(MIPS64, saved._replace(**change))


def test_the_clock_goes_by_blocks(make):
    board = make()
    assert run(board, MFC0_V0_COUNT, MFC0_V1_COUNT) == abi.STOP_PAUSE
    assert 0 < register(board, "r3") - register(board, "r2") < 1000


def test_the_timer_interrupts(make):
    """Time goes on to the moment for which a processor waits."""
    board = make()
    moment = 1_000_000
    code = MTC0_A0_COMPARE, MTC0_A1_STATUS, WAIT
    assert run(board, *code, r4=moment, r5=KX | TIMER_ON) == abi.STOP_PAUSE
    assert board.get(abi.Board.now) >= moment * abi.MIPS64_NS_PER_COUNT
    assert board.get(abi.Board.interrupts) == 1
    assert register(board, "cause") & 0x4000_8000 == 0x4000_8000


@pytest.mark.parametrize(("insn", "code"), [(SYSCALL, 8), (BREAK, 9), (ILLEGAL, 10)])
def test_exceptions(make, insn, code):
    board = make()
    assert run(board, insn, insn) == abi.STOP_PAUSE
    assert register(board, "cause") >> 2 & 31 == code
    assert board.get(abi.Board.syscalls) == (insn == SYSCALL)


def test_addresses_are_those_of_the_tables(make):
    board, table = make(), 0x40000
    word = LITTLE_64.struct("Q")
    xkphys = 0x9800_0000_0000_0000
    at = 0xFFFF_FFFF_C040_3008
    word.pack_into(board.ram, table + 8 * (at >> 30 & 1023), xkphys | 0x50000)
    word.pack_into(board.ram, 0x50000 + 8 * (at >> 21 & 511), xkphys | 0x60000)
    word.pack_into(board.ram, 0x60000 + 8 * (at >> 12 & 511), 0x55 << 14 | 1)
    assert find(board, at) is None
    board.set(kernel_table=table)
    places = {SEGMENT + 0x1234: 0x1234, xkphys | 0x1234: 0x1234, at: 0x55008}
    for place, wanted in {**places, at + 0x1000: None, at - (1 << 21): None}.items():
        assert find(board, place) == wanted


@pytest.mark.parametrize(
    ("code", "table"),
    [
        ((0x3C1B_812A, 0x3C1B_8013, 0x277B_2390), 0x12A_0000),
        ((0x3C1B_8112, 0x1000_FFF0, 0x277B_9000), 0x111_9000),
    ],
)
def test_where_the_kernels_table_is(make, code, table):
    """Read it in the handler for addresses that the TLB lacks: one half, or two."""
    board = make()
    put(board, 0x1034, *code)
    state = processor.save(board, 0)
    state.registers["at_06b0"] = SEGMENT | 0x1000
    processor.load(board, 0, state)
    assert MIPS64.learn(board, board.ram) == {"kernel_table": table}
    board.ram[0x1034:0x1040] = bytes(12)
    assert MIPS64.learn(board, board.ram) == {}


def request_of(number):
    return MIPS64.native(nr.IOCTL, (3, number, 0))[1][1]


def test_calls_have_their_numbers():
    append, creates = 0o2000, 0o100
    call = nr.OPENAT, (-100, b"x", 0o2000000 | append | creates, 0)
    assert MIPS64.native(*call) == (5247, (-100, b"x", 0o2000000 | 8 | 0x100, 0))
    assert MIPS64.native(9999, ()) == (0xFFF, ())
    assert MIPS64.open_flags(0o200000 | 0o4000) == 0o200000 | 0x80
    assert MIPS64.native(nr.MMAP, (0, 1, 3, 0x22, -1, 0))[1][3] == 0x802
    assert MIPS64.native(nr.KILL, (7, 17)) == (5060, (7, 18))
    assert MIPS64.native(nr.KILL, (7, 9)) == (5060, (7, 9))
    assert MIPS64.native(nr.SOCKET, (1, 1 | 0o4000, 0)) == (5040, (1, 2 | 0x80, 0))
    assert MIPS64.native(nr.FCNTL, (3, nr.F_SETFL, append)) == (5070, (3, 4, 8))
    assert MIPS64.native(nr.RT_SIGTIMEDWAIT, (bytes(8), 0, b"t" * 16, 8)) == (
        *(5126, (bytes(16), 0, b"t" * 16, 16)),
    )


def test_terminals():
    """Special characters and some requests have other places."""
    like = (
        LITTLE_64.struct("4I").pack(0x400, 4, 0xB0, 0x8002) + b"\0" + bytes(range(19))
    )
    number, (_, how, made) = MIPS64.native(nr.IOCTL, (1, termios.TCSETS, like))
    assert (number, how, len(made)) == (5015, 0x540E, 40)
    assert LITTLE_64.struct("4I").unpack_from(made) == (0x400, 4, 0xB0, 0x102)
    assert (made[17 + 4], made[17 + 16], made[17 + 11]) == (6, 4, 0)
    assert request_of(termios.TIOCSWINSZ) == 0x80087467
    assert request_of(0x2400) == 0x20002400  # PERF_EVENT_IOC_ENABLE


def test_what_a_kernel_finds():
    ram = mmap.mmap(-1, 8 << 20)
    kernel = KernelImage("6.1", bytes(0x20000), 0x100000, 0x20000, MIPS64)
    assert firmware.place(ram, kernel, b"initrd", "quiet", 2) == 0x100000
    tree = (8 << 20) - (3 << 20)
    assert ram[tree : tree + 4] == b"\xd0\x0d\xfe\xed"
    assert BIG_64.number(ram[tree + 4 : tree + 8]) < 0x1000
    with pytest.raises(UnfitError, match="more memory"):
        firmware.place(ram, kernel._replace(size=6 << 20), b"initrd", "")
