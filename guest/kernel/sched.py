# SPDX-License-Identifier: GPL-2.0-or-later
"""The virtual CPUs: one engine runs each in turn until it idles or its credit ends.

A turn ends at a hypercall only, so the same operations in the same order run the same
instructions.  All of it is control context but for the hypercalls.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from time import process_time

from kpfs import abi
from kpfs.guest.emu.cpu import REG_DI, REG_FLAGS, REG_IP, REG_SP, Cpu
from kpfs.guest.emu.libunicorn import EmulatorError
from kpfs.guest.emu.memory import Memory
from kpfs.guest.emu.traps import GuestPanicError, Traps
from kpfs.guest.kernel.clock import Clock

CREDIT = 256  # polls of one turn
CREDIT_AFTER_DONE = 4  # enough for the task to sleep
LOCKUP_TURNS = 100_000  # in one go, for one thing that is waited for
LOOK_TURNS = 8  # between looks at how long that takes
NO_DEADLINE = 0xFFFF_FFFF_FFFF_FFFF
_I32 = struct.Struct("<i")
_U64 = struct.Struct("<Q")
_X86_EFLAGS_FIXED = 2


class _Patience:
    """How long the guest may run in one go, in turns and in CPU time of the host."""

    def __init__(self, turns: int, limit: float) -> None:
        self._limit = limit
        self.again(turns)

    def again(self, turns: int) -> None:
        """Begin anew."""
        self._last = turns + LOCKUP_TURNS
        self._since = 0.0  # of process_time() at the first look
        self._seconds = 0.0
        self.look_at = turns + LOOK_TURNS

    def ends(self, turns: int) -> bool:
        """Whether it has lasted too long; asked when look_at has come."""
        now = process_time()
        self._since = self._since or now
        self._seconds = now - self._since
        if turns >= self._last or self._seconds >= self._limit:
            return True
        self.look_at = turns + LOOK_TURNS
        return False

    def exhausted(self, turns: int) -> bool:
        """Whether it has gone on for as long again."""
        return turns >= self._last + LOCKUP_TURNS

    def seconds(self) -> int:
        """Of CPU time, rounded."""
        return round(self._seconds)


class Sched:
    """Runs the guest.

    ``finished`` collects the pids whose request is done (HC_DONE).
    """

    def __init__(
        self,
        cpu: Cpu,
        memory: Memory,
        traps: Traps,
        clock: Clock,
        *,
        timer_entry: int,
        serve_control: Callable[[int], None],
        panic_reason: Callable[[], str],
    ) -> None:
        """timer_entry: guest code of the timer interrupt.

        serve_control serves a CPU that stands at HC_API: see guest/kernel/control.py.
        """
        self._cpu = cpu
        self._ram = memory.ram
        self._translate = memory.translate
        self._traps = traps
        self._clock = clock
        self.nr_cpus = 0
        self.finished: set[int] = set()
        # pid to stack pointer of the tasks that stand at HC_HOST_OP
        self.host_ops: dict[int, int] = {}
        self._on_host_op: Callable[[int, int], None] = self._no_host_op
        self._on_exit: Callable[[int], None] = lambda _pid: None
        self.timer_entry = timer_entry
        self._serve_control = serve_control
        self._panic_reason = panic_reason
        self._watchdog = cpu.watchdog
        self.turns = 0
        self.dead = ""  # why the kernel is dead
        self._pcpu: list[int] = []  # offset in RAM of each struct kpfs_pcpu
        self._idle: list[bool] = []
        self._pending: list[list[int]] = []  # entries of interrupts to be delivered
        self._next = 0
        self._reason = 0
        self._host_op = 0  # the pid that came to HC_HOST_OP last
        self._quiescent: list[Callable[[], None]] = []
        hypercalls = cpu.hypercalls
        hypercalls[abi.HC_IDLE] = self._hc_idle
        hypercalls[abi.HC_YIELD] = self._hc_yield
        hypercalls[abi.HC_DONE] = self._hc_done
        hypercalls[abi.HC_HOST_OP] = self._hc_host_op
        hypercalls[abi.HC_PANIC] = self._hc_panic
        hypercalls[abi.HC_EXIT] = self._hc_exit
        hypercalls[abi.HC_API] = self._hc_api
        hypercalls[abi.HC_CLOCK] = clock.asked

    def attach(
        self, on_host_op: Callable[[int, int], None], on_exit: Callable[[int], None]
    ) -> None:
        """Tell somebody, who makes requests, what becomes of the tasks.

        on_host_op is called with the pid and the stack pointer of a task that stands at
        HC_HOST_OP, on_exit (in hit context) with the pid of a task that is gone.
        """
        self._on_host_op, self._on_exit = on_host_op, on_exit

    def start_cpu(self, number: int, pcpu: int, entry: int, argument: int) -> None:
        """Let a CPU begin at entry with RDI set; its pcpu is at a virtual address."""
        cpu = self._cpu
        cpu.switch(number)
        cpu.write_reg(REG_IP, entry)
        cpu.write_reg(REG_DI, argument)
        cpu.write_reg(REG_FLAGS, _X86_EFLAGS_FIXED)
        self._pcpu.append(self._translate(pcpu, abi.KpfsPcpu.SIZE))
        self._idle.append(False)
        self._pending.append([])
        self.nr_cpus = len(self._pcpu)

    # ---- hypercalls (hit)
    def _no_host_op(self, pid: int, _sp: int) -> None:
        raise EmulatorError(f"nobody serves the files of the mount (pid {pid})")

    def _hc_idle(self, _cpu: int) -> None:
        self._reason = abi.HC_IDLE
        self._cpu.stop()

    def _hc_yield(self, _value: int) -> None:
        self._reason = abi.HC_YIELD
        self._cpu.stop()

    def _hc_done(self, pid: int) -> None:
        """The task goes on to sleep; the turn ends there, or soon if others run."""
        self.finished.add(pid)
        at = self._pcpu[self._cpu.active] + abi.KpfsPcpu.credit
        _I32.pack_into(self._ram, at, CREDIT_AFTER_DONE)

    def _hc_host_op(self, pid: int) -> None:
        self._host_op = pid
        self.host_ops[pid] = self._cpu.read_reg(REG_SP)
        self._reason = abi.HC_HOST_OP
        self._cpu.stop()

    def _hc_api(self, _cpu: int) -> None:
        self._reason = abi.HC_API
        self._cpu.stop()

    def _hc_panic(self, _value: int) -> None:
        self._reason = abi.HC_PANIC
        self._cpu.stop()

    def _hc_exit(self, pid: int) -> None:
        self._on_exit(pid)

    # ---- turns
    def interrupt(self, number: int, entry: int) -> None:
        """Deliver an interrupt as soon as that CPU allows it."""
        if entry not in self._pending[number]:
            self._pending[number].append(entry)

    def runnable(self, number: int) -> bool:
        """Whether the CPU has anything to do."""
        if not self._idle[number] or self._pending[number]:
            return True
        at = self._pcpu[number] + abi.KpfsPcpu.need_resched
        return bool(_I32.unpack_from(self._ram, at)[0])

    def is_idle(self, number: int) -> bool:
        """Whether it waits for an interrupt."""
        return self._idle[number]

    def all_idle(self) -> bool:
        return not any(self.runnable(number) for number in range(self.nr_cpus))

    def turn(self, number: int) -> None:
        """Run one CPU until it stops by itself."""
        cpu, ram = self._cpu, self._ram
        if self.dead:
            raise GuestPanicError(self.dead)
        cpu.switch(number)
        pending = self._pending[number]
        if pending and cpu.interrupt(pending[0]):
            del pending[0]
        elif pending and self._idle[number]:
            raise EmulatorError("an idle CPU does not take interrupts")
        self._idle[number] = False
        _I32.pack_into(ram, self._pcpu[number] + abi.KpfsPcpu.credit, CREDIT)
        self._clock.now()
        self.turns += 1
        self._reason = 0
        try:
            cpu.run()
        except GuestPanicError as exc:
            self.dead = str(exc)
            raise
        reason = self._reason
        if reason == abi.HC_IDLE:
            self._idle[number] = True
        elif reason == abi.HC_PANIC:
            self.dead = self._panic_reason()
            raise GuestPanicError(self.dead)
        elif not reason and not cpu.stopped:
            self._unexplained_stop()

    def _unexplained_stop(self) -> None:
        """The emulator left the run by itself.

        The watchdog told it to, or it is a call of address 0; else the guest is dead.
        """
        if self._watchdog.expired():
            self._traps.lockup(int(self._watchdog.limit))
            return
        ip = self._cpu.read_reg(REG_IP)
        if ip:
            self.dead = f"triple fault or halt at {ip:#x}"
            raise GuestPanicError(self.dead)
        self._traps.null_call()

    def run(self, done: Callable[[], bool]) -> bool:
        """Take turns until done() holds after a turn; False: nothing is left to run.

        A task at HC_HOST_OP is served at once, before anything else runs.
        """
        count = self.nr_cpus
        patience = _Patience(self.turns, self._watchdog.limit)
        while True:
            for _ in range(count):
                number = self._next
                if self.runnable(number):
                    break
                self._next = (number + 1) % count
            else:
                return False
            self.turn(number)
            if self.turns >= patience.look_at and patience.ends(self.turns):
                self._soft_lockup(patience)
            if self._reason == abi.HC_HOST_OP:
                if done():
                    return True
                pid = self._host_op
                self._on_host_op(pid, self.host_ops.pop(pid))
            elif self._reason == abi.HC_API:
                self._serve_control(number)
            elif self._reason == abi.HC_YIELD or self._idle[number]:
                self._next = (number + 1) % count
                if self._reason == abi.HC_YIELD:
                    # a busy CPU gets its timer interrupts too
                    self._clock.step()
                    self.expire()
            if done():
                return True

    def _soft_lockup(self, patience: _Patience) -> None:
        """The guest neither finishes nor idles: whoever does not sleep is to blame."""
        if self._reason == abi.HC_YIELD:
            patience.again(self.turns)
            self._traps.lockup(patience.seconds())
        elif patience.exhausted(self.turns):
            ip = self._cpu.read_reg(REG_IP)
            self.dead = f"soft lockup: CPU {self._cpu.active} stuck at {ip:#x}"
            raise GuestPanicError(self.dead)

    def prefer(self, number: int) -> None:
        """Let this CPU have the next turn."""
        self._next = number

    def run_until_idle(self, turns: int = 0) -> bool:
        """Run until no CPU has anything to do; with ``turns``, at most so many."""
        limit = self.turns + turns
        return not self.run(lambda: bool(turns) and self.turns >= limit)

    # ---- time
    def next_deadline(self) -> int | None:
        """When a CPU wants its timer interrupt, None: never."""
        ram = self._ram
        first: int = min(
            _U64.unpack_from(ram, at + abi.KpfsPcpu.next_deadline)[0]
            for at in self._pcpu
        )
        return None if first == NO_DEADLINE else first

    def expire(self) -> None:
        """Make the timer interrupt pending on the CPUs whose deadline has come."""
        now = self._clock.now()
        for number, at in enumerate(self._pcpu):
            if _U64.unpack_from(self._ram, at + abi.KpfsPcpu.next_deadline)[0] <= now:
                self.interrupt(number, self.timer_entry)

    # ---- quiescent states
    def call_after_quiescence(self, func: Callable[[], None]) -> None:
        """Run func at the next check that finds every CPU idle.

        Then each task has gone to sleep by itself: none was stopped or preempted
        within text.  Kernel: call_rcu_tasks().
        """
        self._quiescent.append(func)

    def quiescence_wanted(self) -> bool:
        return bool(self._quiescent)

    def note_quiescence(self) -> None:
        """Run the waiting functions if this is a quiescent state."""
        if self._quiescent and self.all_idle():
            waiting, self._quiescent = self._quiescent, []
            for func in waiting:
                func()
