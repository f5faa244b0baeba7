# SPDX-License-Identifier: GPL-2.0-or-later
"""A running guest: requests to its agent, and its time.

A request is a batch of system calls of one task, made in one turn.  What the guest
waits for comes with time: while nobody waits, time stands still, and the next request
finds it where the host's clock is.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from threading import get_ident
from time import monotonic_ns, thread_time
from typing import Any, NamedTuple

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.data_model import LITTLE_64, DataModel
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import MASK64
from kpfs.base.units import MAX_ERRNO
from kpfs.linux.arch.arch import Args
from kpfs.linux.board.board import Board
from kpfs.linux.board.call_stops import CallStops
from kpfs.linux.board.stops import ENDS, reason

AGENT = 0  # its slot
STOP, FINALLY = abi.OP_STOP, abi.OP_FINALLY  # flags of an operation
TURN_NS = abi.TURN_BLOCKS * abi.NS_PER_BLOCK  # ns of the guest's time, at least
# in one go: what Linux calls a soft lockup, though a tracer of all functions takes 10 s
MAX_TURNS = 20_000_000_000 // TURN_NS
# Of the host's processor time. Code may be slow: each block takes a look where due
# interrupts stay off, and a millisecond where it writes itself.
MAX_LOCKED_OUT = 30.0  # s with interrupts off while one is due
MAX_SECONDS = 300.0  # s in one go, with a debugger or watched memory
MIN_SECONDS = 40.0  # s in one go, where it is slower than SLOWNESS
SLOWNESS = 3.0  # s for one of the kernel's time
MAX_PAUSES = 10 * abi.NR_SLOTS  # in one go: a task that has done its work sleeps then
STEP_NS = 300_000_000  # longest pause of the host that is lived through tick by tick
_SLOT_HEAD, _SLOT_START, _RET = "3Q", "3Q16s2Q", "q"
_OP = "Q6Qq6sBB"
_NAME_MAX = 15
_I = abi.AgentSlot
# words of the region, and of struct board
_NEWS, _OTHERS = abi.AgentControl.news >> 3, abi.AgentControl.others >> 3
_NOW, _DEADLINE = abi.Board.now >> 3, abi.Board.deadline >> 3


class MachineDiedError(KernelError):
    """The guest is dead."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.ESHUTDOWN, why)


class ArgumentOffset(int):
    """The offset of an argument in a slot's data, with its size in bytes."""

    size: int

    def __new__(cls, at: int, size: int) -> ArgumentOffset:
        place = super().__new__(cls, at)
        place.size = size
        return place


class Out(NamedTuple):
    """Room for so many bytes that a system call writes."""

    size: int


class Result(NamedTuple):
    """The result of an earlier operation of the same request, plus a number."""

    op: int
    plus: int = 0


class SlotOffset(NamedTuple):
    """An offset in the slot's data: of what an earlier argument holds."""

    offset: int


Argument = int | bytes | Out | Result | SlotOffset


class Op(NamedTuple):
    """A system call by x86-64's number, or one of abi.AGENT_*."""

    nr: int
    args: tuple[Argument, ...] = ()
    flags: int = 0
    native: bool = False  # number and arguments are the kernel's own


def writing(path: str, text: str, flags: int = 0) -> list[Op]:
    """Return the calls by which a line is written to a file: open, write and close."""
    name, data = path.encode() + b"\0", f"{text}\n".encode()
    return [
        Op(nr.OPENAT, (nr.AT_FDCWD, name, os.O_WRONLY | flags, 0)),
        Op(nr.WRITE, (Result(0), data, len(data))),
        Op(nr.CLOSE, (Result(0),), FINALLY),
    ]


_LOOKS = frozenset(
    (nr.READ, nr.CLOSE, nr.LSEEK, nr.POLL, nr.STATX, nr.GETDENTS64, nr.READLINKAT)
)


def only_look(ops: Sequence[Op]) -> bool:
    """Return True if operations change neither a directory nor what the kernel does."""
    for number, args, _, _ in ops:  # a generator takes as long as the rest
        if number not in _LOOKS and (number != nr.OPENAT or not _opens_only(args[2])):
            return False
    return True


def _opens_only(flags: Argument) -> bool:
    return isinstance(flags, int) and not flags & (os.O_TRUNC | os.O_CREAT)


Native = Callable[[int, Args], tuple[int, Args]]


class Batch:
    """Operations as they lie in a slot, and their data."""

    def __init__(
        self,
        ops: Sequence[Op],
        memory: bytes = b"",
        native: Native | None = None,
        model: DataModel = LITTLE_64,
    ) -> None:
        """native, model: see LinuxArch."""
        pack = model.struct(_OP).pack
        self.data = bytearray(memory)
        self.size = len(memory)  # with the room that no data are written to
        self.places: list[ArgumentOffset] = []  # the arguments that are there, in order
        packed = []
        for number, args, flags, is_native in ops:
            if native is not None and not is_native and number < abi.AGENT_FORK:
                number, args = native(number, args)
            values, kinds = [0] * abi.NR_ARGS, b""  # what lacks is ARG_VALUE, 0
            for i, argument in enumerate(args):
                if isinstance(argument, int):
                    values[i] = argument & MASK64
                else:
                    values[i], kind = self._place(argument)
                    kinds = kinds.ljust(i, b"\0") + bytes((kind,))
            packed.append(pack(number, *values, 0, kinds, flags, 0))
        self.count = len(packed)
        self.ops = b"".join(packed)

    def _place(self, argument: bytes | Out | Result | SlotOffset) -> tuple[int, int]:
        """Return an argument's word and kind; what it points to goes to the data."""
        if isinstance(argument, Result):
            return argument.plus & MASK64, abi.ARG_RESULT + argument.op
        if isinstance(argument, SlotOffset):
            return argument.offset, abi.ARG_DATA
        at = self.size
        size = len(argument) if isinstance(argument, bytes) else argument.size
        self.places.append(ArgumentOffset(at, size))
        if isinstance(argument, bytes):
            self.data += bytes(at - len(self.data))  # the gap before it
            self.data += argument
        # what is in an Out is overwritten or not looked at
        self.size += size + -size % 8
        return at, abi.ARG_DATA


class Unrest:
    """The time in which a machine does not come to rest."""

    def __init__(self, machine: LinuxMachine) -> None:
        self._machine = machine
        self.end()

    def end(self) -> None:
        """Begin anew: it has come to rest."""
        self._turns, self._begin, self._began = 0, 0.0, 0

    def end_turn(self) -> None:
        """Count one more turn. Raises MachineDiedError when it is too long."""
        machine, seconds = self._machine, thread_time()
        self._begin = self._begin or seconds
        self._began = self._began or machine.now()
        self._turns += not machine.is_early()
        most = machine.most_seconds(machine.now() - self._began)
        if self._turns > MAX_TURNS + 1 or seconds - self._begin > most:
            raise machine.died(abi.STOP_TURN)


class LinuxMachine:
    """Context: the caller holds the kernel's lock."""

    def __init__(
        self,
        board: Board,
        *,
        quiet: bool = False,
        on_turn: Callable[[], None] = lambda: None,
    ) -> None:
        """quiet: time passes by what the guest executes, and when it waits.

        on_turn: called at the end of each turn, when a request has taken long.
        """
        self._model = board.arch.model
        self._slot_head = self._model.struct(_SLOT_HEAD)
        self._word = self._model.struct("Q")
        self._ret = self._model.struct(_RET)
        self._use(board)
        self.quiet = quiet
        self._native = board.arch.native if board.arch.translates else None
        self.dead = ""
        self.stops = CallStops(board)
        self._between_turns: Callable[[], None] | None = None
        self._on_turn = on_turn
        self._seqs = [0] * abi.NR_SLOTS
        self._busy: set[int] = set()  # slots whose request is not done yet
        self._current = AGENT
        self._ahead = board.get(abi.Board.now) - monotonic_ns()  # ns before the host
        self._locked_out = 0, 0, 0.0  # since which block, in which thread, and when

    def call_between_turns(self, call: Callable[[], None] | None) -> None:
        """Call this between turns, at an exact instruction, for a debugger; or None."""
        self._between_turns = call

    def state(self) -> tuple[Any, ...]:
        """Return what is known of a machine that stands still, but for its board."""
        return [*self._seqs], {*self._busy}, self._current, self.dead

    def set_state(self, state: tuple[Any, ...]) -> None:
        seqs, busy, self._current, self.dead = state
        self._seqs, self._busy = [*seqs], {*busy}

    def move(self, board: Board) -> None:
        """Go on with another board, which is in the same state."""
        self._use(board)
        self.stops.move(board)

    def _use(self, board: Board) -> None:
        self.board = board
        self.region = board.region
        self._words = memoryview(board.region).cast("B").cast("Q")

    def end_where(self, address_of: Callable[[str], int]) -> None:
        """Be dead as soon as the kernel restarts, halts or switches off its machine.

        There is nothing to restart by: boards differ in what kernels then try for how
        long. address_of: returns the address of a function, 0 if there is none.
        """
        ends = {address_of(name): why for name, why in ENDS.items()}

        def end(at: int) -> None:
            self.board.set(asked_at=0)  # ask again if it goes on from an earlier state
            self.dead = ends[at]
            raise MachineDiedError(self.dead)

        self.stops.set(end, [(at, abi.NEVER) for at in ends if at])

    # ---- requests
    def clear(self, slot: int, name: bytes, uid: int, gid: int) -> None:
        """Prepare a slot for a task that will be forked onto it."""
        base = abi.SLOTS_AT + slot * abi.SLOT_SIZE
        head = self._model.struct(_SLOT_START).pack(0, 0, 0, name[:_NAME_MAX], uid, gid)
        self.region[base : base + len(head)] = head
        self._seqs[slot] = 0

    def adopt(self) -> None:
        """Take the slots as they lie in the region, with what is asked there."""
        for slot in range(abi.NR_SLOTS):
            base = abi.SLOTS_AT + slot * abi.SLOT_SIZE
            seq, done, _ = self._slot_head.unpack_from(self.region, base)
            self._seqs[slot] = seq
            if done != seq:
                self._busy.add(slot)

    def forget(self, slot: int) -> None:
        """Expect no answer of a slot, whose task is gone."""
        self._busy.discard(slot)

    def start(
        self, slot: int, ops: Sequence[Op], memory: bytes = b""
    ) -> list[ArgumentOffset]:
        """Begin a request of a task; return where its data are.

        memory: what its data begin with, for a SlotOffset.
        """
        batch = self.batch(ops, memory)
        if batch.data:
            self.memory(slot)[: len(batch.data)] = batch.data
        self.begin(slot, batch.ops, batch.count)
        return batch.places

    def batch(self, ops: Sequence[Op], memory: bytes = b"") -> Batch:
        """Return operations as the kernel's architecture has them."""
        return Batch(ops, memory, self._native, self._model)

    def begin(self, slot: int, ops: bytes, count: int) -> None:
        """Begin a request of a task with a Batch, whose data are in place."""
        base = abi.SLOTS_AT + slot * abi.SLOT_SIZE
        region = self.region
        at = base + _I.ops
        region[at : at + len(ops)] = ops
        seq = self._seqs[slot] = self._seqs[slot] + 1 & MASK64
        self._slot_head.pack_into(region, base, seq, seq - 1 & MASK64, count)
        if slot == AGENT or slot != self._current:
            self.give_way()
        if slot and slot != self._current:
            at = abi.AgentControl.wake + slot // 64 * 8
            self._set_control(at, self._control(at) | 1 << slot % 64)
        self._words[_NEWS] = 1
        self._busy.add(slot)

    def current(self) -> int:
        """Return the slot whose task stands at its pause, AGENT if none does."""
        return self._current

    def _control(self, at: int) -> int:
        found: int = self._word.unpack_from(self.region, at)[0]
        return found

    def _set_control(self, at: int, value: int) -> None:
        self._word.pack_into(self.region, at, value)

    def give_way(self) -> None:
        """Make the task at its pause sleep when the machine goes on."""
        self.board.set(call_agent=1)
        if self._current:
            self._set_control(abi.AgentControl.give_way, 1)
            self._current = AGENT

    def others_run(self) -> None:
        """Let the agent run all other tasks before it comes to its pause."""
        self._set_control(abi.AgentControl.others, 1)

    def set_waker(self, slot: int) -> None:
        """Let the task of a slot wake the others, which is to run again and again."""
        self._set_control(abi.AgentControl.waker, slot)

    def memory(self, slot: int) -> memoryview:
        """Return the slot's data, not a copy."""
        at = abi.SLOTS_AT + slot * abi.SLOT_SIZE + abi.SLOT_DATA
        return memoryview(self.region)[at : at + abi.DATA_SIZE]

    def address(self, slot: int, offset: int) -> int:
        """Return the task's address of a place in its slot's data."""
        base = self.board.arch.region_base + abi.SLOTS_AT + slot * abi.SLOT_SIZE
        return base + abi.SLOT_DATA + offset

    def has_done(self, slot: int) -> bool:
        at = abi.SLOTS_AT + slot * abi.SLOT_SIZE + _I.done
        done = self._control(at) == self._seqs[slot]
        if done:
            self._busy.discard(slot)
        return done

    def results(self, slot: int, count: int) -> list[int]:
        """Return the results of the first operations of the last request.

        The kernel may have any number there.  None is an error that no kernel has.
        """
        found = self.values(slot, count)
        if min(found, default=0) < -MAX_ERRNO:
            return [-errno.EIO if value < -MAX_ERRNO else value for value in found]
        return found

    def values(self, slot: int, count: int) -> list[int]:
        """Return results() as they are, as of calls that return addresses."""
        at = abi.SLOTS_AT + slot * abi.SLOT_SIZE + _I.ops + abi.AgentOp.ret
        unpack = self._ret.unpack_from
        return [
            unpack(self.region, at + number * abi.AgentOp.SIZE)[0]
            for number in range(count)
        ]

    def data(self, slot: int, offset: int, size: int) -> bytes:
        """Return bytes of a slot's data.  EIO: there are not so many."""
        if not 0 <= size <= abi.DATA_SIZE - offset:
            raise KernelError(errno.EIO, f"the guest has written {size} bytes")
        return bytes(self.memory(slot)[offset : offset + size])

    # ---- running
    def step(self) -> int:
        """Run until the host is to do something: one of abi.STOP_*."""
        while (why := self.board.run()) == abi.STOP_CALL:
            self.stops.answer()
        if self._between_turns is not None:
            self._between_turns()
        if why == abi.STOP_PAUSE:
            self._current = self.board.get(abi.Board.who)
            return why
        self._current = AGENT
        if why == abi.STOP_TURN and self._is_locked_out():
            return abi.STOP_LOCKUP
        return why

    def run(self, slot: int) -> bool:
        """Run until the task has done what it was asked for; False: it waits."""
        busy = self._busy
        self._words[_OTHERS] = len(busy) - (AGENT in busy)
        why = self.step()
        if why == abi.STOP_PAUSE and self.has_done(slot):
            return True  # as nearly always
        for at_pause in self._stops(why):
            if at_pause and self.has_done(slot):
                return True
            if at_pause and not self.current():
                break
            if at_pause:
                self.give_way()  # it is another task
        return False

    def settle(self, until: int) -> None:
        """Run until nothing can run before time passes, but not much beyond a moment.

        A task that never rests, as some tracers' threads, would hold all others up.
        """
        self.give_way()
        for at_pause in self._stops():
            if not (self.current() if at_pause else self.now() < until):
                return
            if at_pause:
                self.give_way()

    def _stops(self, why: int | None = None) -> Iterator[bool]:
        """Run, and yield True at each pause of a task, False at the end of a turn.

        why: of the first step, if that has been run.
        """
        pauses, unrest = 0, Unrest(self)
        while True:
            if why is None:
                why = self.step()
            if why == abi.STOP_PAUSE:
                pauses += 1
            elif why != abi.STOP_TURN:
                raise self.died(why)
            else:
                unrest.end_turn()
                self._on_turn()
            if pauses > MAX_PAUSES:
                raise self.died(abi.STOP_TURN)
            if why == abi.STOP_PAUSE or not self.is_early():
                yield why == abi.STOP_PAUSE
            why = None

    def in_kernel(self) -> bool:
        """Return True if the kernel's code is being executed, by its address."""
        return self.board.arch.in_kernel(self.board)

    def most_seconds(self, ns: int) -> float:
        """Return the processor time that a kernel may take for that much of its own."""
        board = self.board
        if board.stops is not None or board.counter.hooks_need_no_pc:
            return MAX_SECONDS
        return min(MIN_SECONDS + SLOWNESS * ns / 1e9, MAX_SECONDS)

    def _is_locked_out(self) -> bool:
        """Return True if an interrupt has been due for too long, by processor time.

        The board counts blocks, which may be slow.
        """
        board = self.board
        since = board.get_cpu(board.get(abi.Board.current), abi.Cpu.late)
        now, known = (since, get_ident()), self._locked_out
        if not since or now != known[:2]:
            self._locked_out = *now, thread_time()
            return False
        return thread_time() - known[2] > MAX_LOCKED_OUT

    def is_early(self) -> bool:
        """Return True if the turn ended by the host's clock."""
        return self.board.blocks < self.board.get(abi.Board.host_turn)

    def died(self, why: int) -> MachineDiedError:
        """Return the error for a machine that has stopped so."""
        self.dead = reason(self.board, why)
        return MachineDiedError(self.dead)

    # ---- time, in ns of the guest's clock
    def now(self) -> int:
        return self.board.get(abi.Board.now)

    def skip(self, ns: int) -> None:
        """Set the kernel's clock forward by that many ns at once, and let it go on."""
        now = self.board.get(abi.Board.now) + ns
        self.board.set(now=now)
        self._ahead = now - monotonic_ns()

    def live_through(self, ns: int) -> None:
        """Let that many ns pass tick by tick, so that jiffies count them.

        skip() can make one tick of them. Then the clock goes on.
        """
        board, now = self.board, abi.Board.now
        end = board.get(now) + ns
        while board.get(now) < end:
            self.advance(min(board.get(now) + STEP_NS, end))
        self.skip(0)

    def host_now(self) -> int:
        """Return the time of a kernel's clock that follows the host's."""
        return monotonic_ns() + self._ahead

    def wait_from_here(self, lead: int = 0) -> None:
        """Let the clock of waiting tasks lead by lead ns at most.

        It is ahead of the host's after what was executed fast, and of waits that were
        shortened: a waiting request does not wait until the host has caught up.
        """
        begin = self.now() - lead
        if self.host_now() < begin:
            self._ahead = begin - monotonic_ns()

    def deadline(self) -> int:
        """Return when the first of the timers is due; abi.NEVER."""
        return self.board.get(abi.Board.deadline)

    def advance(self, until: int, done: Callable[[], bool] = lambda: False) -> None:
        """Let time pass up to a moment or until done, timer by timer.

        If that is long, only its end is lived through so, and the rest at once.
        """
        board = self.board
        first = max(board.get(abi.Board.now), until - STEP_NS)
        board.set(now=first)
        while (due := self.deadline()) <= until:
            if due > board.get(abi.Board.now):
                board.set(now=due)
            self.settle(until)
            if done():
                return
        if until > board.get(abi.Board.now):
            board.set(now=until)

    def catch_up(self) -> None:
        """Advance the kernel's clock to the host's."""
        if self.quiet:
            return
        words, now = self.board.words, self.host_now()
        if now <= words[_NOW]:
            return  # it has executed for longer than the host, or somebody waited
        if words[_DEADLINE] <= now:
            self.advance(now)
        else:
            words[_NOW] = now

    def close(self) -> None:
        self._words.release()
        self.board.close()

    def stats(self) -> dict[str, int]:
        """Counters of the board."""
        names = "syscalls", "exceptions", "interrupts", "halts", "flushes"
        counts = {name: self.board.get(getattr(abi.Board, name)) for name in names}
        return {"blocks": self.board.blocks, **counts}


class Reply:
    """The results of a request's operations, and what they wrote."""

    def __init__(
        self, machine: LinuxMachine, slot: int, places: list[ArgumentOffset], count: int
    ):
        self.results = machine.results(slot, count)
        self._machine = machine
        self._slot = slot
        self._places = places

    @property
    def model(self) -> DataModel:
        """The data model of what the kernel has written."""
        return self._machine.board.arch.model

    def out(self, number: int, size: int) -> bytes:
        """Return size bytes of the number-th argument that lies in memory.

        EIO: there is less room, so the guest cannot have written so many.
        """
        place = self._places[number]
        if size > place.size:
            raise KernelError(errno.EIO, f"{size} bytes in a room of {place.size}")
        return self._machine.data(self._slot, place, size)

    def taken(self, number: int, size: int) -> int:
        """Return the result of an operation that takes size bytes at most; or EIO."""
        result = self.results[number]
        return result if result <= size else -errno.EIO

    def value(self, number: int) -> int:
        """Return what a call returned that has any value, as a function's."""
        return self._machine.values(self._slot, number + 1)[number]
