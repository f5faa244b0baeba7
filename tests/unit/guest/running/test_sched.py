# SPDX-License-Identifier: GPL-2.0-or-later
"""Hand-assembled code in turns: interrupts, dead ends, CPUs that are held.

This tests kpfs.guest.running.sched, kpfs.guest.running.cpu_states,
kpfs.guest.running.quiescence, kpfs.guest.running.lockups and kpfs.guest.emu.traps.
"""

import struct

import pytest

from kpfs.base import abi
from kpfs.guest.emu.cpu_registers import REG_FLAGS, REG_IP, REG_SP
from kpfs.guest.emu.memory import KERNEL_DATA
from kpfs.guest.emu.run_length import RUN_BLOCKS
from kpfs.guest.emu.traps import GuestPanicError, Traps
from kpfs.guest.running.clock import Clock
from kpfs.guest.running.cpu_states import CpuStates
from kpfs.guest.running.quiescence import Quiescence
from kpfs.guest.running.sched import ASIDE_TURNS, CREDIT, LONG_TURN, Sched
from tests.guest import set_gs_base
from tests.there import stand_in
from tests.unit.guest.bare import BareCpu

pytestmark = pytest.mark.logs("kernel panic: ")
BX = 5
IDLE, YIELD, PANIC, API = (
    f"e7{reason:02x}eb00"
    for reason in (abi.HC_IDLE, abi.HC_YIELD, abi.HC_PANIC, abi.HC_API)
)
AGAIN = "ebfa"  # back to the four bytes before: hypercall and its jump
NONE = 2**64 - 1
IDLE_TASKS = 0x1000


class Tasks:
    """Tasks by number, each with its quiescent states; those that sleep have none."""

    def __init__(self) -> None:
        self.states: dict[int, int] = {}

    def runnable(self) -> list[int]:
        return [*self.states]

    def is_runnable(self, addr: int) -> bool:
        return addr in self.states or addr >= IDLE_TASKS

    def quiescent_states(self, addr: int) -> int:
        return self.states.get(addr, 0)


class Machine:
    def __init__(self, nr_cpus=2):
        self.bare = BareCpu(nr_cpus)
        self.cpu, self.memory = self.bare.cpu, self.bare.memory
        self.entries: dict[str, int] = {}
        self.said: list[str] = []
        self.tasks = Tasks()
        self.traps = Traps(self.cpu, self.memory, lambda name: self.entries.get(name))
        self.clock = Clock(self.memory, self.memory.alloc_low(4096), quiet=True)
        self.cpu_states = CpuStates(self.memory)
        self.sched = Sched(
            self.cpu,
            self.memory,
            self.cpu_states,
            self.traps,
            self.clock,
            timer_entry=self.bare.text + 0x800,
            serve_control=lambda _cpu: None,
            panic_reason=lambda: "kernel panic",
            printk=lambda _level, text: self.said.append(text),
            in_module=lambda _ip: False,
        )
        self.quiescence = Quiescence(
            self.cpu_states, stand_in(self.tasks), lambda: self.sched.turns
        )
        self.pcpus = []

    def put(self, offset, code):
        self.memory.write(self.bare.text + offset, bytes.fromhex(code))
        return self.bare.text + offset

    def start(self, *codes):
        for number, code in enumerate(codes):
            pcpu = self.memory.area.alloc(4096, KERNEL_DATA)
            self.memory.write_u64(pcpu + abi.KpfsPcpu.next_deadline, NONE)
            idle_task = IDLE_TASKS + number
            self.memory.write_u64(pcpu + abi.KpfsPcpu.current_task, idle_task)
            entry = self.put(0x100 * number, code)
            self.sched.start_cpu(number, pcpu, entry, number)
            self.cpu.write_reg(REG_SP, self.bare.stack - 2048 * number)
            self.pcpus.append(pcpu)
        return self.sched

    def credit(self, number):
        return struct.unpack(
            "<i", self.memory.read(self.pcpus[number] + abi.KpfsPcpu.credit, 4)
        )[0]


@pytest.fixture
def machine():
    machine = Machine()
    yield machine
    machine.bare.cpu.close()


def test_cpus_take_turns_until_all_idle(machine):
    order = []
    machine.cpu.hypercalls[0x20] = lambda value: order.append(machine.cpu.active)
    report = "e720"
    sched = machine.start((report + YIELD) * 2 + IDLE, report + YIELD + report + IDLE)
    assert not machine.cpu_states.all_idle()
    assert sched.run_until_idle()
    assert order == [0, 1, 0, 1]
    assert machine.cpu_states.all_idle()
    assert sched.turns == 5
    assert not sched.run(lambda: False)
    assert sched.turns == 5


def test_credit_is_filled_before_each_turn(machine):
    sched = machine.start("65c7042500000000ffffffff" + IDLE)
    set_gs_base(machine.cpu, machine.pcpus[0] + abi.KpfsPcpu.credit)
    sched.run_until_idle()
    assert machine.credit(0) == -1
    machine.memory.write(machine.pcpus[0] + abi.KpfsPcpu.need_resched, b"\x01")
    machine.put(0x10, IDLE)
    sched.turn(0)
    assert machine.credit(0) == CREDIT


def test_need_resched_wakes_an_idle_cpu(machine):
    sched = machine.start(IDLE + IDLE)
    sched.run_until_idle()
    machine.memory.write(
        machine.pcpus[0] + abi.KpfsPcpu.need_resched, struct.pack("<i", 1)
    )
    assert sched.runnable(0)
    sched.turn(0)
    assert sched.turns == 2


def test_interrupts_wait_for_their_flag(machine):
    handler = machine.put(0x800, "48ffc348cf")  # inc %rbx; iretq
    sched = machine.start(YIELD + "fb" + IDLE + AGAIN)
    machine.cpu_states.interrupt(0, handler)
    machine.cpu_states.interrupt(0, handler)  # the same one again is no second one
    sched.turn(0)
    assert machine.cpu.read_reg(BX) == 0
    sched.run_until_idle()
    assert machine.cpu.read_reg(BX) == 1


@pytest.mark.logs("kernel panic: an idle CPU does not take interrupts")
def test_an_idle_cpu_must_take_interrupts(machine):
    sched = machine.start(IDLE)
    sched.run_until_idle()
    machine.cpu_states.interrupt(0, machine.bare.text)
    with pytest.raises(GuestPanicError):
        sched.turn(0)


def test_deadlines(machine):
    machine.put(0x800, "48ffc348cf")
    sched = machine.start("fb" + IDLE + AGAIN, "fb" + IDLE + AGAIN)
    sched.run_until_idle()
    assert machine.cpu_states.next_deadline() is None
    machine.memory.write_u64(machine.pcpus[1] + abi.KpfsPcpu.next_deadline, 500)
    assert machine.cpu_states.next_deadline() == 500
    machine.clock.advance(499)
    sched.expire()
    assert machine.cpu_states.all_idle()
    machine.clock.advance(500)
    sched.expire()
    sched.run_until_idle()
    assert machine.cpu.active == 1
    assert machine.cpu.read_reg(BX) == 1


def test_quiescence_needs_every_cpu_idle(machine):
    sched = machine.start(YIELD + IDLE, IDLE)
    ran = []
    machine.quiescence.call_after(lambda: ran.append(1))
    sched.turn(0)
    sched.turn(1)
    machine.quiescence.check()
    assert ran == []
    sched.turn(0)
    machine.quiescence.check()
    machine.quiescence.check()
    assert ran == [1]


def test_quiescence_needs_each_task_once(machine):
    """Tasks that are busy, the one that runs among them, need not sleep."""
    sched, states = machine.start(YIELD + AGAIN), machine.tasks.states
    current = machine.pcpus[0] + abi.KpfsPcpu.current_task
    machine.memory.write_u64(current, 1)
    states.update({1: 7, 2: 0, 3: 9})
    ran = []
    machine.quiescence.call_after(lambda: ran.append("first"))
    states[1] += 1
    sched.turn(0)
    states[4] = 0  # it has begun since
    machine.quiescence.call_after(lambda: ran.append("second"))
    del states[2]  # it sleeps now
    machine.quiescence.check()
    assert ran == []
    states[3] += 1
    machine.quiescence.check()
    assert ran == ["first"]
    states[4] += 1
    machine.quiescence.check()
    assert machine.quiescence
    states[1] += 1
    machine.quiescence.check()
    assert ran == ["first", "second"]
    assert not machine.quiescence


def test_a_panic_is_for_ever(machine):
    sched = machine.start(PANIC)
    for _ in range(2):
        with pytest.raises(GuestPanicError, match="kernel panic"):
            sched.run_until_idle()
    assert sched.turns == 1
    assert machine.said == ["Kernel panic - not syncing: kernel panic"]


def test_a_halt_is_the_end(machine):
    with pytest.raises(GuestPanicError, match="halt"):
        machine.start("f4").run_until_idle()


def test_a_lockup_is_told_to_the_guest(machine, monkeypatch):
    monkeypatch.setattr("kpfs.guest.running.lockups.LOCKUP_TURNS", 50)
    machine.entries["asm_exc_nmi"] = machine.put(0x800, IDLE)
    sched = machine.start(YIELD + AGAIN)
    sched.run_until_idle()
    assert machine.cpu_states.idle[0]
    assert 50 <= sched.turns <= 50 + 1


@pytest.mark.parametrize("loop", [API, YIELD])
def test_a_lockup_that_goes_on_is_the_end(machine, monkeypatch, loop):
    monkeypatch.setattr("kpfs.guest.running.lockups.LOCKUP_TURNS", 50)
    monkeypatch.setattr("kpfs.guest.running.sched.PASS_TURNS", 1)
    told: list[int] = []
    machine.cpu.hypercalls[0x20] = told.append
    machine.entries["asm_exc_nmi"] = machine.put(0x800, "e7204883c40848cf")
    sched = machine.start(loop + AGAIN)
    for _ in range(2):
        with pytest.raises(GuestPanicError, match="soft lockup: CPU 0"):
            sched.run_until_idle()
    assert len(told) == 7
    (said,) = machine.said
    assert said.startswith("Kernel panic - not syncing: soft lockup: CPU 0 stuck for ")
    assert sched.turns == 100


def test_a_long_turn_ends_in_a_module(machine):
    """A long turn counts for several: its thread steps aside sooner."""
    if not machine.cpu.counts:
        pytest.skip("this libunicorn does not count blocks")
    sched = machine.start("90ebfd", YIELD + AGAIN)  # 1: nop; jmp 1b
    text, cpu = machine.bare.text, machine.cpu
    cpu.may_end = lambda ip: ip == text
    aside = []

    def gives_up():
        aside.append(cpu.blocks)
        return len(aside) == 2

    before = cpu.blocks
    assert not sched.run(lambda: False, gives_up)
    assert RUN_BLOCKS < aside[0] - before < (ASIDE_TURNS // LONG_TURN + 1) * RUN_BLOCKS


# ---- traps
FRAME = ("code", "ip", "cs", "flags", "sp", "ss")


def frame(machine, words):
    sp = machine.cpu.read_reg(REG_SP)
    values = struct.unpack(f"<{words}Q", machine.memory.read(sp, 8 * words))
    return dict(zip(FRAME[-words:], values, strict=True))


def test_a_page_fault_is_delivered_with_its_error_code(machine):
    machine.entries["asm_exc_page_fault"] = machine.put(0x800, IDLE)
    sched = machine.start("fb" + "c6042500000000" + "00")  # sti; movb $0,0
    sp = machine.cpu.read_reg(REG_SP)
    sched.run_until_idle()
    seen = frame(machine, 6)
    assert seen == {
        "code": 2,
        "ip": machine.bare.text + 1,
        "cs": abi.CS,
        "flags": seen["flags"],
        "sp": sp,
        "ss": abi.DS,
    }
    assert seen["flags"] & 0x200
    assert not machine.cpu.read_reg(REG_FLAGS) & 0x200


def test_a_call_of_address_0_is_a_page_fault(machine):
    machine.entries["asm_exc_page_fault"] = machine.put(0x800, IDLE)
    sched = machine.start("31c0ffd0")  # xor %eax,%eax; call *%rax
    sched.run_until_idle()
    seen = frame(machine, 6)
    assert (seen["code"], seen["ip"]) == (0x10, 0)
    assert machine.cpu.fault_address() == 0


@pytest.mark.parametrize(
    ("code", "name", "ip"),
    [
        ("cc", "asm_exc_int3", 1),
        ("0f0b", "asm_exc_invalid_op", 0),
        ("31c9f7f1", "asm_exc_divide_error", 2),
    ],
)
def test_exceptions_without_error_code(machine, code, name, ip):
    machine.entries[name] = machine.put(0x800, IDLE)
    machine.start(code).run_until_idle()
    assert frame(machine, 5)["ip"] == machine.bare.text + ip


def test_an_unknown_vector_is_a_protection_fault(machine):
    machine.entries["asm_exc_general_protection"] = machine.put(0x800, IDLE)
    machine.start("cd55").run_until_idle()
    assert frame(machine, 6)["code"] == 0x55 * 8 + 2


def test_a_fault_handler_may_blame_another_instruction(machine):
    machine.entries["asm_exc_page_fault"] = machine.put(0x800, IDLE)

    def handler(trapnr, ip, addr):
        machine.cpu.write_reg(REG_IP, 0x1111)

    machine.traps.on_fault(handler)
    machine.start("8a042500000000").run_until_idle()
    assert frame(machine, 6)["ip"] == 0x1111


def test_no_stack_is_a_double_fault(machine):
    machine.entries["asm_exc_page_fault"] = machine.put(0x800, IDLE)
    sched = machine.start("31e450")  # xor %esp,%esp; push %rax
    with pytest.raises(GuestPanicError, match="double fault"):
        sched.run_until_idle()


def test_a_guest_without_handlers(machine):
    with pytest.raises(GuestPanicError, match="no handler"):
        machine.start("cc").run_until_idle()


def test_task_to_kill_is_seen_in_the_module(machine):
    """A loop may be as long as what is executed between two looks."""
    sched = machine.start("90" * 99 + "eb9b")
    pcpu, text = machine.pcpus[0], machine.bare.text
    machine.memory.write(pcpu + abi.KpfsPcpu.preempt_count, struct.pack("<i", 1))
    sched.lockups._in_module = lambda ip: text + 60 <= ip < text + 64
    sched.lockups.reach_module(machine.cpu_states.pcpu[0], IDLE_TASKS)
    assert sched.lockups._in_module(machine.cpu.read_reg(REG_IP))
