# SPDX-License-Identifier: GPL-2.0-or-later
"""CPUs that are held, where nothing else can run, and the end of what holds one.

A task may be busy for as long as it likes. But nothing else gets a CPU on which
preemption or interrupts are off: it is *held*. At each yield the scheduler looks, and
adds up the CPU time for which each CPU is held without a break. At the limit the task
that holds it is killed as by an oops, at a place where it has no lock of the kernel if
it soon comes to one; at twice the limit the guest is dead. The code of a module that
makes no hypercall loses its turn after a number of blocks of code. The kernel's own
code does not, as it need not expect an interrupt everywhere: it comes to a hypercall or
to its end. Else it holds everything. A watchdog that counts CPU time stops the emulator
then (guest/emu/watchdog.py); it also ends loops where libunicorn counts no blocks.

Context: control; the CPU is the loaded one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from time import process_time

from kpfs.base import abi
from kpfs.base.errors import MemoryFault
from kpfs.base.x86 import X86_EFLAGS_IF
from kpfs.guest.emu.cpu import Cpu
from kpfs.guest.emu.cpu_registers import REG_FLAGS, REG_IP, REG_SP
from kpfs.guest.emu.memory import AREA_END, Memory
from kpfs.guest.emu.traps import GuestPanicError, Traps
from kpfs.guest.emu.watchdog import GRACE, SHORT_GRACE
from kpfs.guest.running.cpu_states import CpuStates

HELD_TURNS = 8  # in a row, after which a CPU counts as held
LOCKUP_TURNS = 1_000_000  # for which a CPU is held that count as a lock-up
DEATH = 2.0  # limits after which the guest is dead
HURRY = 2.0  # limits of CPU time from one stop by the watchdog to the next
# Instructions between looks at where a task that is to be killed has come. At last they
# are so few that the loop of a module is seen in its text even if it does nothing but
# call functions.
REACH = (50,) * 200 + (4,) * 1000
_CURRENT_AT, _PREEMPT_AT = abi.KpfsPcpu.current_task, abi.KpfsPcpu.preempt_count
_API_FLAGS_AT = abi.KpfsPcpu.api + 8 * abi.API_FLAGS
_I32 = struct.Struct("<i")
_U64 = struct.Struct("<Q")


class Holding:
    """The time for which a task has held a CPU without a break.

    ``spent``, ``due`` and ``grace`` count in limits of the watchdog.
    """

    def __init__(self, task: int = 0) -> None:
        """task: its address."""
        self.task = task
        self.turns = 0
        self.seconds = 0.0
        self.spent = 0.0
        self.due = 1.0  # when the task is killed
        self.grace = GRACE  # until it is killed once more, if that did not help

    def was_killed(self) -> None:
        self.due = self.spent + self.grace
        self.grace = SHORT_GRACE


def _is_added(address: int) -> bool:
    """Return True for the area of modules and of code that is made for probes."""
    return abi.MODULE_BASE <= address < AREA_END


class Lockups:
    """Tasks that hold a CPU, and for how long they have."""

    def __init__(
        self,
        cpu: Cpu,
        memory: Memory,
        cpus: CpuStates,
        traps: Traps,
        *,
        serve_control: Callable[[int], None],
        panic_reason: Callable[[], str],
        in_module: Callable[[int], bool],
    ) -> None:
        """Take the callables that Sched describes."""
        self._cpu, self._cpus, self._traps = cpu, cpus, traps
        self._ram, self._translate = memory.ram, memory.translate
        self._serve_control = serve_control
        self._panic_reason = panic_reason
        self._in_module = in_module
        self._holding: list[Holding] = []
        self.some = False  # some CPU may be held
        # limits for which the watchdog had to wait, and the process_time() until which
        # more is added to them
        self._stuck, self._hurry_until = 0.0, 0.0

    def add_cpu(self) -> None:
        self._holding.append(Holding())

    def turns(self, number: int) -> int:
        """Return for how many turns in a row a CPU has been held."""
        return self._holding[number].turns

    def is_held(self, number: int) -> bool:
        """Return True if a CPU has been held for HELD_TURNS turns."""
        return self._holding[number].turns >= HELD_TURNS

    def held_by(self, number: int, reason: int) -> bool:
        """Return True if nothing else can run on the CPU where it stands.

        Without preemption that is so as long as a task does not schedule.
        reason: of its turn's end.
        """
        at, ram = self._cpus.pcpu[number], self._ram
        if _I32.unpack_from(ram, at + _PREEMPT_AT)[0]:
            return True
        if _I32.unpack_from(ram, self._cpus.resched_at[number])[0]:
            return True
        if reason == abi.HC_API:  # which is made with interrupts off
            flags: int = _U64.unpack_from(ram, at + _API_FLAGS_AT)[0]
        else:
            flags = self._cpu.read_reg(REG_FLAGS)
        return not flags & X86_EFLAGS_IF

    def let_go(self, number: int) -> None:
        """Note that a CPU is not held."""
        if self.some:
            self._holding[number] = Holding()
            self.some = any(each.turns for each in self._holding)

    def charge(self, number: int, seconds: float, *, stuck: bool) -> None:
        """Count a turn in which a CPU was held; kill its task if that is due.

        A task that the watchdog has stopped (stuck) is killed at once. If the next ones
        do not come back either, the guest is dead soon: GuestPanicError, EmulatorError.
        """
        limit = self._cpu.watchdog.limit
        holding = self._holding[number]
        if (task := self._cpus.current(number)) != holding.task:
            holding = self._holding[number] = Holding(task)
        holding.turns += 1
        self.some = True
        holding.seconds += seconds
        spent = holding.seconds / limit
        holding.spent = max(spent, holding.turns / LOCKUP_TURNS)
        if stuck:
            now = process_time()
            if now > self._hurry_until:
                self._stuck = 0.0
            self._hurry_until = now + HURRY * limit
            self._stuck += seconds / limit
        if max(holding.spent, self._stuck if stuck else 0.0) >= DEATH:
            ip, rounded = self._cpu.read_reg(REG_IP), round(holding.seconds)
            raise GuestPanicError(
                f"soft lockup: CPU {number} stuck for {rounded}s at {ip:#x}"
            )
        if stuck or holding.spent >= holding.due:
            self._kill(number)

    def _kill(self, number: int) -> None:
        """Kill the task that holds the CPU.

        Kernel code that a module has not called waits for a lock, perhaps that of a
        task which holds another CPU and will be killed; else it waits in vain.
        """
        at, holding = self._cpus.pcpu[number], self._holding[number]
        self._cpu.check_mode()
        if not self.reach_module(at, self._cpus.current(number)):
            return
        if not self._of_module(at):
            if not any(other.turns for other in self._holding if other != holding):
                ip = self._cpu.read_reg(REG_IP)
                raise GuestPanicError(
                    f"soft lockup: CPU {number} waits in vain at {ip:#x}"
                )
            holding.was_killed()  # not yet, but soon
            return
        holding.was_killed()
        self._traps.lockup(round(holding.seconds))

    def reach_module(self, at: int, task: int) -> bool:
        """Run a task that is to be killed on to where it holds no kernel lock.

        That is in the text of a module, or where it can be preempted. If it does not
        come there soon, it is killed where it is. Return False if it has lost its CPU.
        at: the offset of the CPU's struct kpfs_pcpu.
        """
        cpu, ram = self._cpu, self._ram
        for instructions in REACH:
            if self._may_end(at):
                return True
            cpu.run(instructions)
            reason = cpu.ended
            if reason == abi.HC_API:
                self._serve_control(cpu.active)
            elif reason == abi.HC_IDLE:
                self._cpus.idle[cpu.active] = True
                return False
            elif reason == abi.HC_PANIC:
                raise GuestPanicError(self._panic_reason())
            elif reason:
                return reason == abi.HC_YIELD
            if _U64.unpack_from(ram, at + _CURRENT_AT)[0] != task:
                return False
        return True

    def _may_end(self, at: int) -> bool:
        """Return True if the task holds no lock of the kernel where it stands."""
        cpu = self._cpu
        ip = cpu.read_reg(REG_IP)
        if not ip or self._in_module(ip):
            return True
        count = _I32.unpack_from(self._ram, at + _PREEMPT_AT)[0]
        return not count and bool(cpu.read_reg(REG_FLAGS) & X86_EFLAGS_IF)

    def _of_module(self, at: int) -> bool:
        """Return True if the running task appears to execute for a module.

        Other code that was added to the kernel counts, too. If there is none, the
        kernel itself waits, with preemption off, for something that will not come: a
        lock that a killed task has left locked. Killing the waiting task does not help.
        """
        cpu = self._cpu
        if self._may_end(at) or _is_added(cpu.read_reg(REG_IP)):
            return True
        sp = cpu.read_reg(REG_SP) & ~7
        size = abi.STACK_STRIDE - (sp - abi.STACK_BASE) % abi.STACK_STRIDE
        try:
            start = self._translate(sp, size)
        except MemoryFault:  # no stack of the kernel's: a module made it
            return True
        words = memoryview(self._ram)[start : start + size].cast("Q")
        return any(map(_is_added, words))
