# SPDX-License-Identifier: GPL-2.0-or-later
"""A real kernel that runs: machine, tasks, the lock, and the time that passes."""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from kpfs.base import mapping
from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError, MemoryFault, SetupError
from kpfs.base.ktypes import Caller
from kpfs.base.lock import FairLock
from kpfs.base.log import Log
from kpfs.base.skip_policy import SkipPolicy
from kpfs.base.units import NSEC
from kpfs.linux.board.board import Board
from kpfs.linux.errors import UnfitError
from kpfs.linux.memory import dmesg
from kpfs.linux.memory.memory import LiveMemory
from kpfs.linux.memory.modules import LoadedModule, loaded_modules
from kpfs.linux.running.directories import Directories
from kpfs.linux.running.machine import (
    ArgumentOffset,
    LinuxMachine,
    MachineDiedError,
    Op,
    Out,
    only_look,
)
from kpfs.linux.running.ready import ReadyTexts, open_texts
from kpfs.linux.running.saved_kernel import SavedKernel
from kpfs.linux.running.tasks import AgentTask, Reply, Tasks
from kpfs.linux.running.watched import ChangedText, LinuxWatch
from kpfs.linux.store import image, store

if TYPE_CHECKING:
    from kpfs.linux.memory.vmlinux import Vmlinux

log = Log(__name__)

QUIET_STEP_NS = 4_000_000
LOOK = 0.5  # s between looks whether they still live
MIN_SLEEP, MAX_SLEEP = 0.004, 1.0  # s between looks for waiting requests
LONG_WAIT, REST = 1.0, 0.02  # s without any news, after which so long at least
READ_SIZE = 128 << 10
MAX_FILE = 64 << 20  # bytes of what kpfs reads for itself
LAST_LINES = 10  # of a dead guest's log that are said
FIRST = [5, 6]  # Linux whose tasks can stand for callers
MakeTask = Callable[[Caller, str], AgentTask]  # given the caller's name


class LinuxKernel:
    """The composition root for a kernel of a distribution.

    ``lock`` is held, once, for whatever touches what is below.
    """

    def __init__(
        self,
        name: str,
        *,
        quiet: bool = False,
        callers: bool = True,
    ) -> None:
        """name: of a kernel that was made; UnfitError where there is none.

        callers: False if only the agent makes calls, which kernels before 5.6 allow.
        """
        saved = SavedKernel(store.folder(name))
        if callers:
            check_callers(saved.meta.release)
        self.folder, self.meta, self.arch = saved.folder, saved.meta, saved.arch
        self.symbols, self.structures = saved.symbols, saved.structures
        self.saved_memory, self._saved = saved.memory, saved
        self.lock = FairLock()
        self._quiet = quiet
        self._texts = open_texts(self.folder)
        self._followers: list[Callable[[], None]] = []
        self._board_followers: list[Callable[[Board], None]] = []
        self._ticker: threading.Thread | None = None
        self._stopped = False
        self._on_wake: Callable[[], None] | None = None
        self.directories: Directories | None = None  # once somebody follows them
        self.watch = LinuxWatch(self.lock)
        self.skip_policy = SkipPolicy(self.watch, self.lock)
        self._make_task: MakeTask | None = None
        self._somebody_waits = threading.Event()
        self._start_machine()

    def _start_machine(self) -> None:
        """Make a machine that goes on from the image, without tasks of callers."""
        board = image.load(self._saved.file, self.meta)
        self.machine = LinuxMachine(board, quiet=self._quiet)
        self.machine.on_turn = self.lock.hand_on
        self._next_look = self._last_news = 0.0
        self.watch.always = False
        self._look_at(board)
        self.tasks = Tasks(self.machine, self.lock)
        if self._make_task is not None:
            self.tasks.create = self._make_task
        self.tasks.on_wait = self._somebody_waits.set
        self.tasks.last_words = self._last_words

    @property
    def vmlinux(self) -> Vmlinux:
        """The kernel's ELF file.  Context: any."""
        return self._saved.vmlinux

    def read_saved(self, at: int, size: int) -> bytes:
        """Return bytes of the image's memory by physical address.  Context: any."""
        return os.pread(self._saved.file.fileno(), size, at)

    def make_tasks_by(self, make: MakeTask) -> None:
        """Make tasks of new callers by this function.  Context: lock held."""
        self._make_task = self.tasks.create = make

    # ---- reboot
    def follow(self, follower: Callable[[], None]) -> None:
        """Call a function, under the lock, whenever another machine takes over."""
        self._followers.append(follower)

    def follow_boards(self, follower: Callable[[Board], None]) -> None:
        """Call a function, under the lock, with each board that takes over.

        That is at a reboot, and twice at a restore: before its memory is there, too.
        """
        self._board_followers.append(follower)

    def on_board(self, board: Board) -> None:
        """Tell those that follow of a board.  Context: lock held."""
        for follower in self._board_followers:
            follower(board)

    def reboot(self) -> None:
        """Start from the image again; what was open before answers ESHUTDOWN.

        ENOMEM: there is no room for another machine, and nothing has changed.
        Context: lock held.
        """
        machine, tasks = self.machine, self.tasks
        try:
            self._start_machine()
        except (OSError, MemoryError, SetupError) as error:
            raise KernelError(errno.ENOMEM, f"no second machine: {error}") from error
        log.info("reboot")
        machine.dead = machine.dead or "the guest was rebooted"
        tasks.stop()
        machine.close()
        if self.directories is not None:
            self.directories.on_change()
            self.follow_directories(self.directories.on_change)
        for follower in self._followers:
            follower()

    # ---- the kernel's log
    def dmesg(self) -> list[dmesg.LogLine]:
        """Return the kernel's log, also of a dead one.  Context: lock held."""
        return dmesg.read_log(self.memory, self.symbols)

    def _last_words(self) -> list[str]:
        return [record.shown() for record in self.dmesg()[-LAST_LINES:]]

    def another_board(self, board_fields: dict[str, Any]) -> Board:
        """Go on with another board, in the state of board_fields.

        board_fields: see kpfs.linux.store.image.board_fields().  Context: lock held.
        """
        meta = image.with_board_fields(self.meta, board_fields)
        board = image.load(self._saved.file, meta)
        old = self.machine.board
        self.machine.move(board)
        self._look_at(board)
        old.close()
        if self.directories is not None:
            self.directories.on_change()
            self.follow_directories(self.directories.on_change)
        return board

    def _look_at(self, board: Board) -> None:
        """Read the machine's memory from this board from now on."""
        self.memory = LiveMemory(board)
        saved = self._saved.file.fileno()
        self.watch.enter(
            lambda: ChangedText(board, saved, self.saved_memory, self.symbols)
        )
        memories = self.saved_memory, self.memory
        self.ready = ReadyTexts(self._texts, *memories, self.symbols)
        self.on_board(board)

    # ---- what is in its memory
    def modules(self) -> list[LoadedModule]:
        """Return all modules, also of a dead kernel; [] without BTF.  Lock held."""
        try:
            return loaded_modules(self.memory, self.symbols, self.structures)
        except (MemoryFault, KeyError, ValueError):
            return []

    # ---- requests
    def request(self, task: AgentTask, ops: Sequence[Op], memory: bytes = b"") -> Reply:
        """See Tasks.request()."""
        looks = self._catch_up(ops)
        try:
            return self.tasks.request(task, ops, memory)
        finally:
            self._ran(ops, looks=looks)

    def begin(
        self, task: AgentTask, ops: Sequence[Op], memory: bytes = b""
    ) -> list[ArgumentOffset]:
        """See Tasks.begin()."""
        looks = self._catch_up(ops)
        places = self.tasks.begin(task, ops, memory)
        self._ran(ops, looks=looks)
        return places

    def attempt(
        self,
        task: AgentTask,
        ops: Sequence[Op],
        memory: bytes = b"",
        *,
        brief: bool = False,
    ) -> list[int]:
        """See Tasks.attempt()."""
        results = self.tasks.attempt(task, ops, memory, brief=brief)
        self._ran()
        return results

    def call(self, task: AgentTask, *ops: Op, why: str = "") -> Reply:
        """Make a request; raise the first of its calls that fails.

        why: of the KernelError, beside its errno.  Context: lock held.
        """
        reply = self.request(task, ops)
        for result in reply.results:
            if result < 0:
                raise KernelError(-result, why)
        return reply

    def read_file(self, path: str) -> bytes:
        """Return a file's contents, read by the agent.  Context: lock held."""
        agent, content = self.tasks.agent, b""
        name = path.encode("latin-1") + b"\0"
        opening = Op(nr.OPENAT, (nr.AT_FDCWD, name, os.O_RDONLY, 0))
        fd = self.call(agent, opening, why=path).results[0]
        read = Op(nr.READ, (fd, Out(READ_SIZE), READ_SIZE))
        try:
            while size := (reply := self.call(agent, read, why=path)).results[0]:
                content += reply.out(0, size)
                if len(content) > MAX_FILE:
                    raise KernelError(errno.EFBIG, path)
        finally:
            self.request(agent, [Op(nr.CLOSE, (fd,))])
        return content

    def make_file(self, task: AgentTask, data: bytes) -> int:
        """Make a nameless file with these data; return a task's descriptor of it.

        ENOMEM: the guest has no room for it.  Context: lock held.
        """
        fd = self.call(task, Op(nr.MEMFD_CREATE, (b"module\0", 0))).results[0]
        for at in range(0, len(data), READ_SIZE):
            part = data[at : at + READ_SIZE]
            taken = self.request(task, [Op(nr.WRITE, (fd, part, len(part)))]).results
            if taken != [len(part)]:
                self.request(task, [Op(nr.CLOSE, (fd,))])
                raise KernelError(errno.ENOMEM, "no room for a file in the guest")
        return fd

    def _catch_up(self, ops: Sequence[Op]) -> bool:
        """Make what was left out, before operations that may see it.

        Return True if they only look.
        """
        looks = only_look(ops)
        if not looks:
            self.skip_policy.catch_up()
        return looks

    def _ran(self, ops: Sequence[Op] = (), *, looks: bool = True) -> None:
        if ops:
            self._last_news = monotonic()
        if not looks:
            self.watch.may_have_changed()
        if self.directories is not None:
            self.directories.ran(ops)
        self._tell_waiting()

    def _tell_waiting(self) -> None:
        """Tell that something may have become readable, or never will be."""
        if self._on_wake is not None:
            self._on_wake()

    def follow_directories(self, on_change: Callable[[], None]) -> None:
        """Call a function, under the lock, when directories may have changed."""
        self.directories = Directories(
            self.machine.board, self.saved_memory, self.symbols, on_change
        )

    # ---- time
    def start(self, on_wake: Callable[[], None] | None = None) -> None:
        """Start the thread that lets time pass for tasks that wait.

        on_wake is called under the lock when something may have become readable.
        """
        self._on_wake = on_wake
        self._ticker = threading.Thread(target=self._tick, name="tick", daemon=True)
        self._ticker.start()

    @property
    def ticker(self) -> int:
        """Number of the thread that lets time pass for tasks that wait, or 0."""
        return (self._ticker.ident or 0) if self._ticker is not None else 0

    def _tick(self) -> None:
        pause = threading.Event()
        while not self._stopped:
            self._somebody_waits.wait()
            with self.lock:
                seconds = self._pass_time()
                if seconds is None:
                    self._somebody_waits.clear()
            if seconds is not None:
                pause.wait(seconds)

    def _look_after_waiting(self) -> None:
        """Find out now and then if tasks that wait still live.

        In a quiet guest by its own clock: its work must not depend on the host's.
        """
        machine = self.machine
        now = machine.now() / NSEC if machine.quiet else monotonic()
        if now > self._next_look:
            self._next_look = now + LOOK
            for task in list(self.tasks.waiting):
                self.tasks.look_after(task)

    def _pass_time(self) -> float | None:
        """Catch up with the host's clock; s until that is due again, None: never."""
        tasks, machine = self.tasks, self.machine
        if self._stopped or machine.dead or not tasks.waiting:
            return None
        try:
            machine.catch_up()
            if machine.quiet:  # a task may wait for time to pass
                machine.advance(machine.now() + QUIET_STEP_NS)
            self._look_after_waiting()
        except MachineDiedError:
            tasks.died()
            self._tell_waiting()
            return None
        waiting = len(tasks.waiting)
        tasks.look()
        if len(tasks.waiting) < waiting:
            self._last_news = monotonic()
            self.watch.may_have_changed()
        self._ran()
        if machine.quiet:
            return MIN_SLEEP
        left = (machine.deadline() - machine.host_now()) / NSEC
        least = REST if monotonic() > self._last_news + LONG_WAIT else MIN_SLEEP
        return min(max(left, least), MAX_SLEEP)

    # ---- the rest
    def stop(self) -> None:
        """End the guest; nothing of this kernel may be used afterwards."""
        self._stopped = True
        self._somebody_waits.set()
        if self._ticker is not None:
            self._ticker.join()
        with self.lock:
            self.machine.dead = self.machine.dead or "the guest is gone"
            self.tasks.stop()
            self.machine.close()
            self._saved.close()
            mapping.unmap(*self._texts.values())


def check_callers(release: str) -> None:
    """Raise UnfitError if a kernel is too old for tasks that stand for callers."""
    if [int(number) for number in re.findall(r"\d+", release)[:2]] < FIRST:
        raise UnfitError(
            f"{release}: kernels before 5.6 run commands by --inside only; they lack "
            "pidfd_getfd(2), and clone3(2) for a chosen pid"
        )
