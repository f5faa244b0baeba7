# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs of a search on other machines, by Dask's scheduler and workers.

The search itself forks for each of its own runs, and so has no other thread. A process
beside it is the client of the scheduler. Each thread of a worker keeps a process in
which the command stands where runs begin: kpfs.hunt.standing. Dask gives the run of a
worker that is gone to another one. If no worker is left, the search makes it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from threading import Lock, Thread, get_ident
from typing import TYPE_CHECKING, Any

from kpfs.base.errors import SetupError
from kpfs.base.signals import fork
from kpfs.host import process
from kpfs.hunt.runs import EndedRun, Runs
from kpfs.hunt.standing import SIZE

if TYPE_CHECKING:
    from kpfs.hunt.standing import SearchJob
    from kpfs.linux.search.plan import RunPlan
    from kpfs.linux.search.searched import SearchedCommand

CONNECT = 10.0  # s for a scheduler to answer
LOOK = 1.0  # s between looks for new workers
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


# ---- in a worker
class _Standing:
    """A process that makes runs of one job, one at a time."""

    def __init__(self, job: str) -> None:
        path = os.pathsep.join([_PACKAGE, os.environ.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kpfs.hunt.standing"],
            env=os.environ | {"PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._send(job)

    def _send(self, line: str) -> None:
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # what it has said tells why
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def made(self, plan: str) -> bytes:
        """Make one run, and return what it has told.  Raises SetupError."""
        self._send(plan)
        assert self._process.stdout
        head = self._process.stdout.read(SIZE.size)
        if len(head) < SIZE.size:
            raise SetupError("the process that makes runs was killed")
        (size,) = SIZE.unpack(head)
        told = self._process.stdout.read(abs(size))
        if size < 0:
            raise SetupError(told.decode())
        return told


@lru_cache(maxsize=os.cpu_count())
def _standing(job: str, _thread: int) -> _Standing:
    return _Standing(job)


def made(job: str, plan: str) -> bytes:
    """Make one run in a thread of a worker, and return what it has told."""
    try:
        return _standing(job, get_ident()).made(plan)
    except SetupError as error:
        _standing.cache_clear()
        raise SetupError(f"{socket.gethostname()}: {error}") from None


# ---- the client of the scheduler
def _hand_out(address: str, channel: socket.socket) -> None:
    """Give plans to workers, and tell what they answer, as long as plans come."""
    from distributed import Client, Future

    lock = Lock()

    def tell(told: bytes = b"", **head: object) -> None:
        line = json.dumps(head | {"size": len(told)}).encode() + b"\n"
        with lock, contextlib.suppress(OSError):
            channel.sendall(line + told)

    def ended(number: int, future: Future) -> None:
        if future.cancelled():
            return
        if (error := future.exception()) is None:
            tell(future.result(), number=number)
        else:
            tell(error=str(error) or type(error).__name__)

    def tell_room() -> None:
        """Tell how many threads the workers have, as these come and go."""
        told = -1
        while True:
            room = sum(client.nthreads().values())
            if room != told:
                tell(room=room)
            told = room
            time.sleep(LOOK)

    try:
        client = Client(address, timeout=CONNECT, set_as_default=False)
    except (OSError, ValueError) as error:
        tell(error=str(error))
        return
    job, futures = "", list[Future]()
    with channel.makefile("rb") as lines:
        Thread(target=tell_room, daemon=True).start()
        for line in lines:
            asked: dict[str, Any] = json.loads(line)
            if "job" in asked:
                job = asked["job"]
            elif "plan" in asked:
                future = client.submit(made, job, asked["plan"], pure=False)
                futures.append(future)
                number = asked["number"]
                future.add_done_callback(lambda each, n=number: ended(n, each))
            else:
                client.cancel(futures)
                futures.clear()


class Cluster:
    """The connection to a scheduler, by a process of its own."""

    def __init__(self, address: str) -> None:
        """Begin to connect.  Raises SetupError."""
        if find_spec("distributed") is None:
            why = "search --scheduler: the package distributed is missing"
            raise SetupError(why, "pip install 'kpfs[cluster]'")
        self._address = address
        self.channel, theirs = socket.socketpair()
        parent = os.getpid()
        if not fork():
            try:
                process.die_with_parent(parent)
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # the search is told
                self.channel.close()
                _hand_out(address, theirs)
            finally:
                os._exit(0)
        theirs.close()
        self._input = self.channel.makefile("rb")

    def heard(self) -> tuple[dict[str, Any], bytes]:
        """Wait for a message, and return it; {} if there is no scheduler any more."""
        line = self._input.readline()
        head: dict[str, Any] = json.loads(line) if line else {}
        if error := head.get("error"):
            raise SetupError(f"--scheduler {self._address}: {error}")
        return head, self._input.read(head.get("size", 0))

    def send(self, **message: object) -> None:
        with contextlib.suppress(OSError):
            self.channel.sendall(json.dumps(message).encode() + b"\n")


class ClusterRuns(Runs):
    """Runs of which a cluster makes those for which this host has no room."""

    def __init__(
        self,
        searched: SearchedCommand,
        jobs: int,
        cluster: Cluster,
        job: Callable[[EndedRun], SearchJob],
    ) -> None:
        """job: returns it, given the run without any change.  Raises SetupError."""
        super().__init__(searched, jobs)
        self._cluster, self._job = cluster, job
        self._most: int = cluster.heard()[0].get("room", 0)
        self._is_gone = False
        self._base: EndedRun | None = None
        self._is_told, self._number = False, 0
        self._given: dict[int, RunPlan] = {}
        self._again: list[RunPlan] = []  # nobody has made them

    @property
    def running(self) -> int:
        return super().running + len(self._given) + len(self._again)

    @property
    def has_room(self) -> bool:
        return super().running < self._jobs or len(self._given) < self._most

    def start(self, plan: RunPlan) -> None:
        is_own = super().running < self._jobs or len(self._given) >= self._most
        if is_own or self._base is None:
            super().start(plan)
            return
        if not self._is_told:
            self._cluster.send(job=self._job(self._base).text())
            self._is_told = True
        self._number += 1
        self._given[self._number] = plan
        self._cluster.send(plan=json.dumps(plan.packed()), number=self._number)

    def wait(self, seconds: float | None) -> EndedRun | None:
        if self._again and super().running < self._jobs:
            super().start(self._again.pop())
        if self._is_gone:
            return self._own(seconds)
        poll, channel = select.poll(), self._cluster.channel.fileno()
        for fd in (channel, *self.channels):
            poll.register(fd, select.POLLIN)
        left = self.left(seconds)
        if any(fd == channel for fd, _ in poll.poll(left * 1000)):
            return self._answer()
        return self._own(0)

    def _own(self, seconds: float | None) -> EndedRun | None:
        done = super().wait(seconds)
        if done is not None and done.plan.way == "base":
            self._base = done
        return done

    def _answer(self) -> EndedRun | None:
        head, told = self._cluster.heard()
        if not head:
            said = "kpfs: the scheduler is gone: its runs are made here"
            print(said, file=sys.stderr)
            self._again, self._most = list(self._given.values()), 0
            self._is_gone = True
            self._given.clear()
            return None
        if "room" in head:
            self._most = head["room"]
            return None
        plan = self._given.pop(head["number"], None)
        return None if plan is None else EndedRun(plan, self.take(told), 0.0, told)

    def stop(self) -> None:
        super().stop()
        self._given.clear()
        self._again.clear()
        self._cluster.send()
