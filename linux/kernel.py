# SPDX-License-Identifier: GPL-2.0-or-later
"""A real kernel that runs: machine, tasks, the lock, and the time that passes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from kpfs.kernel.lock import FairLock
from kpfs.linux import image, store
from kpfs.linux.machine import Machine, MachineDiedError, Op
from kpfs.linux.tasks import Reply, Task, Tasks

NSEC = 1_000_000_000
QUIET_STEP_NS = 4_000_000
MIN_SLEEP, MAX_SLEEP = 0.004, 1.0  # s between looks for somebody who waits


class LinuxKernel:
    """The composition root for a kernel of a distribution.

    ``lock`` is held, once, for whatever touches what is below.
    """

    def __init__(self, name: str, *, quiet: bool = False, exact: bool = False) -> None:
        """name: of a kernel that was made; bzimage.KernelError where there is none."""
        self.folder = store.folder(name)
        self.meta = image.read_meta(self.folder)
        self.lock = FairLock()
        board = image.load(self.folder, self.meta, exact=exact)
        self.machine = Machine(board, quiet=quiet)
        self.tasks = Tasks(self.machine, self.lock)
        self._ticker: threading.Thread | None = None
        self._stopped = False
        self._on_wake: Callable[[], None] | None = None
        self._somebody_waits = threading.Event()
        self.tasks.on_wait = self._somebody_waits.set

    # ---- requests
    def request(self, task: Task, ops: Sequence[Op], memory: bytes = b"") -> Reply:
        """See Tasks.request()."""
        try:
            return self.tasks.request(task, ops, memory)
        finally:
            self._ran()

    def begin(self, task: Task, ops: Sequence[Op], memory: bytes = b"") -> None:
        """See Tasks.begin()."""
        self.tasks.begin(task, ops, memory)
        self._ran()

    def attempt(self, task: Task, ops: Sequence[Op], memory: bytes = b"") -> list[int]:
        """See Tasks.attempt()."""
        results = self.tasks.attempt(task, ops, memory)
        self._ran()
        return results

    def _ran(self) -> None:
        if self._on_wake is not None:
            self._on_wake()

    # ---- time
    def start(self, on_wake: Callable[[], None] | None = None) -> None:
        """Let time pass for those who wait.

        on_wake is called under the lock when something may have become readable.
        """
        self._on_wake = on_wake
        self._ticker = threading.Thread(target=self._tick, name="tick", daemon=True)
        self._ticker.start()

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

    def _pass_time(self) -> float | None:
        """Catch up with the host's clock; s until that is due again, None: never."""
        tasks, machine = self.tasks, self.machine
        if self._stopped or machine.dead or not tasks.waiting:
            return None
        try:
            machine.catch_up()
            if machine.quiet:  # whatever somebody waits for may need time
                machine.advance(machine.now() + QUIET_STEP_NS)
        except MachineDiedError:
            tasks.died()
            return None
        tasks.look()
        if self._on_wake is not None:
            self._on_wake()
        if machine.quiet:
            return MIN_SLEEP
        left = (machine.deadline() - machine.host_now()) / NSEC
        return min(max(left, MIN_SLEEP), MAX_SLEEP)

    # ---- the rest
    def stats(self) -> dict[str, int]:
        """Counters of the machine."""
        return self.machine.stats()

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
