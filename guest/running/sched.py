# SPDX-License-Identifier: GPL-2.0-or-later
"""The scheduler of virtual CPUs: run each in turn, and end what keeps one for good.

One emulator stands for all CPUs, so one of them runs at a time. The simple way would be
to switch after so many instructions, but the emulator is six times slower while it
counts them. So the guest gives up its turn itself, by a hypercall: when it idles
(HC_IDLE), spins or has used up its credit (HC_YIELD), comes to a file of the mount
(HC_HOST_OP), asks Python for something (HC_API), or dies (HC_PANIC).

A request of the host is a task that is runnable. Simply to run the guest until that
request is done, with the kernel's lock held, lets one busy task stop all others: those
who want to make requests of their own wait for the lock. So a thread that runs the
guest for long steps aside every ASIDE_TURNS turns. The thread that waits puts its
request into a task of its own and runs all CPUs, the busy one's too, until that request
is done. Whoever runs the guest thus runs everybody's tasks. A request that is short
never comes to the point where its thread steps aside, so it costs nothing more.

A task may be busy for as long as it likes, then, unless it holds its CPU against all
others: lockups.py ends that.

Invariants: A turn ends at a hypercall or after a number of blocks, unless the watchdog
had to end it, so the same operations in the same order run the same instructions. Time
is measured only to find lock-ups: it never decides which CPU runs next. A task at
HC_HOST_OP is served before any other CPU runs. Serving it may call run() again, in the
middle of the outer one, and nobody steps aside in there. A task that stands where an
outer run() waits for it to come stays there until that goes on. After a panic nothing
runs any more.

Context: control, but for the hypercalls, which are hit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from time import sleep, thread_time

from kpfs.base import abi
from kpfs.base.errors import MemoryFault
from kpfs.base.log import Log
from kpfs.base.x86 import X86_EFLAGS_FIXED
from kpfs.emulator.libunicorn import EmulatorError
from kpfs.guest.emu.cpu import Cpu
from kpfs.guest.emu.cpu_registers import REG_DI, REG_FLAGS, REG_IP, REG_SP
from kpfs.guest.emu.idle_turn import IdleTurn, TurnWords
from kpfs.guest.emu.memory import Memory
from kpfs.guest.emu.traps import GuestPanicError, Traps
from kpfs.guest.running.clock import Clock
from kpfs.guest.running.cpu_states import CpuStates
from kpfs.guest.running.lockups import Lockups

log = Log(__name__)

CREDIT = 256  # polls by the guest after which its turn ends
ASIDE_TURNS = 32  # turns of a run before its thread lets others have the lock
LONG_TURN = 16  # turns that one counts for which ended by its blocks
PASS_TURNS = 64  # turns of a CPU without a yield, before the next one runs
KERN_EMERG = 0
_ENDS = abi.HC_IDLE, abi.HC_YIELD, abi.HC_PANIC, abi.HC_API, abi.HC_HOST_OP
REFUSED = abi.IDLE_TURN_REFUSED
_STUCK = -1  # reason of a turn's end: the watchdog stopped it
_I32 = struct.Struct("<i")


class Sched:
    """The scheduler of the virtual CPUs."""

    def __init__(
        self,
        cpu: Cpu,
        memory: Memory,
        cpus: CpuStates,
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
        self._ram, self._ram_at = memory.ram, memory.host_address()
        self._traps = traps
        self._clock = clock
        # shared lists: what each CPU does
        self._cpus, self._idle, self._pending = cpus, cpus.idle, cpus.pending
        self.lockups = Lockups(
            cpu,
            memory,
            cpus,
            traps,
            serve_control=serve_control,
            panic_reason=panic_reason,
            in_module=in_module,
        )
        # stack pointers of the tasks that stand at HC_HOST_OP, by pid
        self.standing: dict[int, int] = {}
        self._serve_host_op: Callable[[int, int], None] = self._no_host_op
        self._on_exit: Callable[[int], None] = lambda _pid: None
        self.timer_entry = timer_entry
        self._serve_control = serve_control
        self._panic_reason = panic_reason
        self._printk = printk
        self._watchdog = cpu.watchdog
        self.turns = 0
        # lets threads that wait run the guest, and sleeps so many seconds
        self.step_aside: Callable[[float], None] = sleep
        self._between_turns: Callable[[], None] | None = None
        # where a nested request is done: stack pointer by pid
        self._awaited: dict[int, int] = {}
        self._parked: dict[int, int] = {}  # CPUs whose task, a pid, stands there
        self._pass_at = 0  # the turn after which the next CPU runs in any case
        self.dead = ""  # why the kernel is dead
        self._on_death: Callable[[], None] = lambda: None
        self._idle_turns: list[IdleTurn | None] = []
        self._words = TurnWords([])
        # the last turn has left all CPUs idle, and what watch() watches as it was
        self.still = False
        self._begun: IdleTurn | None = None  # the turn that run() is to go on with
        self._next = 0
        self._reason = 0
        self._host_op = 0  # the pid that came to HC_HOST_OP last
        hypercalls = cpu.hypercalls
        for reason in _ENDS:
            cpu.ends(reason)
        hypercalls[abi.HC_EXIT] = lambda pid: self._on_exit(pid)
        hypercalls[abi.HC_CLOCK] = clock.asked
        cpu.fast.keep_clock(*clock.word(memory.host_address()))

    def attach(
        self, serve_host_op: Callable[[int, int], None], on_exit: Callable[[int], None]
    ) -> None:
        """Set the callbacks of the part that makes requests.

        serve_host_op is called with the pid and the stack pointer of a task that stands
        at HC_HOST_OP, on_exit (in hit context) with the pid of a task that has ended.
        """
        self._serve_host_op, self._on_exit = serve_host_op, on_exit

    def share(
        self, step_aside: Callable[[float], None], on_death: Callable[[], None]
    ) -> None:
        """Let other threads run the guest, by step_aside(seconds) in the middle of it.

        on_death: called when the kernel has died.
        """
        self.step_aside, self._on_death = step_aside, on_death

    def call_between_turns(self, call: Callable[[], None] | None) -> None:
        """Call this between turns, at an exact instruction, for a debugger; or None."""
        self._between_turns = call

    def start_cpu(self, number: int, pcpu: int, entry: int, argument: int) -> None:
        """Start a CPU at entry with argument in RDI; pcpu is a virtual address."""
        cpu = self._cpu
        cpu.switch(number)
        cpu.write_reg(REG_IP, entry)
        cpu.write_reg(REG_DI, argument)
        cpu.write_reg(REG_FLAGS, X86_EFLAGS_FIXED)
        self._cpus.add(pcpu)
        self.lockups.add_cpu()
        self._idle_turns.append(None)

    def _no_host_op(self, pid: int, _sp: int) -> None:
        raise EmulatorError(f"no handler serves the files of the mount (pid {pid})")

    # ---- turns
    def runnable(self, number: int) -> bool:
        """Return True if the CPU has anything to do, and nobody waits for its task."""
        return number not in self._parked and self._cpus.runnable(number)

    def begin(
        self, number: int, entry: int, wakeups: int, task: int, request: int
    ) -> int:
        """Wake a task by an interrupt of an idle CPU, in C; return IDLE_TURN_...

        entry: of the interrupt.  wakeups: struct kpfs_wakeups of the CPU, request: that
        of the task, in the host's memory.  task: its address.
        If the turn has begun, run() is to go on with it.  A task that comes to
        HC_HOST_OP is served; IDLE_TURN_HOST_OP: run() is to go on behind that.
        """
        if (
            not self._idle[number]
            or self._pending[number]
            or self.lockups.some
            or self._parked
            or self._between_turns is not None
        ):
            return REFUSED
        cpu = self._cpu
        if number != cpu.active:
            cpu.switch(number)
        turn = self._idle_turns[number]
        if turn is None:
            credit = self._ram_at + self._cpus.pcpu[number] + abi.KpfsPcpu.credit
            turn = cpu.idle_turn(
                entry=entry,
                wakeups=wakeups,
                credit=credit,
                turn_credit=CREDIT,
                words=self._words.address,
            )
            if turn is None:
                return REFUSED
            self._idle_turns[number] = turn
        state = turn.run(task, request) if cpu.may_begin() else REFUSED
        if state == REFUSED:
            self._idle_turns[number] = None
            return state
        timers = self._clock.timers
        if state == abi.IDLE_TURN_HOST_OP:
            state = self._go_on_with(turn, number, request)
        if state == abi.IDLE_TURN_BEGUN:
            self._begun = turn
        elif state != abi.IDLE_TURN_HOST_OP:
            self.turns += 1
            self._idle[number] = True
            self._next = (number + 1) % len(self._idle)
            self.still = (
                state == abi.IDLE_TURN_STILL
                and timers == self._clock.timers
                and self._cpus.is_only(number)
            )
        return state

    def _go_on_with(self, turn: IdleTurn, number: int, request: int) -> int:
        """Serve a task that has come to HC_HOST_OP in an idle turn, and go on in C.

        Return as begin() does.
        """
        cpu, turns, aside_at = self._cpu, self.turns, self.turns + ASIDE_TURNS
        state = abi.IDLE_TURN_HOST_OP
        self.still = self._idle[number] = False
        while state == abi.IDLE_TURN_HOST_OP:
            self.turns += 1
            turns += 1
            self._serve_host_op(cpu.value, cpu.read_reg(REG_SP))
            if (
                self.turns != turns  # something else has run meanwhile,
                or not self._cpus.is_only(number)  # or is to run now
                or cpu.active != number
                or turns >= aside_at
                or not cpu.may_begin()
            ):
                break
            state = turn.go_on(request)
        return state

    def watch(self, *offsets: int) -> None:
        """Have 64-bit words of the RAM count for ``still``, beside those of the CPUs.

        Context: all CPUs have been started, no request has been made.
        """
        deadlines = [at + abi.KpfsPcpu.next_deadline for at in self._cpus.pcpu]
        halves = [at + half for at in (*offsets, *deadlines) for half in (0, 4)]
        watched = halves + self._cpus.resched_at
        self._words = TurnWords([self._ram_at + at for at in watched])

    def note_words(self) -> None:
        """Note that nothing is left to be done of what has made a run not ``still``."""
        self._words.note()

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
        # not always after as many polls: they are not always at the same place, then,
        # in a loop that holds the CPU for a part of it only
        credit = CREDIT
        if self.lockups.some:
            credit -= self.lockups.turns(number) & 7
        _I32.pack_into(ram, self._cpus.pcpu[number] + abi.KpfsPcpu.credit, credit)
        if not self._clock.quiet:
            self._clock.now()
        self._run_turn(number, cpu.run)

    def _run_turn(self, number: int, run: Callable[[], None]) -> None:
        cpu = self._cpu
        self.turns += 1
        self.still = False
        try:
            run()
            reason = self._reason = cpu.ended
            if cpu.ran_out:
                self.turns += LONG_TURN - 1
                self._reason = abi.HC_YIELD
            elif not reason and not cpu.stopped:
                self._unexplained_stop()
        except (GuestPanicError, EmulatorError) as exc:
            raise self._died(exc) from exc
        if reason == abi.HC_IDLE:
            self._idle[number] = True
        elif reason == abi.HC_HOST_OP:
            self._host_op = cpu.value
            self.standing[cpu.value] = cpu.read_reg(REG_SP)
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
        self._on_death()
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

    def run(
        self, done: Callable[[], bool], gives_up: Callable[[], bool] | None = None
    ) -> bool:
        """Take turns until done() holds after one; return False if all idle before.

        A task at HC_HOST_OP is served at once, before anything else runs.
        A turn that begin() has begun is the first one.
        gives_up: called every ASIDE_TURNS turns, to step aside; True ends the run.
        """
        self._pass_at = self.turns + PASS_TURNS
        aside_at = self.turns + ASIDE_TURNS
        begun, self._begun = self._begun, None
        while True:
            number = self._choose() if begun is None else self._cpu.active
            if number < 0:
                return False
            began = thread_time() if self.lockups.some else 0.0
            if begun is None:
                self.turn(number)
            else:
                self._idle[number] = False
                self._run_turn(number, partial(self._cpu.end_begun, begun))
                begun = None
            if self._between_turns is not None:
                self._between_turns()
            if self._reason == abi.HC_HOST_OP:
                if done():
                    return True
                self._at_host_op(number)
            elif began or not self._idle[number]:
                self._after_turn(number, began)
            else:
                self._next = (number + 1) % len(self._idle)
            if done():
                return True
            if gives_up is not None and self.turns >= aside_at:
                if gives_up():
                    return False
                if done():
                    return True
                aside_at = self.turns + ASIDE_TURNS

    def _at_host_op(self, number: int) -> None:
        """Serve a task that has come to HC_HOST_OP, or leave it standing there."""
        pid = self._host_op
        if self._awaited.get(pid) == self.standing[pid]:
            self._parked[number] = pid
        else:
            self._serve_host_op(pid, self.standing.pop(pid))

    def _after_turn(self, number: int, began: float) -> None:
        """Serve a control call, choose who is next, and look whether the CPU is held.

        The timer of a busy CPU expires here. began: thread_time() before the turn if
        some CPU was held then, else 0.
        """
        if self._reason == abi.HC_API:
            self._serve_control(number)
            if self.turns < self._pass_at and not self.lockups.turns(number):
                return
        self._next = (number + 1) % len(self._idle)
        self._pass_at = self.turns + PASS_TURNS
        if self._idle[number]:
            self.lockups.let_go(number)
            return
        self._clock.step()
        self.expire()
        lockups, stuck = self.lockups, self._reason == _STUCK
        if not stuck and not lockups.held_by(number, self._reason):
            lockups.let_go(number)
            return
        if stuck:
            seconds = self._watchdog.spent
        else:
            seconds = thread_time() - began if began else 0.0
        try:
            lockups.charge(number, seconds, stuck=stuck)
        except (GuestPanicError, EmulatorError) as exc:
            raise self._died(exc) from exc

    def _choose(self) -> int:
        """Return the next CPU that has work; -1 if none has."""
        for _ in range(len(self._idle)):
            number = self._next
            if self.runnable(number):
                return number
            self._next = (number + 1) % len(self._idle)
        return -1

    def prefer(self, number: int) -> None:
        """Give this CPU the next turn."""
        self._next = number

    def run_until_idle(self, turns: int = 0) -> bool:
        """Run until no CPU has work; with ``turns``, at most so many turns."""
        limit = self.turns + turns
        return not self.run(lambda: bool(turns) and self.turns >= limit)

    # ---- requests in the middle of others
    def await_standing(self, pid: int, sp: int) -> int | None:
        """Leave this task standing when it comes to HC_HOST_OP with that stack pointer.

        Return what was awaited before, for resume().
        """
        before = self._awaited.get(pid)
        self._awaited[pid] = sp
        return before

    def resume(self, pid: int, before: int | None) -> None:
        """Let the task go on when it is next chosen; it has been waited for."""
        if before is None:
            del self._awaited[pid]
        else:
            self._awaited[pid] = before
        for number in [n for n, parked in self._parked.items() if parked == pid]:
            del self._parked[number]

    # ---- time
    def expire(self) -> None:
        """Make the timer interrupt pending on the CPUs whose deadline has come."""
        self._cpus.expire(self._clock.now(), self.timer_entry)
