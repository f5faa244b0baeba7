# SPDX-License-Identifier: GPL-2.0-or-later
"""cpu: traps, hypercalls, registers, contexts, on hand-assembled code.

This also tests kpfs.guest.emu.cpu_registers, kpfs.guest.emu.run_length,
kpfs.emulator.libunicorn and kpfs.emulator.regwindow.
"""

import gc

import pytest

from kpfs.emulator.libunicorn import EmulatorError
from kpfs.guest.emu import cpu as cpu_module
from kpfs.guest.emu import cpu_registers
from kpfs.guest.emu.cpu import MAX_DROPS
from kpfs.guest.emu.cpu_registers import REG_FLAGS, REG_IP, REG_ORIG_AX, REG_SP, REG_SS
from kpfs.guest.emu.memory import KERNEL_DATA
from tests import heap
from tests.guest import run_to, set_gs_base
from tests.unit.guest.bare import BareCpu

AX, CX, BX, R15 = 10, 11, 5, 0
LOAD_NULL = "488b042510000000"  # mov 0x10, %rax


@pytest.fixture(params=["window", "library"])
def bare(request, monkeypatch):
    """Registers seen in their place, or through the library alone."""
    if request.param == "library":
        monkeypatch.setattr(cpu_registers, "find_window", lambda engine, write: None)
    bare = BareCpu(nr_cpus=2)
    assert (bare.cpu._registers.window is None) == (request.param == "library")
    yield bare
    bare.cpu.close()


def test_hypercall_gives_the_low_half_of_rax(bare):
    bare.run("48b8ffffffff88776655")  # movabs
    assert bare.stops == [0xFFFFFFFF]
    assert bare.cpu.read_reg(AX) == 0x55667788FFFFFFFF


def test_registers_in_the_order_of_pt_regs(bare):
    bare.load("90")
    values = [0x1111 * i for i in range(21)]
    values[REG_IP], values[REG_SP] = bare.text, bare.stack
    values[REG_FLAGS] = 0x246
    bare.cpu.write_regs(values)
    seen = bare.cpu.read_regs()
    assert seen[:15] == tuple(values[:15])
    assert seen[REG_ORIG_AX:] == (2**64 - 1, bare.text, 0x10, 0x246, bare.stack, 0x18)
    assert [bare.cpu.read_reg(i) for i in range(21)] == list(seen)
    bare.cpu.write_reg(R15, 2**64 - 1)
    assert bare.cpu.read_regs()[R15] == 2**64 - 1
    bare.cpu.write_reg(REG_SS, 5)
    assert bare.cpu.read_reg(REG_SS) == 0x18


def test_breakpoint_goes_on_where_it_is_told(bare):
    seen = []

    def handler(ip):
        seen.append(ip - bare.text)
        return ip + 2  # over the inc

    bare.cpu.breakpoint = handler
    bare.run("31c0ccffc0ffc0")  # xor eax,eax; int3; inc eax; inc eax
    assert seen == [3]
    assert bare.stops == [1]


def test_a_breakpoint_handler_may_change_registers(bare):
    def handler(ip):
        values = list(bare.cpu.read_regs())
        values[AX], values[BX], values[REG_FLAGS] = 41, 7, 0x247
        values[REG_IP] = 0x1111  # what the handler returns counts
        bare.cpu.write_regs(values)
        bare.cpu.write_reg(CX, bare.cpu.read_reg(BX) + 1)
        return ip

    bare.cpu.breakpoint = handler
    bare.run("cc83d000")  # int3; adc $0,%eax
    assert bare.stops == [42]
    assert bare.cpu.read_reg(CX) == 8


def test_many_breakpoints_in_a_loop(bare):
    """Each goes on elsewhere, in code that was and was not translated before."""
    seen = []

    def handler(ip):
        seen.append(bare.cpu.read_reg(CX))
        return ip + 2 * (len(seen) % 3 == 0)  # every third skips the inc

    bare.cpu.breakpoint = handler
    bare.run("31c0" + "b964000000" + "cc" + "ffc0" + "e2fb")  # ecx = 100; loop
    assert seen == list(range(100, 0, -1))
    assert bare.stops == [100 - 33]


def test_breakpoint_of_nobody_is_a_trap(bare):
    vectors: list[int] = []
    bare.cpu.breakpoint = lambda ip: None
    bare.cpu.trap = vectors.append
    bare.run("cc90")
    assert vectors == [3]


def fault_skipper(bare, length):
    """Skip so many bytes at each trap; return a list that gets what it was."""
    log: list[tuple[int, ...]] = []

    def trap(vector):
        code = bare.cpu.clear_exception(vector)
        log.append((vector, bare.ip(), bare.cpu.fault_address(), code))
        bare.cpu.write_reg(REG_IP, bare.cpu.read_reg(REG_IP) + length)

    bare.cpu.trap = trap
    return log


def test_page_faults_stay_page_faults(bare):
    log = fault_skipper(bare, 8)
    bare.run(LOAD_NULL * 4)
    assert log == [(14, 8 * i, 0x10, 0) for i in range(4)]


def test_error_code_of_a_write_to_text(bare):
    log = fault_skipper(bare, 2)
    bare.load("8903")  # mov %eax,(%rbx)
    bare.cpu.write_reg(BX, bare.text)
    bare.cpu.run()
    assert log == [(14, 0, bare.text, 3)]


def test_data_is_not_executable(bare):
    log: list[tuple[int, ...]] = []

    def trap(vector):
        log.append((vector, bare.cpu.clear_exception(vector)))
        bare.cpu.write_reg(REG_IP, bare.text + 2)

    bare.cpu.trap = trap
    bare.load("ffe3")  # jmp *%rbx
    bare.cpu.write_reg(BX, bare.data)
    bare.cpu.run()
    assert log == [(14, 0x11)]


def test_divide_errors_stay_divide_errors(bare):
    log = fault_skipper(bare, 2)
    bare.run("31c9" + "f7f1" * 3)  # xor ecx,ecx; div ecx
    assert [vector for vector, *_ in log] == [0, 0, 0]


def test_invalid_instruction_is_vector_6(bare):
    log = fault_skipper(bare, 2)
    bare.run("0f0b0f0b")
    assert [entry[:2] for entry in log] == [(6, 0), (6, 2)]


def test_exception_field_is_found_where_it_is_not_expected(bare, monkeypatch):
    monkeypatch.setattr(cpu_module, "OLD_EXCEPTION", 4)
    log = fault_skipper(bare, 8)
    bare.run(LOAD_NULL * 3)
    assert [vector for vector, *_ in log] == [14, 14, 14]


@pytest.mark.parametrize("code", ["cc", "0f0b", LOAD_NULL, "e720eb00"])
def test_an_exception_in_a_hook_stops_the_run_and_comes_out(bare, code):
    def fail(_value):
        raise ZeroDivisionError("in a hook")

    bare.cpu.breakpoint = bare.cpu.trap = bare.cpu.hypercalls[0x20] = fail
    with pytest.raises(ZeroDivisionError, match="in a hook"):
        bare.run(code + "90")
    assert bare.stops == []
    bare.run("90")
    assert bare.stops == [bare.cpu.read_reg(AX) & 0xFFFFFFFF]


def test_unknown_hypercall(bare):
    with pytest.raises(EmulatorError):
        bare.run("e777eb00")


def test_interrupt_and_iretq(bare):
    handler = bare.text + 0x80
    bare.load("9090")
    bare.memory.write(handler, bytes.fromhex("48ffc348cf"))  # inc %rbx; iretq
    bare.cpu.write_reg(REG_SP, bare.stack - 9)
    assert bare.cpu.interrupt(handler)
    assert bare.cpu.read_reg(REG_IP) == handler
    assert not bare.cpu.read_reg(REG_FLAGS) & 0x200
    assert not bare.cpu.interrupt(handler)
    bare.cpu.run()
    assert bare.cpu.read_reg(BX) == 1
    assert bare.cpu.read_reg(REG_SP) == bare.stack - 9
    assert bare.cpu.read_reg(REG_FLAGS) & 0x200


def test_interrupt_at_an_exact_instruction(bare):
    handler = bare.text + 0x80
    bare.memory.write(handler, bytes.fromhex("4889c348cf"))  # mov %rax,%rbx; iretq
    bare.load("31c0" + "48ffc0" * 5)  # xor; five times inc %rax
    run_to(bare.cpu, bare.text + 2 + 3 * 3)
    assert bare.ip() == 11
    assert bare.cpu.read_reg(AX) == 3
    assert bare.cpu.interrupt(handler)
    bare.cpu.run()
    assert bare.cpu.read_reg(BX) == 3
    assert bare.stops == [5]


def test_exactly_so_many_instructions(bare):
    bare.run("31c0" + "48ffc0" * 5)
    bare.load("31c0" + "48ffc0" * 5)
    for count in (1, 2, 1):
        bare.cpu.run(count)
    assert bare.cpu.read_reg(AX) == 3
    bare.cpu.run()
    assert bare.cpu.read_reg(AX) == 5


def test_each_virtual_cpu_keeps_its_registers(bare):
    bare.load("65488b042500000000")  # mov %gs:0, %rax
    words = [bare.memory.area.alloc(8, KERNEL_DATA) for _ in range(2)]
    for number, word in enumerate(words):
        bare.memory.write_u64(word, 70 + number)
        bare.cpu.switch(number)
        bare.load("65488b042500000000")
        set_gs_base(bare.cpu, word)
        bare.cpu.write_reg(BX, number)
    for number in (0, 1):
        bare.cpu.switch(number)
        bare.cpu.run()
        assert bare.cpu.read_reg(BX) == number
    assert bare.stops == [70, 71]


def test_dropped_code_does_not_pile_up(bare):
    """libunicorn keeps what is dropped piece by piece until all is."""
    if heap.native() is None:
        pytest.skip("the C library does not say what malloc() has given out")
    bare.run("b801000000")
    gc.collect()  # so that what other tests have left does not go meanwhile

    def patch(times):
        for _ in range(times):
            bare.cpu.drop(bare.text, 5)
            bare.cpu.write_reg(REG_IP, bare.text)
            bare.cpu.run()
        bare.stops.clear()
        return heap.native()

    before = patch(MAX_DROPS + 100)  # 100 since all was dropped
    assert abs(patch(MAX_DROPS + 1) - before) < 20_000
    assert patch(MAX_DROPS // 2) - before > 20_000


def test_patched_code_runs_once_dropped(bare):
    bare.run("b801000000")
    bare.memory.write(bare.text + 1, b"\x02")
    bare.cpu.drop(bare.text, 5)
    bare.cpu.write_reg(REG_IP, bare.text)
    bare.cpu.run()
    bare.memory.write(bare.text + 1, b"\x03")
    bare.cpu.drop_all()
    bare.cpu.write_reg(REG_IP, bare.text)
    bare.cpu.run()
    assert bare.stops == [1, 2, 3]


def test_two_engines_live_in_one_process(bare):
    other = BareCpu()
    other.run("b807000000")
    bare.run("b808000000")
    assert (other.stops, bare.stops) == ([7], [8])
    other.cpu.close()
