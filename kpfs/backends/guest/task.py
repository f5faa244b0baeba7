# SPDX-License-Identifier: GPL-2.0-or-later
"""Tasks of a guest kernel in this process, and the files that they use."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from kpfs.backends.guest.access import GuestAccess
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KERN_WARNING, Caller
from kpfs.base.typed import TYPE_CHECKING, TypeVar
from kpfs.guest.running.hosttask import INIT_PID, HostTask
from kpfs.session.files import WRITE

if TYPE_CHECKING:
    from kpfs.fs.node import Dir, Node

SIZE = 1 << 17  # bytes of a read()
LOG = "kmsg"

T = TypeVar("T")


class GuestTask:
    """Implements kpfs.session.files.KernelTask."""

    def __init__(self, session: GuestAccess, pid: int, comm: str, uid: int = 0) -> None:
        self._session = session
        self._caller = Caller(pid, uid, uid)
        self._comm = comm
        session.ended.discard(pid)
        with session.call(), session.root.lock:
            self.host_task()

    def host_task(self) -> HostTask:
        """Return the task in the guest; a new one if an oops has killed it.

        ESRCH: it has exited.
        """
        session, caller = self._session, self._caller
        if caller.pid in session.ended:
            raise KernelError(errno.ESRCH, f"task {caller.pid} has exited")
        session.root.syscalls.check()
        tasks = session.root.guest.host_tasks
        return tasks.of_process(caller.pid, caller.uid, self._comm, INIT_PID)

    def _do(self, path: str, action: Callable[[], T]) -> T:
        with self._session.call(path):
            with self._session.root.lock:
                self.host_task()
            return action()

    def place(self, path: str) -> str:
        from kpfs.backends.guest.vfs import mount_path

        return mount_path(path).strip("/")

    # ---- files
    def read(self, path: str) -> bytes:
        """Read a file up to the end that it has now.

        If a probe is on the way of reading, each read() may append to what is read.  So
        reading ends at the first short piece; of the log, which gives one record for
        each read(), it reads as many records as there were.
        """
        vfs, caller = self._session.vfs, self._caller
        log = self._session.root.guest.log
        reads = len(log.records()) if path == LOG else 0

        def action() -> bytes:
            opened = vfs.open(caller, f"/{path}", os.O_RDONLY | os.O_NONBLOCK)
            pieces: list[bytes] = []
            at = 0
            try:
                while data := vfs.read(caller, opened, SIZE, at):
                    pieces.append(data)
                    at += len(data)
                    if len(pieces) == reads or (not reads and len(data) < SIZE):
                        break
            except KernelError as refused:
                if refused.errno != errno.EAGAIN:
                    raise
            finally:
                vfs.release(opened)
            return b"".join(pieces)

        return self._do(path, action)

    def write(self, path: str, data: bytes, flags: int) -> None:
        vfs, caller = self._session.vfs, self._caller

        def action() -> None:
            opened = vfs.open(caller, f"/{path}", flags)
            at = 0
            try:
                while True:
                    at += vfs.write(caller, opened, data[at:], at)
                    if at >= len(data):
                        break
            finally:
                vfs.release(opened)

        self._do(path, action)

    # ---- directories
    def _node(self, path: str) -> Node:
        from kpfs.fs.node import walk

        return walk(self._session.vfs.root, path)

    def _dir(self, path: str) -> Dir:
        from kpfs.fs.node import Dir

        node = self._node(path)
        if not isinstance(node, Dir):
            raise KernelError(errno.ENOTDIR)
        return node

    def names(self, path: str) -> list[str]:
        with self._session.call(path):
            return list(self._dir(path).names())

    def exists(self, path: str) -> bool:
        self._session.check()
        try:
            self._node(path)
        except KernelError:
            return False
        return True

    def mkdir(self, path: str) -> None:
        parent, _, name = path.rpartition("/")
        with self._session.call(path), self._session.root.lock:
            self._dir(parent).mkdir(name)

    def rmdir(self, path: str) -> None:
        parent, _, name = path.rpartition("/")
        with self._session.call(path), self._session.root.lock:
            self._dir(parent).rmdir(name)

    # ---- the task
    def syscall(self, name: str, args: tuple[int | str | bytes, ...]) -> int:
        root = self._session.root
        with self._session.call(name), root.lock:
            return root.syscalls.call(self.host_task(), name, *args)

    @property
    def buffer(self) -> int:
        with self._session.call(), self._session.root.lock:
            return self.host_task().buffer

    # ---- modules
    def insmod(self, module: str, words: bytes, *, named: bool) -> None:
        from kpfs.backends.guest.machine_info import SHIPPED
        from kpfs.backends.guest.root.log_follower import oopses

        with open(f"{SHIPPED}/{module}.ko" if named else module, "rb") as file:
            image = file.read()
        session, log = self._session, self._session.root.guest.log
        since = log.next_seq()
        with session.call(module):
            try:
                with session.root.lock:
                    task = self.host_task()
                session.root.syscalls.insmod(task, image, words)
            except KernelError as refused:
                said = [r for r in log.records(since) if r.level <= KERN_WARNING]
                why = os.fsdecode(bytes(said[-1].text)) if said else refused.why
                if oopsed := oopses(said):  # it ends with registers
                    why = oopsed[0].partition("\n")[0]
                raise KernelError(refused.errno, why) from None

    def rmmod(self, name: str) -> None:
        self.write("machine/rmmod", os.fsencode(name), WRITE)

    def end(self, status: int) -> None:
        root = self._session.root
        with self._session.call(), root.lock:
            root.guest.host_tasks.exit(self.host_task(), status)
            self._session.ended.add(self._caller.pid)
