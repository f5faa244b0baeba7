# SPDX-License-Identifier: GPL-2.0-or-later
"""A board of s390x without a kernel: registers, clock, calls, interruptions, spaces.

Also tests kpfs.linux.arch.state, kpfs.linux.make.s390x.
"""

import ctypes
import mmap

import pytest

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.data_model import BIG_64
from kpfs.emulator import libunicorn
from kpfs.emulator.libunicorn import EmulatorError, Replacement
from kpfs.linux.arch import s390x
from kpfs.linux.arch.arches import S390X
from kpfs.linux.errors import UnfitError
from kpfs.linux.make import s390x as firmware
from kpfs.linux.package.image_file import KernelImage
from kpfs.linux.store import processor
from tests.unit.linux.arch.boards import AT, PAUSE, boards, go_on_elsewhere

HANDLER = AT + 0x2000
EXTERNAL_NEW, CALL_NEW, PROGRAM_NEW = 0x1B0, 0x1C0, 0x1D0
PSW = 0x1_8000_0000
EXTERNAL, PER = 1 << 56, 1 << 62


@pytest.fixture
def make():
    with boards(S390X) as make:
        yield make


def put(board, at, code):
    raw = bytes.fromhex(code)
    board.ram[at : at + len(raw)] = raw
    return at + len(raw)


def jump(at, to):
    return "c0f4" + BIG_64.struct("i").pack((to - at) // 2).hex()


def run(board, code, at=AT, **registers):
    """Run instructions, then go to where the agent would wait."""
    end = put(board, at, code)
    put(board, end, jump(end, PAUSE))
    for place in (EXTERNAL_NEW, CALL_NEW, PROGRAM_NEW):
        BIG_64.struct("QQ").pack_into(board.ram, place, PSW, HANDLER)
    put(board, HANDLER, jump(HANDLER, PAUSE))
    put(board, PAUSE, "0700")
    board.set(pause=PAUSE)
    for name, value in registers.items():
        S390X.set_debugged(board, name, value)
    S390X.set_debugged(board, "pswa", at)
    return board.run()


def word(board, at):
    return BIG_64.number(board.ram[at : at + 8])


def test_processors_go_on_on_another_board(make):
    board = make(cpus=2)
    for number in range(2):
        board.select(number)
        values = processor.save(board, number)
        values.registers.update(at_048=0x100 + number, at_0a0=0x200 + number)
        processor.load(board, number, values)
        board.set_cpu(number, enabled=1 << 5, comparator=2)
    saved = go_on_elsewhere(S390X, make, board)
    assert [one.registers["at_048"] for one in saved] == [0x100, 0x101]
    assert [one.registers["at_0a0"] for one in saved] == [0x200, 0x201]


@pytest.mark.parametrize(
    "change",
    [{"registers": {}}, {"tables": {"f": [1]}}, {"mode": 3}, {s390x._CC: 255}],
)
def test_a_state_that_is_not_sound(make, change):
    saved = processor.save(make(), 0)
    fields = {k: v for k, v in change.items() if k in saved._fields}
    registers = {**saved.registers, **(change if not fields else {})}
    wrong = saved._replace(**{"registers": registers, **fields})
    assert processor.is_sound(S390X, saved)
    assert not processor.is_sound(S390X, wrong)


def test_each_function_is_replaced(make, monkeypatch):
    board = make()
    count = board._board.board_replacements
    assert count.restype
    row = Replacement(b"helper_nothing", 1, 0)
    assert libunicorn.replace([row]) == "helper_nothing"
    # a library whose own function is bound already cannot be replaced
    library, blocks = libunicorn.load()
    assert blocks is not None
    own = libunicorn.address(library, "helper_stck")
    assert blocks.replaced_in(ctypes.c_void_p(library._handle), own)
    ours = ctypes.cast(blocks["helper_stck"], ctypes.c_void_p)
    assert not blocks.replaced_in(ctypes.c_void_p(library._handle), ours)
    monkeypatch.setattr(libunicorn, "replace", lambda rows: "helper_stck")
    with pytest.raises(EmulatorError, match="helper_stck cannot be replaced"):
        make()


def test_the_clock_goes_by_blocks(make):
    board = make()
    # stck 0x200; stck 0x208
    assert run(board, "b2050200b2050208") == abi.STOP_PAUSE
    assert 0 < word(board, 0x208) - word(board, 0x200) < 4096


def test_a_call_stores_the_old_psw(make):
    board = make()
    assert run(board, "0a05") == abi.STOP_PAUSE
    assert word(board, 0x148) == AT + 2
    assert board.ram[0x8B] == 5
    assert board.get(abi.Board.syscalls) == 1


def test_the_comparator_interrupts(make):
    """Time goes on to the moment for which a processor waits."""
    board = make()
    psw = AT + 0x800
    BIG_64.struct("QQ").pack_into(board.ram, psw, PSW | EXTERNAL | 1 << 49, AT)
    BIG_64.struct("Q").pack_into(board.ram, psw + 8 * 2, 0x8E0)  # CR0 with that bit
    BIG_64.struct("Q").pack_into(board.ram, psw + 8 * 3, 0)
    # lctlg 0,0,16(r1); stck 0x200; l r3 += 4096000; sckc; lpswe 0(r1)
    code = "eb001010002fb2050200e33002000004c23800 3e8000e33002080024"
    code = code.replace(" ", "") + "b2060208b2b21000"
    assert run(board, code, r1=psw) == abi.STOP_PAUSE
    assert board.ram[0x86:0x88].hex() == "1004"
    assert board.get(abi.Board.now) > 1_000_000


def test_one_instruction_is_stepped_over(make):
    """PER comes behind it, with the address of the next one."""
    board = make()
    psw = AT + 0x800
    BIG_64.struct("QQ").pack_into(board.ram, psw, PSW | PER, AT + 0x400)
    put(board, AT + 0x400, "a7280007a7280008")  # lhi r2, 7; lhi r2, 8
    controls = {"cr9": 1 << 30, "cr10": AT + 0x400, "cr11": AT + 0x400}
    assert run(board, "b2b21000", r1=psw, **controls) == abi.STOP_PAUSE
    assert board.ram[0x8E:0x90].hex() == "0080"
    assert (word(board, 0x158), word(board, 0x98)) == (AT + 0x404, AT + 0x400)
    assert S390X.debugged(board, "r2") == 7


def test_a_breakpoint_that_is_taken_away_is_gone(make):
    """libunicorn's blocks do not contain the illegal instruction at their end."""
    board, program = make(), AT + 0x400
    put(board, program, "a7280007070707fe")  # lhi r2, 7; bcr 0, r7; br r14
    for _ in range(20):  # more often than a page loses all its blocks
        place = {"r1": program, "r3": program + 4}
        # mvhhi 0(r3), 2: a breakpoint; then basr r14, r1
        assert run(board, "e544300000020de1", **place) == abi.STOP_PAUSE
        assert word(board, 0x158) == program + 6
        BIG_64.struct("Q").pack_into(board.ram, 0x158, 0)
        assert run(board, "e544300007070de1", AT + 64, **place) == abi.STOP_PAUSE
        assert word(board, 0x158) == 0


@pytest.mark.parametrize("page", [0, 0x1000])
def test_a_store_to_protected_bytes_faults_behind_others_to_their_page(make, page):
    board = make()
    stores = [f"e3202{at:03x}0024" for at in (0x200, 0x208, 0x1F8, 0x210)]
    given = {"r2": page, "cr0": 1 << 28}  # low-address protection
    # stg r2, at(r2) for each
    assert run(board, "".join(stores), **given) == abi.STOP_PAUSE
    assert board.ram[0x8E:0x90].hex() == "0004"
    assert word(board, 0x158) == AT + 3 * 6
    for at in (0x200, 0x208):
        assert word(board, page + at) == page
        put(board, page + at, "11" * 8)
    assert run(board, "".join(stores[:2]), AT + 64) == abi.STOP_PAUSE
    assert [word(board, page + at) for at in (0x200, 0x208)] == [page] * 2
    assert word(board, page + 0x210) == 0


def test_the_machine_tells_its_processors_and_its_name(make):
    """STSI 3.2.2: processors in all and in use, and by what consoles are chosen."""
    board, at = make(cpus=2), 0x20000
    assert run(board, "b27d2000", r0=3 << 28 | 2, r1=2, r2=at) == abi.STOP_PAUSE
    assert BIG_64.struct("HH").unpack_from(board.ram, at + 36) == (2, 2)
    assert board.ram[at + 56 : at + 72].decode("cp037") == "KVM/Linux".ljust(16)


def test_calls_have_their_numbers():
    assert S390X.native(nr.OPEN, (b"x", 0)) == (5, (b"x", 0))
    number, (packed,) = S390X.native(nr.MMAP, (0, 4096, 3, 2, -1, 0))
    assert number == 90
    assert BIG_64.struct("5Qq").unpack(packed)[:2] == (0, 4096)
    assert S390X.native(9999, ()) == (0xFFF, ())


def kernel(size=0x20000, most=64):
    image = bytearray(size)
    BIG_64.struct("Q").pack_into(image, 0x10430, most)
    return KernelImage("6.12", bytes(image), 0, size, S390X)


def test_what_a_kernel_finds():
    ram = mmap.mmap(-1, 1 << 20)
    assert firmware.place(ram, kernel(), b"initrd", "quiet") == 0x10000
    at, size = BIG_64.struct("QQ").unpack_from(ram, 0x10408)
    assert ram[at : at + size] == b"initrd"
    assert ram[0x10480:0x10486] == b"quiet\0"
    with pytest.raises(UnfitError, match="more than 63 bytes"):
        firmware.place(ram, kernel(), b"", "x" * 64)
    with pytest.raises(UnfitError, match="more memory"):
        firmware.place(ram, kernel(1 << 20), b"initrd", "")
