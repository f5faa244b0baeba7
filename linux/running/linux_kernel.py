# SPDX-License-Identifier: GPL-2.0-or-later
"""A real kernel that runs: machine, tasks, the lock, and the time that passes."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING, Any

from kpfs.base import mapping
from kpfs.base.errors import KernelError, SetupError
from kpfs.base.ktypes import Caller
from kpfs.base.log import Log
from kpfs.base.units import NSEC
from kpfs.linux.board.board import Board
from kpfs.linux.errors import UnfitError
from kpfs.linux.memory import dmesg
from kpfs.linux.memory.memory import LiveMemory
from kpfs.linux.running import chosen
from kpfs.linux.running.directories import Directories
from kpfs.linux.running.kernel_on_board import KernelOnBoard
from kpfs.linux.running.machine import LinuxMachine, MachineDiedError, Op, only_look
from kpfs.linux.running.ready import ReadyTexts, open_texts
from kpfs.linux.running.saved_kernel import SavedKernel
from kpfs.linux.running.tasks import AgentTask, Tasks
from kpfs.linux.running.watched import ChangedText
from kpfs.linux.store import image

if TYPE_CHECKING:
    from kpfs.linux.running.losses import Losses

log = Log(__name__)

QUIET_STEP_NS = 4_000_000
LOOK = 0.5  # s between looks whether they still live
MIN_SLEEP, MAX_SLEEP = 0.004, 1.0  # s between looks for waiting requests
LONG_WAIT, REST = 1.0, 0.02  # s without any news, after which so long at least
LAST_LINES = 10  # lines of a dead guest's log that are said
FIRST = [5, 6]  # Linux whose tasks can stand for callers
MakeTask = Callable[[Caller, str], AgentTask]  # given the caller's name


class LinuxKernel(KernelOnBoard):
    """The composition root for a kernel whose tasks stand for processes."""

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
        saved = SavedKernel(chosen.folder(name))
        if callers:
            check_callers(saved.meta.release)
        super().__init__(saved)
        self._quiet = quiet
        self._texts = open_texts(self.folder)
        self._followers: list[Callable[[], None]] = []
        self._ticker: threading.Thread | None = None
        self._stopped = False
        self._on_wake: Callable[[], None] | None = None
        self.directories: Directories | None = None  # once somebody follows them
        self._make_task: MakeTask | None = None
        self._somebody_waits = threading.Event()
        self._sysctls = chosen.kernel(name).sysctls
        self._start_machine()
        with self.lock:
            self._set_sysctls()

    @cached_property
    def losses(self) -> Losses:
        """The losses of the kernel since this was first used.  Context: lock held.

        From then on no probe is hit by kpfs's own tasks.
        """
        from kpfs.linux.running.losses import Losses
        from kpfs.linux.running.own import hide_own_tasks

        def enter(board: Board) -> None:
            hide_own_tasks(self, stand_for_processes=True)
            found.enter(board)

        found = Losses(self)
        enter(self.machine.board)
        self.follow_boards(enter)
        return found

    def _start_machine(self) -> None:
        """Make a machine that goes on from the image, without tasks of callers."""
        board = image.load(self.saved.file, self.meta)
        on_turn = self.lock.hand_on
        self.machine = LinuxMachine(board, quiet=self._quiet, on_turn=on_turn)
        self.machine.end_where(self.symbols.address)
        self._next_look = self._last_news = 0.0
        self.watch.always = False
        self._look_at(board)
        self.tasks = Tasks(self.machine, self.lock, self)

    def _set_sysctls(self) -> None:
        """Set those of the kernel's name.  Raises UnfitError.  Context: lock held."""
        chosen.set_sysctls(
            self._sysctls, lambda ops: self.tasks.attempt(self.tasks.agent, ops)
        )

    def make_tasks_by(self, make: MakeTask) -> None:
        """Make tasks of new callers by this function.  Context: lock held."""
        self._make_task = make

    # ---- reboot
    def follow(self, follower: Callable[[], None]) -> None:
        """Call a function, under the lock, whenever another machine takes over."""
        self._followers.append(follower)

    def reboot(self) -> None:
        """Start from the image again; what was open before answers ESHUTDOWN.

        ENOMEM: there is no room for another machine, and nothing has changed.
        Context: lock held.
        """
        machine, tasks = self.machine, self.tasks
        try:
            self._start_machine()
            self._set_sysctls()
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

    def another_board(self, board_fields: dict[str, Any]) -> Board:
        """Go on with another board, in the state of board_fields.

        board_fields: see kpfs.linux.store.image.board_fields().  Context: lock held.
        """
        meta = image.with_board_fields(self.meta, board_fields)
        board = image.load(self.saved.file, meta)
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
        saved = self.saved.file.fileno()
        self.watch.enter(
            lambda: ChangedText(board, saved, self.saved_memory, self.structures)
        )
        memories = self.saved_memory, self.memory
        self.ready = ReadyTexts(self._texts, *memories, self.structures)
        self.on_board(board)

    # ---- requests: implements TasksOwner
    def make_task(self, caller: Caller, comm: str) -> AgentTask:
        if self._make_task is not None:
            return self._make_task(caller, comm)
        return self.tasks.fork(self.tasks.agent, caller, comm)

    def somebody_waits(self) -> None:
        self._somebody_waits.set()

    def last_words(self) -> list[str]:
        return [record.shown() for record in self.dmesg()[-LAST_LINES:]]

    def last_oops(self) -> str:
        return dmesg.last_oops([record.text for record in self.dmesg()])

    def begins(self, ops: Sequence[Op]) -> bool:
        """Make what was left out, before operations that may see it."""
        looks = only_look(ops)
        if not looks:
            self.skip_policy.catch_up()
        return looks

    def ran(self, ops: Sequence[Op] = (), *, looks: bool = True) -> None:
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
            self.machine.board, self.saved_memory, self.structures, on_change
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
        self.ran()
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
            self.saved.close()
            mapping.unmap(*self._texts.values())


def check_callers(release: str) -> None:
    """Raise UnfitError if a kernel is too old for tasks that stand for callers."""
    if image.version(release) < FIRST:
        raise UnfitError(
            f"{release}: kernels before 5.6 run commands by --inside only; they lack "
            "pidfd_getfd(2), and clone3(2) for a chosen pid"
        )
