# SPDX-License-Identifier: GPL-2.0-or-later
"""Processors of a board without a kernel: each has registers of its own, and a turn."""

import mmap
from types import MappingProxyType

import pytest

from kpfs.base import abi
from kpfs.emulator.x86_registers import CONTROL, GENERAL, MSRS, read_msr, write_msr
from kpfs.linux.arch import x86
from kpfs.linux.board.board import Board
from kpfs.linux.board.stops import reason

RAM = 1 << 20
AT = 0x8000  # where a processor starts
END = "fa f4"  # cli; hlt: for good
# what is printed is '0' and the processor's number, by CPUID
NUMBER = "66b801000000 0fa2 66c1eb18 88d8 0430 baf803 ee"


@pytest.fixture
def board():
    made = Board(mmap.mmap(-1, RAM), mmap.mmap(-1, abi.REGION_SIZE), cpus=3)
    for number in range(3):
        made.set_cpu(number, state=abi.CPU_OFF)
    yield made
    made.close()


def start(board, number, code, at=AT):
    """Start a processor, as a start-up interrupt does."""
    raw = bytes.fromhex(code)
    board.ram[at : at + len(raw)] = raw
    board.set_cpu(number, start=at, state=abi.CPU_RUNS)


def printed(board):
    return board.console(0)[0].decode()


def test_registers_are_each_ones_own(board):
    for number in range(3):
        board.select(number)
        for name in ("rax", "r15", "rip"):
            board.write_reg(GENERAL[name], 0x1000 + number)
        write_msr(board, MSRS["kernel_gs_base"], 0x2000 + number)
        x86.write_table(board, "idtr", (0, 0x3000 + number, 0xFF, 0))
        board.write_reg(x86.FPU["fpcw"], 0x37F - number)
    for number in (1, 0, 2):
        board.select(number)
        assert board.get(abi.Board.current) == number
        for name in ("rax", "r15", "rip"):
            assert board.read_reg(GENERAL[name]) == 0x1000 + number
        assert read_msr(board, MSRS["kernel_gs_base"]) == 0x2000 + number
        assert x86.read_table(board, "idtr")[1] == 0x3000 + number
        assert board.read_reg(x86.FPU["fpcw"]) == 0x37F - number


def test_one_that_is_started_begins_in_real_mode_and_knows_its_number(board):
    for number in (1, 2):
        start(board, number, NUMBER + END)
    assert board.run() == abi.STOP_HALTED
    assert sorted(printed(board)) == ["1", "2"]


def test_it_stops_at_the_begin_of_a_call_and_goes_on_there(board):
    start(board, 1, f"eb 00 {NUMBER} {END}")  # jmp to the next instruction
    board.set_calls([(AT + 2, abi.NEVER)])
    assert board.run() == abi.STOP_CALL
    assert board.get(abi.Board.asked_at) == AT + 2
    assert printed(board) == ""
    assert board.run() == abi.STOP_HALTED
    assert printed(board) == "1"


def test_it_does_not_stop_at_what_is_no_call_any_more(board):
    start(board, 1, f"eb 00 {NUMBER} {END}")
    board.set_calls([(AT + 2, abi.NEVER)])
    board.set_calls([])
    assert board.run() == abi.STOP_HALTED


def test_both_have_turns(board):
    """Each waits until the other has written a word, and neither gives way."""
    mine, other = (
        "c606009001",
        "803e019001 75f9",
    )  # mov [0x9000], 1; cmp [0x9001], 1; jne
    start(board, 0, f"{mine} {other} {NUMBER} {END}")
    mine, other = "c606019001", "803e009001 75f9"
    start(board, 1, f"{mine} {other} {NUMBER} {END}", at=0xA000)
    assert board.run() == abi.STOP_HALTED
    assert sorted(printed(board)) == ["0", "1"]
    assert board.get(abi.Board.turns) >= 2


def test_time_goes_on_to_the_first_timer_when_all_have_halted(board):
    for number, due in ((0, 5_000_000), (1, 3_000_000)):
        start(board, number, f"fb f4 {NUMBER}", at=AT + 0x1000 * number)  # sti; hlt
        board.set_cpu(number, timer=due)
    # without a gate for it, the interrupt is the end
    assert board.run() == abi.STOP_FAULT
    assert board.get(abi.Board.current) == 1
    assert board.get(abi.Board.now) == 3_000_000
    assert printed(board) == ""


def test_the_counter_counts_down_by_the_time_that_has_passed(single):
    write, read = "b0ff e642 e642", "e442 e442"  # both bytes; al is the high one then
    spin, show = "b960ea e2fe", "baf803 ee"  # 60,000 blocks
    start(single, 0, f"{read} {write} {spin} {read} {show} {END}")
    assert single.run() == abi.STOP_HALTED
    count = 0xFFFF - 60_000 * 20 * 1_193_182 // 1_000_000_000
    assert single.console(0)[0] == bytes([count >> 8])


def test_a_lockup_names_the_processor(board):
    board.select(2)
    assert reason(board, abi.STOP_LOCKUP).startswith("hard lockup on CPU 2: ")


# ---- code that means harm
ICR = "6766c70500 03e0fe"  # mov dword [0xfee00300], what follows
MILLION = abi.TURN_BLOCKS


@pytest.fixture
def single():
    made = Board(mmap.mmap(-1, RAM), mmap.mmap(-1, abi.REGION_SIZE))
    yield made
    made.close()


def test_one_that_is_alone_can_reset_itself(single):
    """INIT and a start-up interrupt to itself do it; an interrupt ends the halt."""
    start(single, 0, f"{NUMBER} {END}", at=0xA000)
    interrupts = f"{ICR} 00450400 {ICR} 0a060400 {ICR} 40000400"
    start(single, 0, f"{interrupts} fb f4")
    assert single.run() == abi.STOP_HALTED
    assert printed(single) == "0"


@pytest.mark.parametrize("due", [1, abi.NEVER])
def test_code_at_address_0_is_no_end_of_turns(single, due):
    start(single, 0, "eb fe", at=0)
    single.set_cpu(0, timer=due)
    single.set_calls([(0x10000, abi.NEVER)])
    assert single.run() == abi.STOP_TURN
    assert single.blocks <= 2 * MILLION


def test_a_turn_ends_by_the_host_s_clock_too(single):
    single.set(turn_ticks=0)
    start(single, 0, "eb fe")
    assert single.run() == abi.STOP_TURN
    assert single.blocks < single.get(abi.Board.host_turn)


TABLES, IDT, TSS, STACK, HANDLER = 0x1000, 0x4000, 0x5000, 0x80000, 0x9000
ABSENT = 0x7000_0000_0000


def long_mode(board, code, gates, stack=STACK):
    """Run code with interrupt gates: by vector the handler's address and the IST."""
    for number, entry in enumerate((TABLES + 0x1003, TABLES + 0x2003, 0x83)):
        at = TABLES + number * 0x1000
        board.ram[at : at + 8] = entry.to_bytes(8, "little")
    for vector, (handler, ist) in gates.items():
        low = handler & 0xFFFF | 0x10 << 16 | ist << 32 | 0x8E << 40
        low |= (handler >> 16 & 0xFFFF) << 48
        raw = low.to_bytes(8, "little") + (handler >> 32).to_bytes(8, "little")
        board.ram[IDT + 16 * vector : IDT + 16 * vector + 16] = raw
    board.ram[TSS + 0x24 : TSS + 0x2C] = STACK.to_bytes(8, "little")
    for at, text in ((AT, code), (HANDLER, f"b03b 66baf803 ee {END}")):
        raw = bytes.fromhex(text)
        board.ram[at : at + len(raw)] = raw
    write_msr(board, MSRS["efer"], 0x501)
    for name, value in (("cr3", TABLES), ("cr4", 0x20), ("cr0", 0x8000_0011)):
        board.write_reg(CONTROL[name], value)
    x86.write_table(board, "idtr", (0, IDT, 0xFFF, 0))
    x86.write_table(board, "tr", (0, TSS, 0x67, 0x8B00))
    board.set_mode(abi.MODE_KERNEL)
    board.write_reg(GENERAL["rsp"], stack)
    board.write_reg(GENERAL["rip"], AT)


PLACE, FUNCTION = 0x8800, 0x8900
PRINT = "b0{} 66baf803 ee c3"  # mov al, CODE; mov dx, 0x3f8; out dx, al; ret


def call_all(board):
    """Have code call PLACE, FUNCTION and PLACE."""
    long_mode(board, f"e8 fb070000 e8 f6080000 e8 f1070000 {END}", {})
    for at, code in ((PLACE, PRINT.format("30")), (FUNCTION, "c3")):
        board.ram[at : at + len(bytes.fromhex(code))] = bytes.fromhex(code)


def test_it_stops_at_a_call_whose_code_is_translated_already(single):
    call_all(single)
    single.set_calls([(FUNCTION, abi.NEVER)])
    assert single.run() == abi.STOP_CALL
    single.set_calls([(PLACE, abi.NEVER)])
    assert single.run() == abi.STOP_CALL
    assert single.get(abi.Board.asked_at) == PLACE
    assert printed(single) == "0"


UD, DF, PF = 6, 8, 14


def test_a_handler_that_is_nowhere_is_the_end(single):
    """Such a handler faults before its first block, again and again."""
    long_mode(single, "0f0b", {UD: (ABSENT, 1), PF: (ABSENT, 1)})
    assert single.run() == abi.STOP_FAULT


def test_a_stack_that_is_nowhere_is_a_double_fault(single):
    gates = {UD: (HANDLER, 0), DF: (HANDLER, 1)}
    long_mode(single, "0f0b", gates, stack=ABSENT)
    assert single.run() == abi.STOP_HALTED
    assert printed(single) == ";"
    assert single.read_reg(GENERAL["rsp"]) == STACK - 6 * 8


def test_two_stacks_that_are_nowhere_are_the_end(single):
    gates = {UD: (HANDLER, 0), DF: (HANDLER, 0)}
    long_mode(single, "0f0b", gates, stack=ABSENT)
    assert single.run() == abi.STOP_FAULT
    assert single.get(abi.Board.vector) == DF


@pytest.mark.parametrize("nops", range(3))
@pytest.mark.parametrize("who", ["ffffffff", "07000000"], ids=["yields", "pauses"])
def test_one_that_has_no_rest_gives_the_host_its_turn(single, who, nops):
    """However many blocks there are between two pauses."""
    jumps, back = "eb 00" * nops, 0x100 - 4 - 2 * nops
    long_mode(single, f"bf {who} f390 {jumps} eb {back:02x}", {})
    single.set(pause=AT + 5, turn_ticks=abi.NEVER)
    single.counter.end += MILLION - 50
    found = {single.run() for _ in range(2 if who == "ffffffff" else 100)}
    assert abi.STOP_TURN in found


DB, GP = 1, 13
USER = 4  # in an entry of a page table: programs may use the page
SAY = "66baf803 ee"  # mov dx, 0x3f8; out dx, al
# a handler of #GP: it prints the error code and how far behind AT the program stands
TELL = f"8a0424 {SAY} 8a442408 {SAY} {END}"


def run_program(
    board,
    code,
    gates=(),
    bitmap=0xFF,
    limit=0xFF,
    iopl=0,
    handlers=MappingProxyType({}),
):
    """Run a program; return what the handler of #GP or another one has printed.

    gates: vectors that programs may use. bitmap: a byte of that of ports in the TSS.
    """
    usual = dict.fromkeys((UD, DF, PF, 0x80), (HANDLER, 1))
    long_mode(board, code, usual | {GP: (HANDLER + 0x100, 1)} | handlers)
    for number in range(3):
        board.ram[TABLES + number * 0x1000] |= USER
    for vector in gates:
        board.ram[IDT + 16 * vector + 5] |= 0x60
    tell = bytes.fromhex(TELL)
    board.ram[HANDLER + 0x100 : HANDLER + 0x100 + len(tell)] = tell
    board.ram[TSS + 102 : TSS + 104] = (104).to_bytes(2, "little")
    board.ram[TSS + 104 : TSS + 0x1000] = bytes([bitmap]) * (0x1000 - 104)
    x86.write_table(board, "tr", (0, TSS, limit, 0x8B00))
    board.set_mode(abi.MODE_USER)
    board.write_reg(GENERAL["rflags"], 2 | iopl << 12)
    assert board.run() == abi.STOP_HALTED
    return board.console(0)[0]


@pytest.mark.parametrize("vector", [0, 1, 2, 6, 8, 13, 14, 0x20, 0x80, 0xEC, 0xFF])
@pytest.mark.parametrize("prefix", ["", "66", "f3", "48"])
def test_a_program_may_not_use_each_gate(single, vector, prefix):
    """A gate is refused with its vector in the error code, before the instruction."""
    said = run_program(single, f"{prefix} cd {vector:02x}")
    assert said == bytes([8 * vector + 2 & 0xFF, AT & 0xFF])


def test_a_gate_for_programs_has_no_error_code(single):
    assert run_program(single, "cd 80", gates=[0x80]) == b";"


@pytest.mark.parametrize("prefix", ["", "66", "f3", "48", "6648"])
@pytest.mark.parametrize("mode", [abi.MODE_KERNEL, abi.MODE_USER])
def test_int1_is_a_trap_that_needs_no_gate_for_programs(single, prefix, mode):
    tell = bytes.fromhex(f"8a0424 {SAY} {END}")
    single.ram[HANDLER + 0x200 : HANDLER + 0x200 + len(tell)] = tell
    code, handlers = f"{prefix} f1", {DB: (HANDLER + 0x200, 1)}
    if mode == abi.MODE_USER:
        said = run_program(single, code, handlers=handlers)
    else:
        long_mode(single, code, handlers)
        single.run()
        said = single.console(0)[0]
    assert said == bytes([AT + len(bytes.fromhex(code)) & 0xFF])


@pytest.mark.parametrize("prefix", ["", "66", "f3", "48"])
def test_there_is_no_counter_to_read(single, prefix):
    """The fault is that of a processor."""
    assert run_program(single, f"{prefix} 0f33") == bytes([0, AT & 0xFF])


@pytest.mark.parametrize("code", ["f1", "0f33"])
def test_int1_and_rdpmc_cannot_be_locked(single, code):
    assert run_program(single, f"f0 {code}") == b";"


PORTS = {
    "outb": "baf8030000 b041 ee",
    "outw": "baf8030000 b041 66ef",
    "outl": "baf8030000 b041 ef",
    "outsb": "baf8030000 be00800000 6e",
    "inb": "ba71000000 ec",
    "inw": "ba71000000 66ed",
    "inl": "ba71000000 ed",
}


@pytest.mark.parametrize("name", PORTS)
@pytest.mark.parametrize("iopl", [0, 3])
@pytest.mark.parametrize("bitmap", [0, 0xFF])
@pytest.mark.parametrize("limit", [0x67, 0xFFF])
def test_a_program_needs_the_right_to_use_ports(single, name, iopl, bitmap, limit):
    """The level in its flags gives it, or the bitmap in a TSS that is so long."""
    said = run_program(single, f"{PORTS[name]} cd80", [0x80], bitmap, limit, iopl)
    may = iopl == 3 or (bitmap == 0 and limit == 0xFFF)
    assert said.endswith(b";") == may
    assert may or said[0] == 0


@pytest.mark.parametrize("prefix", ["", "66", "f3", "48", "6648"])
@pytest.mark.parametrize("way", ["syscall", "sysenter"])
def test_calls_enter_at_the_same_place_with_each_prefix(single, way, prefix):
    for name, value in (("lstar", HANDLER), ("fmask", 0), ("sysenter_cs", 0x10)):
        write_msr(single, MSRS[name], value)
    write_msr(single, MSRS["sysenter_eip"], HANDLER)
    write_msr(single, MSRS["sysenter_esp"], STACK)
    code = prefix + ("0f05" if way == "syscall" else "0f34")
    assert run_program(single, code) == b";"
    if way == "syscall":
        assert single.read_reg(GENERAL["rcx"]) == AT + len(bytes.fromhex(code))
    else:
        assert single.read_reg(GENERAL["rsp"]) == STACK


def test_sysenter_without_a_place_to_go_is_refused(single):
    assert run_program(single, "66 0f34") == bytes([0, AT & 0xFF])


GDT, IN_32_BITS = 0x6000, AT + 0x40
SEGMENTS = (  # the kernel's, those of 32-bit programs, data, 64-bit programs
    *(0, 0, 0x00AF_9B00_0000_FFFF, 0x00CF_9300_0000_FFFF),
    *(0x00CF_FB00_0000_FFFF, 0x00CF_F300_0000_FFFF, 0x00AF_FB00_0000_FFFF),
)
GO_32 = f"6a23 68{IN_32_BITS.to_bytes(4, 'little').hex()} 48cb"  # push; push; lretq
MARK = f"b041 48ffc0 {SAY} {END}"  # 'B' in 64 bits, where 32-bit code has 'A'


@pytest.mark.parametrize(
    ("code", "vector"),
    [("cd80", 0x80), ("0f05", UD), ("660f05", UD), ("0f34", None), ("cd0e", GP)],
)
def test_programs_of_32_bits_enter_the_kernel_in_64(single, code, vector):
    """syscall is no instruction for them, as on processors of Intel."""
    for number, word in enumerate(SEGMENTS):
        at = GDT + 8 * number
        single.ram[at : at + 8] = word.to_bytes(8, "little")
    x86.write_table(single, "gdtr", (0, GDT, 8 * len(SEGMENTS) - 1, 0))
    for at, text in ((IN_32_BITS, code), (HANDLER + 0x200, MARK)):
        raw = bytes.fromhex(text)
        single.ram[at : at + len(raw)] = raw
    write_msr(single, MSRS["sysenter_cs"], 0x10)
    write_msr(single, MSRS["sysenter_eip"], HANDLER + 0x200)
    write_msr(single, MSRS["sysenter_esp"], STACK)
    gates = {} if vector is None else {vector: (HANDLER + 0x200, 1)}
    assert run_program(single, GO_32, [0x80], handlers=gates) == b"B"
    if vector is not None:
        frame = single.read_reg(GENERAL["rsp"]) + 8 * (vector == GP)
        place = int.from_bytes(single.ram[frame : frame + 8], "little")
        assert place == IN_32_BITS + 2 * (vector == 0x80)
        assert single.ram[frame + 8] == 0x23
