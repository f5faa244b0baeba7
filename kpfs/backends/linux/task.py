# SPDX-License-Identifier: GPL-2.0-or-later
"""Tasks of a Linux kernel in this process, and the files that they use."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from kpfs.backends.linux.access import LinuxAccess
from kpfs.backends.linux.machine_info import BUFFER_SIZE
from kpfs.backends.linux.records import more_of
from kpfs.backends.linux.tree import guest_path, opened, read_directory
from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import Caller
from kpfs.fs.node import Node, names_of
from kpfs.linux.running import loading, syscalls
from kpfs.linux.running.machine import Op, Out, Reply
from kpfs.linux.running.tasks import AgentTask
from kpfs.session.files import encoded

SIZE = 1 << 15  # bytes of a read()
MAX_TEXT = 256 << 20  # bytes of a file; some kernels never come to an end
FEW = 2  # pieces that most files fit into
TRACES = "trace", "trace_pipe", "trace_pipe_raw"
# most pieces to read of files that may grow by being read; of a trace, only where the
# kernel does not tell which records are new
MOST = {"kmsg": 1 << 12} | dict.fromkeys(TRACES, 1 << 14)
_PROT_READ, _PROT_WRITE = 1, 2
_MAP_PRIVATE, _MAP_ANONYMOUS = 2, 0x20


class LinuxTask:
    """Implements kpfs.session.files.KernelTask."""

    def __init__(self, session: LinuxAccess, pid: int, comm: str, uid: int = 0) -> None:
        self._session = session
        self._ended = False
        caller = Caller(pid, os.getuid() if not uid else uid, uid)
        self._task: AgentTask = session.do("", lambda: self._fork(caller, comm))

    def _fork(self, caller: Caller, comm: str) -> AgentTask:
        tasks = self._session.kernel.tasks
        return tasks.known(caller.pid) or tasks.fork(tasks.agent, caller, comm)

    def _request(self, *ops: Op) -> Reply:
        """Make system calls; raise the first that fails.  Context: lock held."""
        if self._task.gone:
            raise KernelError(errno.ESRCH, f"task {self._task.pid} has exited")
        return self._session.kernel.tasks.call(self._task, *ops)

    def place(self, path: str) -> str:
        return path

    def _name(self, path: str) -> bytes:
        if path.startswith("/"):
            return os.fsencode(path) + b"\0"
        return guest_path(path) if path else b"/\0"

    # ---- files

    def _own(self, path: str) -> Node | None:
        """Return the file if it is one that kpfs adds to the kernel's; ENOENT."""
        return self._session.call(path, lambda: self._session.own.find(path))

    def _read_own(self, node: Node) -> bytes:
        file = self._session.own.open(node, os.O_RDONLY, self._task.host_pid)
        return file.read(sys.maxsize, 0)

    def _write_own(self, node: Node, data: bytes) -> None:
        file = self._session.own.open(node, os.O_WRONLY, self._task.host_pid)
        file.write(data, 0, lambda: self._task)

    def read(self, path: str) -> bytes:
        if node := self._own(path):
            return self._session.call(path, partial(self._read_own, node))

        def action() -> bytes:
            how = os.O_RDONLY | os.O_NONBLOCK
            with opened(self._request, self._name(path), how) as fd:
                return self._all(fd, path.rpartition("/")[2])

        return self._session.do(path, action)

    def _all(self, fd: int, name: str) -> bytes:
        """Read a growing file up to the size that it had at the start."""
        pieces: list[bytes] = []
        has_more: Callable[[bytes], bool] | None = None
        try:
            while len(pieces) < MOST.get(name, sys.maxsize):
                reply = self._request(Op(nr.READ, (fd, Out(SIZE), SIZE)))
                count = reply.results[0]
                if not count:
                    break
                pieces.append(reply.out(0, count))
                if len(pieces) * SIZE > MAX_TEXT:
                    raise KernelError(errno.EFBIG, name)
                if has_more is not None and not has_more(pieces[-1]):
                    break
                if len(pieces) == FEW and name in TRACES:
                    has_more = more_of(self._session.kernel, self._task, fd)
        except KernelError as refused:
            if refused.errno != errno.EAGAIN:
                raise
        return b"".join(pieces)

    def write(self, path: str, data: bytes, flags: int) -> None:
        if node := self._own(path):
            self._session.call(path, partial(self._write_own, node, data))
            return

        def action() -> None:
            rest = data
            with opened(self._request, self._name(path), flags) as fd:
                while True:
                    piece = rest[:SIZE]
                    writing = Op(nr.WRITE, (fd, piece, len(piece)))
                    taken = self._request(writing).taken(0, len(piece))
                    if taken < 0 or (piece and not taken):
                        raise KernelError(-taken or errno.EIO, path)
                    rest = rest[taken:]
                    if not rest:
                        break

        self._session.do(path, action)

    # ---- directories
    def names(self, path: str) -> list[str]:
        if node := self._own(path):
            return self._session.call(path, lambda: [n for n, _ in names_of(node)])

        def action() -> list[tuple[str, int]]:
            return read_directory(self._request, self._name(path))

        found = self._session.do(path, action)
        return [name for name, _ in found if name not in (".", "..")]

    def exists(self, path: str) -> bool:
        def action() -> bool:
            room = Out(syscalls.STATX_SIZE)
            look = nr.AT_FDCWD, self._name(path), 0, nr.STATX_BASIC, room
            self._request(Op(nr.STATX, look))
            return True

        try:
            return self._own(path) is not None or self._session.do(path, action)
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
        session = self._session

        def action() -> int:
            number = session.info.number(name)
            values = [a if isinstance(a, int) else encoded(a) + b"\0" for a in args]
            op = Op(number, tuple(values), native=True)
            return self._request(op).results[0]

        return session.do(name, action)

    @property
    def buffer(self) -> int:
        buffers = self._session.buffers
        if self._task not in buffers:
            how = _PROT_WRITE | _PROT_READ, _MAP_PRIVATE | _MAP_ANONYMOUS
            asking = Op(nr.MMAP, (0, BUFFER_SIZE, *how, -1, 0))
            made = self._session.do("", lambda: self._request(asking))
            buffers[self._task] = made.results[0]
        return buffers[self._task]

    # ---- modules
    def insmod(self, module: str, words: bytes, *, named: bool) -> None:
        kernel = self._session.kernel
        if named:
            load = partial(loading.load_named, kernel, self._task, module, words)
        else:
            image = Path(module).read_bytes()
            load = partial(loading.load, kernel, self._task, image, words)
        self._session.do(module, load)

    def rmmod(self, name: str) -> None:
        unload = partial(loading.unload, self._session.kernel, self._task, name)
        self._session.do(name, unload)

    def end(self, status: int) -> None:
        tasks = self._session.kernel.tasks
        self._session.do("", lambda: tasks.exit(self._task, status))
