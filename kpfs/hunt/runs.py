# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs of one command, all of them forks of a process that stands where runs begin.

So a run begins with everything loaded and translated. What a run has to translate anew
is translated here afterwards, for all that follow. The digest of a run is the same with
and without that.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from typing import NamedTuple

from kpfs.base.signals import fork
from kpfs.host import process
from kpfs.linux.inside import translate_ahead
from kpfs.linux.inside.translate_ahead import TranslateAhead
from kpfs.linux.search.plan import RunPlan
from kpfs.linux.search.searched import RunOutcome, SearchedCommand

LESSON = 64  # blocks that a run has translated from which on they are translated here
MAX_SECONDS = 60.0  # this host's time for one run
_FDS = 2  # descriptors of an outcome, at most


class InRun(BaseException):
    """This process is that of a run now."""


class Run(NamedTuple):
    """A run that is under way."""

    plan: RunPlan
    pid: int
    channel: socket.socket
    until: float


class EndedRun(NamedTuple):
    """A run that has ended."""

    plan: RunPlan
    outcome: RunOutcome
    seconds: float  # processor time
    told: bytes = b""  # by the run: its outcome, and modules that it has loaded


class Runs:
    """The runs of a command that stands where they begin.  Context: one thread."""

    def __init__(self, searched: SearchedCommand, jobs: int = 1) -> None:
        """jobs: how many may run at once."""
        self._searched, self._jobs = searched, jobs
        self._board = searched.kernel.machine.board
        self._ahead = TranslateAhead(self._board)
        self._running: list[Run] = []
        self.in_run = False  # this process is that of a run

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def has_room(self) -> bool:
        return self.running < self._jobs

    @property
    def channels(self) -> list[int]:
        """The descriptors at which runs tell that they have ended."""
        return [run.channel.fileno() for run in self._running]

    def one(self, plan: RunPlan) -> EndedRun:
        """Make one run, if no other one is under way; see start()."""
        self.start(plan)
        while (done := self.wait(None)) is None:
            pass
        return done

    def start(self, plan: RunPlan) -> None:
        """Start a run.  Raises InRun in its process, which is to go on from there."""
        while self._ahead.pending:
            self._ahead.step()
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        pid = fork()
        if pid:
            theirs.close()
            self._running.append(Run(plan, pid, ours, time.monotonic() + MAX_SECONDS))
            return
        process.die_with_parent(parent)
        ours.close()
        for run in self._running:
            run.channel.close()
        self._channel, self._translated = theirs, self._board.translated
        self._files = set(self._searched.files.by_name)
        self._searched.fork_output()
        self._searched.apply(plan)
        self.in_run, self._running = True, []
        raise InRun

    def tell(self, outcome: RunOutcome) -> None:
        """Tell the process that has started this run of its outcome."""
        fd = os.memfd_create("kpfs-outcome", os.MFD_CLOEXEC)
        files = self._searched.files.by_name
        new = [file.data for name, file in files.items() if name not in self._files]
        with os.fdopen(fd, "wb", closefd=False) as file:
            row = {"outcome": outcome._asdict(), "files": [*map(len, new)]}
            file.write(json.dumps(row).encode() + b"\n")
            file.writelines(new)
        fds = [fd]
        if self._board.translated - self._translated > LESSON:
            lesson = translate_ahead.lesson(self._board, self._translated)
            fds += [] if lesson is None else [lesson]
        with contextlib.suppress(OSError):
            socket.send_fds(self._channel, [b"."], fds)

    def wait(self, seconds: float | None) -> EndedRun | None:
        """Return a run that has ended, or None if none does so in time."""
        poll = select.poll()
        by_fd = {run.channel.fileno(): run for run in self._running}
        for fd in by_fd:
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(self.left(seconds) * 1000):
            return self._end(by_fd[fd])
        for run in self._running:
            if time.monotonic() > run.until:
                os.kill(run.pid, signal.SIGKILL)
                return self._end(run)
        return None

    def left(self, seconds: float | None) -> float:
        """Return for how long to wait: so long, or until a run takes too long."""
        now = time.monotonic()
        left = min((run.until - now for run in self._running), default=MAX_SECONDS)
        return max(left if seconds is None else min(seconds, left), 0.0)

    def take(self, told: bytes) -> RunOutcome:
        """Return the outcome that a run has told, and keep its modules."""
        line, _, rest = told.partition(b"\n")
        row, at = json.loads(line), 0
        for size in row["files"]:  # modules that were not loaded before
            self._searched.files.keep(rest[at : at + size])
            at += size
        return RunOutcome.unpacked(row["outcome"])

    def _end(self, run: Run) -> EndedRun:
        fds: list[int] = []
        with contextlib.suppress(OSError):
            _, fds, _, _ = socket.recv_fds(run.channel, 1, _FDS)
        run.channel.close()
        self._running.remove(run)
        _, _, used = os.wait4(run.pid, 0)
        seconds = used.ru_utime + used.ru_stime
        if not fds:
            late = time.monotonic() > run.until
            why = f"it took longer than {MAX_SECONDS:g} s" if late else "it was killed"
            outcome = RunOutcome(-1, why, [], "", "", 0, 0)
            told = json.dumps({"outcome": outcome._asdict(), "files": []}).encode()
            return EndedRun(run.plan, outcome, seconds, told)
        with os.fdopen(fds[0], "rb") as file:
            file.seek(0)
            told = file.read()
        for fd in fds[1:]:
            self._ahead.add(fd)
        return EndedRun(run.plan, self.take(told), seconds, told)

    def stop(self) -> None:
        """End all runs that are under way."""
        for run in self._running:
            os.kill(run.pid, signal.SIGKILL)
            os.waitpid(run.pid, 0)
            run.channel.close()
        self._running.clear()
