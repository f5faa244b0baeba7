# SPDX-License-Identifier: GPL-2.0-or-later
"""The files and tasks of a real kernel in this process: see kpfs.linux."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import TypeVar

from kpfs.api.session import os_error
from kpfs.engine.errors import KernelError
from kpfs.fs.fuse.linux_ops import guest_path
from kpfs.host.errors import SetupError
from kpfs.kernel.caller import Caller
from kpfs.linux.errors import UnfitError
from kpfs.linux.kernel import syscalls as nr
from kpfs.linux.kernel.kernel import LinuxKernel
from kpfs.linux.kernel.machine import Op, Out
from kpfs.linux.kernel.tasks import Reply, Task

SIZE = 1 << 15  # bytes of a read() and of a getdents64()
LOG = "kmsg"
MAX_RECORDS = 4096  # of the log; a probe on the way may make each read() log one more
FIRST_PID = 4_000_001  # no process of the guest's own comes so far
NSEC = 1_000_000_000
T = TypeVar("T")


class RealSession:
    """A real kernel that runs."""

    def __init__(self, name: str, *, quiet: bool) -> None:
        """SetupError: there is no kernel of that name (``kpfs kernel make``)."""
        try:
            self.kernel = LinuxKernel(name, quiet=quiet)
        except UnfitError as error:
            raise SetupError(str(error)) from None
        self.quiet = quiet
        self.closed = False
        self.next_pid = FIRST_PID
        self.kernel.start()

    def close(self) -> None:
        """End the guest."""
        if not self.closed:
            self.closed = True
            self.kernel.stop()

    def do(self, path: str, action: Callable[[], T]) -> T:
        """Do an operation on a path; OSError."""
        if self.closed:
            raise ValueError("this kernel is closed")
        try:
            with self.kernel.lock:
                return action()
        except KernelError as refused:
            raise os_error(refused, path) from None

    # ---- the clock
    def now(self) -> float:
        """Seconds since the kernel was booted."""
        return self.do("", lambda: self.kernel.machine.now() / NSEC)

    def advance(self, seconds: float) -> None:
        """Let so many seconds pass, with all that is due in them."""
        machine = self.kernel.machine
        until = machine.now() + round(seconds * NSEC)
        self.do("", lambda: machine.advance(until))


class RealBackend:
    """See kpfs.api.files.Backend."""

    def __init__(self, session: RealSession, pid: int, comm: str, uid: int = 0) -> None:
        self._session = session
        self._ended = False
        caller = Caller(pid, os.getuid() if not uid else uid, uid)
        self._task: Task = session.do("", lambda: self._fork(caller, comm))

    def _fork(self, caller: Caller, comm: str) -> Task:
        tasks = self._session.kernel.tasks
        return tasks.known(caller.pid) or tasks.fork(tasks.agent, caller, comm)

    def _request(self, *ops: Op) -> Reply:
        """Make system calls; the first that fails is raised."""
        if self._task.gone:
            raise KernelError(errno.ESRCH, f"task {self._task.pid} has exited")
        reply = self._session.kernel.request(self._task, ops)
        for result in reply.results:
            if result < 0:
                raise KernelError(-result)
        return reply

    def place(self, path: str) -> str:
        return path

    def _name(self, path: str) -> bytes:
        if path.startswith("/"):
            return os.fsencode(path) + b"\0"
        return guest_path(path) if path else b"/\0"

    # ---- files
    def read(self, path: str) -> bytes:
        def action() -> bytes:
            flags = os.O_RDONLY | os.O_NONBLOCK
            opening = Op(nr.OPENAT, (nr.AT_FDCWD, self._name(path), flags, 0))
            fd = self._request(opening).results[0]
            try:
                return self._all(fd, one_by_one=path.endswith(LOG))
            finally:
                self._request(Op(nr.CLOSE, (fd,)))

        return self._session.do(path, action)

    def _all(self, fd: int, *, one_by_one: bool) -> bytes:
        pieces: list[bytes] = []
        try:
            while len(pieces) < MAX_RECORDS or not one_by_one:
                reply = self._request(Op(nr.READ, (fd, Out(SIZE), SIZE)))
                count = reply.results[0]
                if not count:
                    break
                pieces.append(reply.out(0, count))
        except KernelError as refused:
            if refused.errno != errno.EAGAIN:
                raise
        return b"".join(pieces)

    def write(self, path: str, data: bytes, flags: int) -> None:
        def action() -> None:
            opening = Op(nr.OPENAT, (nr.AT_FDCWD, self._name(path), flags, 0))
            fd = self._request(opening).results[0]
            rest = data
            try:
                while True:
                    piece = rest[:SIZE]
                    writing = Op(nr.WRITE, (fd, piece, len(piece)))
                    taken = self._request(writing).results[0]
                    rest = rest[taken:]
                    if not rest:
                        break
            finally:
                self._request(Op(nr.CLOSE, (fd,)))

        self._session.do(path, action)

    # ---- directories
    def names(self, path: str) -> list[str]:
        def action() -> list[str]:
            flags = os.O_RDONLY | os.O_DIRECTORY
            opening = Op(nr.OPENAT, (nr.AT_FDCWD, self._name(path), flags, 0))
            fd = self._request(opening).results[0]
            found: list[str] = []
            try:
                while True:
                    reply = self._request(Op(nr.GETDENTS64, (fd, Out(SIZE), SIZE)))
                    count = reply.results[0]
                    if not count:
                        break
                    found += [name for name, _ in nr.read_dirents(reply.out(0, count))]
            finally:
                self._request(Op(nr.CLOSE, (fd,)))
            return [name for name in found if name not in (".", "..")]

        return self._session.do(path, action)

    def exists(self, path: str) -> bool:
        def action() -> bool:
            room = Out(nr.STATX_SIZE)
            look = nr.AT_FDCWD, self._name(path), 0, nr.STATX_BASIC, room
            self._request(Op(nr.STATX, look))
            return True

        try:
            return self._session.do(path, action)
        except OSError:
            return False

    def mkdir(self, path: str) -> None:
        making = nr.AT_FDCWD, self._name(path), 0o755
        self._session.do(path, lambda: self._request(Op(nr.MKDIRAT, making)))

    def rmdir(self, path: str) -> None:
        taking = nr.AT_FDCWD, self._name(path), nr.AT_REMOVEDIR
        self._session.do(path, lambda: self._request(Op(nr.UNLINKAT, taking)))

    # ---- the task
    def syscall(self, name: str, args: tuple[int | str | bytes, ...]) -> int:
        raise NotImplementedError("system calls by name are for our own kernel alone")

    @property
    def buffer(self) -> int:
        raise NotImplementedError("a task's memory is that of our own kernel alone")

    def end(self, status: int) -> None:
        """Let the task exit."""
        tasks = self._session.kernel.tasks
        self._session.do("", lambda: tasks.exit(self._task, status))
