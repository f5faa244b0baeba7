# SPDX-License-Identifier: GPL-2.0-or-later
"""The scheduler of virtual CPUs: run each in turn, and end what runs too long.

One emulator stands for all CPUs, so one of them runs at a time. The simple way would be
to switch after so many instructions, but the emulator is six times slower while it
counts them. So the guest gives up its turn itself, by a hypercall: when it idles
(HC_IDLE), spins or has used up its credit (HC_YIELD), comes to a file of the mount
(HC_HOST_OP), asks Python for something (HC_API), or dies (HC_PANIC).

A guest that makes no hypercall would never come back. A watchdog that counts CPU time
stops the emulator then (guest/emu/watchdog.py), and Patience adds up the CPU time of a
request by task. At the limit the task to blame is killed as by an oops, at a place
where it holds no lock of the kernel if it soon comes to one; at twice the limit the
guest is dead.

Invariants: A turn ends at a hypercall, unless the watchdog had to end it, so the same
operations in the same order run the same instructions. Time is measured only to find
lock-ups: it never decides which CPU runs next. A task at HC_HOST_OP is served before
any other CPU runs. Serving it may call run() again, in the middle of the outer one;
that inner time is counted once. After a panic nothing runs any more.

Context: control, but for the hypercalls, which are hit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from time import monotonic, thread_time

from kpfs.base import abi
from kpfs.base.errors import MemoryFault
from kpfs.base.log import Log
from kpfs.guest.emu.cpu import (
    REG_DI,
    REG_FLAGS,
    REG_IP,
    REG_SP,
    X86_EFLAGS_IF,
    Cpu,
)
from kpfs.guest.emu.libunicorn import EmulatorError
from kpfs.guest.emu.memory import AREA_END, Memory
from kpfs.guest.emu.traps import GuestPanicError, Traps
from kpfs.guest.emu.watchdog import GRACE, SHORT_GRACE
from kpfs.guest.running.clock import Clock

log = Log(__name__)

CREDIT = 256  # polls by the guest after which its turn ends
LOCKUP_TURNS = 1_000_000  # turns in one request that count as a lock-up
LOOK_TURNS = 8  # turns between two looks at the CPU time
SHORT = 0.001  # s of the host's time; a shorter run is not counted
GUESS = 0.25  # limits; the most that is counted for a time not measured exactly
HOST_OP_COST = 0.005  # s; the most that a file's operation counts as guest time
DEATH = 2.0  # limits after which the guest is dead
OWN_SHARE = 0.25  # of the time; with so much the task of the request is to blame
MOST = 0.9  # of the time; with so much a task runs alone
KERN_EMERG = 0
# Instructions between looks at where a task that is to be killed has come. At last they
# are so few that the loop of a module is seen in its text even if it does nothing but
# call functions.
REACH = (50,) * 200 + (4,) * 1000
_CURRENT_AT, _PREEMPT_AT = abi.KpfsPcpu.current_task, abi.KpfsPcpu.preempt_count
_STUCK = -1  # reason of a turn's end: the watchdog stopped it
NO_DEADLINE = 0xFFFF_FFFF_FFFF_FFFF
_I32 = struct.Struct("<i")
_U64 = struct.Struct("<Q")
_X86_EFLAGS_FIXED = 2


class Patience:
    """The CPU time that the guest may use for one request, counted by task.

    The limit is in seconds of the host's CPU time, or LOCKUP_TURNS if they come first.
    """

    seconds = 0.0
    _turns = 0
    _kill_at = 1.0  # limits
    _grace = GRACE  # limits until the next task is killed

    def __init__(self, limit: float, task: int = 0) -> None:
        """task: address of the task that makes the request; 0 if there is none."""
        self._limit = limit
        self._task = task
        self._shares: dict[int, float] = {}  # seconds by address of the task

    def spend(self, seconds: float, turns: int) -> float:
        """Add the time and turns just taken; return the limits used up in all."""
        self.seconds += seconds
        self._turns += turns
        return max(self.seconds / self._limit, self._turns / LOCKUP_TURNS)

    def blame(self, task: int, spent: float, seconds: float) -> bool:
        """Return True if the task that ran is to be killed now.

        The shares are taken in the second half of the limit. If the task that makes the
        request has a share of OWN_SHARE or more, it is to blame; else the task with the
        largest share, as the request may wait for it. Background tasks that merely run
        beside it have small shares.
        """
        shares = self._shares
        shares[task] = shares.get(task, 0.0) + seconds
        if spent < self._kill_at:
            return False
        most = max(shares, key=shares.__getitem__)
        if shares.get(self._task, 0.0) >= OWN_SHARE * sum(shares.values()):
            most = self._task
        return task == most

    def alone(self, task: int) -> bool:
        """Return True if hardly any other task runs, so that no other is to blame."""
        shares = self._shares
        return shares.get(task, 0.0) >= MOST * sum(shares.values())

    def was_killed(self, spent: float) -> None:
        """Start over after a kill: the next task is due after a grace."""
        self._kill_at = spent + self._grace
        self._grace = SHORT_GRACE
        self._shares.clear()

    def follow(self, nested: Patience) -> None:
        """Shorten the limit if a nested run within this request had to kill a task."""
        if nested._kill_at > 1:
            self._limit *= GRACE


def _is_added(address: int) -> bool:
    """Return True for the area of modules and of code that is made for probes."""
    return abi.MODULE_BASE <= address < AREA_END


class Sched:
    """The scheduler of the virtual CPUs."""

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
        printk: Callable[[int, str], None],
        in_module: Callable[[int], bool],
    ) -> None:
        """timer_entry: guest code of the timer interrupt.

        serve_control serves a CPU that stands at HC_API: see guest/running/control.py.
        panic_reason finds in the guest's log why it is dead, printk adds to it.
        in_module tells whether an address is in a module's text.
        """
        self._cpu = cpu
        self._ram = memory.ram
        self._translate = memory.translate
        self._traps = traps
        self._clock = clock
        self.nr_cpus = 0
        # stack pointers of the tasks that stand at HC_HOST_OP, by pid
        self.standing: dict[int, int] = {}
        self._serve_host_op: Callable[[int, int], None] = self._no_host_op
        self._on_exit: Callable[[int], None] = lambda _pid: None
        self.timer_entry = timer_entry
        self._serve_control = serve_control
        self._panic_reason = panic_reason
        self._in_module = in_module
        self._printk = printk
        self._watchdog = cpu.watchdog
        self.turns = 0
        # thread_time() (0: not asked yet) and turns, both at the last look
        self._since, self._mark = 0.0, 0
        self._began = 0.0  # monotonic() when the run began
        self.dead = ""  # why the kernel is dead
        self.on_death: Callable[[], None] = lambda: None
        self._pcpu: list[int] = []  # offset in RAM of each struct kpfs_pcpu
        self._resched_at: list[int] = []  # offset of its need_resched
        self._idle: list[bool] = []
        self._pending: list[list[int]] = []  # entries of interrupts to be delivered
        self._next = 0
        self._reason = 0
        self._host_op = 0  # the pid that came to HC_HOST_OP last
        self._quiescent: list[Callable[[], None]] = []
        hypercalls = cpu.hypercalls
        for reason in (abi.HC_IDLE, abi.HC_YIELD, abi.HC_PANIC, abi.HC_API):
            hypercalls[reason] = partial(self._end_turn, reason)
        hypercalls[abi.HC_HOST_OP] = self._hc_host_op
        hypercalls[abi.HC_EXIT] = lambda pid: self._on_exit(pid)
        hypercalls[abi.HC_CLOCK] = clock.asked

    def attach(
        self, serve_host_op: Callable[[int, int], None], on_exit: Callable[[int], None]
    ) -> None:
        """Set the callbacks of the part that makes requests.

        serve_host_op is called with the pid and the stack pointer of a task that stands
        at HC_HOST_OP, on_exit (in hit context) with the pid of a task that has ended.
        """
        self._serve_host_op, self._on_exit = serve_host_op, on_exit

    def start_cpu(self, number: int, pcpu: int, entry: int, argument: int) -> None:
        """Start a CPU at entry with argument in RDI; pcpu is a virtual address."""
        cpu = self._cpu
        cpu.switch(number)
        cpu.write_reg(REG_IP, entry)
        cpu.write_reg(REG_DI, argument)
        cpu.write_reg(REG_FLAGS, _X86_EFLAGS_FIXED)
        self._pcpu.append(self._translate(pcpu, abi.KpfsPcpu.SIZE))
        self._resched_at.append(self._pcpu[-1] + abi.KpfsPcpu.need_resched)
        self._idle.append(False)
        self._pending.append([])
        self.nr_cpus = len(self._pcpu)

    # ---- hypercalls (hit)
    def _no_host_op(self, pid: int, _sp: int) -> None:
        raise EmulatorError(f"no handler serves the files of the mount (pid {pid})")

    def _end_turn(self, reason: int, _value: int) -> None:
        self._reason = reason
        self._cpu.stop()

    def _hc_host_op(self, pid: int) -> None:
        self._host_op = pid
        self.standing[pid] = self._cpu.read_reg(REG_SP)
        self._end_turn(abi.HC_HOST_OP, pid)

    # ---- turns
    def interrupt(self, number: int, entry: int) -> None:
        """Deliver an interrupt as soon as that CPU allows it."""
        if entry not in self._pending[number]:
            self._pending[number].append(entry)

    def runnable(self, number: int) -> bool:
        """Return True if the CPU has anything to do."""
        if not self._idle[number] or self._pending[number]:
            return True
        return bool(_I32.unpack_from(self._ram, self._resched_at[number])[0])

    def is_idle(self, number: int) -> bool:
        """Return True if the CPU waits for an interrupt."""
        return self._idle[number]

    def all_idle(self) -> bool:
        ram = self._ram
        for idle, pending, at in zip(
            self._idle, self._pending, self._resched_at, strict=True
        ):
            if not idle or pending or _I32.unpack_from(ram, at)[0]:
                return False
        return True

    def turn(self, number: int) -> None:
        """Run one CPU until it stops by itself."""
        cpu, ram = self._cpu, self._ram
        if self.dead:
            raise GuestPanicError(self.dead)
        if number != cpu.active:
            cpu.switch(number)
        pending = self._pending[number]
        if pending and self._deliver(pending[0]):
            del pending[0]
        elif pending and self._idle[number]:
            raise self._died("an idle CPU does not take interrupts")
        self._idle[number] = False
        _I32.pack_into(ram, self._pcpu[number] + abi.KpfsPcpu.credit, CREDIT)
        if not self._clock.quiet:
            self._clock.now()
        self.turns += 1
        self._reason = 0
        try:
            cpu.run()
            reason = self._reason
            if not reason and not cpu.stopped:
                self._unexplained_stop()
        except (GuestPanicError, EmulatorError) as exc:
            raise self._died(exc) from exc
        if reason == abi.HC_IDLE:
            self._idle[number] = True
        elif reason == abi.HC_PANIC:
            raise self._died(self._panic_reason())

    def _deliver(self, entry: int) -> bool:
        """Interrupt the loaded CPU; return False if it takes no interrupt now."""
        cpu = self._cpu
        try:
            return cpu.interrupt(entry)
        except MemoryFault as exc:
            try:
                self._traps.no_room(exc.addr)
            except GuestPanicError as why:
                raise self._died(why) from why
            self._idle[cpu.active] = False
            return False

    def _died(self, why: object) -> GuestPanicError:
        """Mark the guest dead, log why once, and return the error to raise."""
        self.dead = reason = why.why if isinstance(why, GuestPanicError) else str(why)
        log.error("kernel panic: %s", reason)
        if not reason.startswith("Kernel panic"):  # else the guest has logged it
            self._printk(KERN_EMERG, f"Kernel panic - not syncing: {reason}")
        self.on_death()
        return GuestPanicError(reason)

    def _unexplained_stop(self) -> None:
        """Find out why the emulator left a run without a hypercall.

        Either the watchdog told it to, or the guest called address 0; else the guest is
        dead.
        """
        if self._watchdog.expired():
            self._reason = _STUCK
            return
        ip = self._cpu.read_reg(REG_IP)
        if ip:
            raise GuestPanicError(f"triple fault or halt at {ip:#x}")
        self._traps.null_call()

    def patience(self, task: int = 0) -> Patience:
        """Return the allowance of a request, made by the task at that address."""
        return Patience(self._watchdog.limit, task)

    def run(self, done: Callable[[], bool], patience: Patience | None = None) -> bool:
        """Take turns until done() holds after one; return False if all idle before.

        A task at HC_HOST_OP is served at once, before anything else runs.
        """
        patience = patience or self.patience()
        self._since, self._mark, self._began = 0.0, self.turns, monotonic()
        try:
            return self._take_turns(done, patience)
        finally:
            if self._since or monotonic() - self._began >= SHORT:
                self._account(patience)

    def _account(self, patience: Patience) -> tuple[float, float]:
        """Count what ran since the last time; return limits used in all, seconds now.

        Asking for the CPU time is a system call, so it is not asked before a run turns
        out to be no short one. Until then the host's clock must do.
        """
        now, turns = thread_time(), self.turns
        if self._since:
            seconds = max(now - self._since, 0.0)
        elif self._reason == _STUCK:
            seconds = self._watchdog.spent
        else:
            most = GUESS * self._watchdog.limit
            seconds = min(monotonic() - self._began, most)
        spent = patience.spend(seconds, turns - self._mark)
        self._since, self._mark = now, turns
        return spent, seconds

    def _take_turns(self, done: Callable[[], bool], patience: Patience) -> bool:
        """Take the turns of run(): choose a CPU, run it, account, act on its stop.

        Time is accounted every LOOK_TURNS, as that costs a system call, and each turn
        once half of the limit is used up. A turn that takes long is accounted at once.
        """
        look_at = self.turns + LOOK_TURNS
        short_until = self._began + SHORT
        while True:
            number = self._choose()
            if number < 0:
                return False
            self.turn(number)
            if self._reason == abi.HC_API:
                self._serve_control(number)
            if (
                self.turns >= look_at
                or self._reason == _STUCK
                or (not self._since and monotonic() >= short_until)
            ):
                look_at = self.turns + self._turns_to_look(patience)
            if self._reason == abi.HC_HOST_OP:
                if done():
                    return True
                self._host_op_turn(self._host_op, patience)
                short_until = self._began + SHORT
            elif self._reason == abi.HC_YIELD or self._idle[number]:
                self._pass_on(number)
            if done():
                return True

    def _choose(self) -> int:
        """Return the next CPU that has work; -1 if none has."""
        for _ in range(self.nr_cpus):
            number = self._next
            if self.runnable(number):
                return number
            self._next = (number + 1) % self.nr_cpus
        return -1

    def _turns_to_look(self, patience: Patience) -> int:
        """Account for the time; return how many turns may pass until the next time."""
        spent, seconds = self._account(patience)
        if spent <= 0.5:
            return LOOK_TURNS
        self._look(patience, spent, seconds)
        return 1

    def _pass_on(self, number: int) -> None:
        """Give the next turn to another CPU, since this one yields or idles."""
        self._next = (number + 1) % self.nr_cpus
        if self._reason == abi.HC_YIELD:  # a busy CPU gets its timer interrupts, too
            self._clock.step()
            self.expire()

    def _host_op_turn(self, pid: int, patience: Patience) -> None:
        """Serve an operation on a file of the mount, and count little of its time.

        The operation may run the guest, in the middle of this run.
        """
        timed, mark, turns = bool(self._since), self._mark, self.turns
        if timed:
            self._account(patience)
            mark = turns
        before = self._since
        self._serve_host_op(pid, self.standing.pop(pid))
        self._mark = mark + self.turns - turns  # nested turns are counted already
        if timed:
            self._since = max(before, thread_time() - HOST_OP_COST)
        else:
            self._since, self._began = 0.0, monotonic()

    def _look(self, patience: Patience, spent: float, seconds: float) -> None:
        """Kill the task to blame if it is due, or end a guest that is beyond help.

        Called after a turn of ``seconds`` in a guest that neither finishes nor idles. A
        task can be killed where it stopped by itself, but not at an operation on a file
        of the mount.
        """
        cpu = self._cpu
        at = self._pcpu[cpu.active] + abi.KpfsPcpu.current_task
        task = _U64.unpack_from(self._ram, at)[0]
        due = patience.blame(task, spent, seconds)
        stuck = self._reason == _STUCK
        if spent >= DEATH:
            ip, rounded = cpu.read_reg(REG_IP), round(patience.seconds)
            raise self._died(
                f"soft lockup: CPU {cpu.active} stuck for {rounded}s at {ip:#x}"
            )
        if stuck or (due and self._reason in (abi.HC_YIELD, abi.HC_API)):
            try:
                if not self._reach_module(at, task):
                    return
                if patience.alone(task) and not self._of_module(at):
                    ip = cpu.read_reg(REG_IP)
                    raise GuestPanicError(
                        f"soft lockup: CPU {cpu.active} waits in vain at {ip:#x}"
                    )
                patience.was_killed(spent)
                self._traps.lockup(round(patience.seconds))
            except (GuestPanicError, EmulatorError) as exc:
                raise self._died(exc) from exc

    def _reach_module(self, at: int, task: int) -> bool:
        """Run a task that is to be killed on to where it holds no kernel lock.

        That is in the text of a module, or where it can be preempted. If it does not
        come there soon, it is killed where it is. Return False if it has lost its CPU.
        """
        cpu, ram = self._cpu, self._ram
        for instructions in REACH:
            if self._may_end(at):
                return True
            self._reason = 0
            cpu.run(instructions)
            if self._reason == abi.HC_API:
                self._serve_control(cpu.active)
            elif self._reason == abi.HC_IDLE:
                self._idle[cpu.active] = True
                return False
            elif self._reason == abi.HC_PANIC:
                raise GuestPanicError(self._panic_reason())
            elif self._reason:
                return self._reason == abi.HC_YIELD
            if _U64.unpack_from(ram, at)[0] != task:
                return False
        return True

    def _may_end(self, at: int) -> bool:
        """Return True if the task holds no lock of the kernel where it stands."""
        cpu = self._cpu
        ip = cpu.read_reg(REG_IP)
        if not ip or self._in_module(ip):
            return True
        count = _I32.unpack_from(self._ram, at - _CURRENT_AT + _PREEMPT_AT)[0]
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

    def prefer(self, number: int) -> None:
        """Give this CPU the next turn."""
        self._next = number

    def run_until_idle(self, turns: int = 0, patience: Patience | None = None) -> bool:
        """Run until no CPU has work; with ``turns``, at most so many turns."""
        limit = self.turns + turns
        return not self.run(lambda: bool(turns) and self.turns >= limit, patience)

    # ---- time
    def next_deadline(self) -> int | None:
        """Return when a CPU first wants its timer interrupt; None: no CPU does."""
        ram, first = self._ram, NO_DEADLINE
        for at in self._pcpu:
            deadline: int = _U64.unpack_from(ram, at + abi.KpfsPcpu.next_deadline)[0]
            if deadline < first:
                first = deadline
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

        Then each task has gone to sleep by itself, so none was stopped or preempted
        within text. Kernel: call_rcu_tasks().
        """
        self._quiescent.append(func)

    def quiescence_wanted(self) -> bool:
        return bool(self._quiescent)

    def note_quiescence(self) -> None:
        """Run the waiting functions if every CPU is idle."""
        if self._quiescent and self.all_idle():
            waiting, self._quiescent = self._quiescent, []
            for func in waiting:
                func()
