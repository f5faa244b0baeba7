# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls of CMD that a real kernel answers: those about its modules and its log.

The host's kernel never sees them.  A module's init and exit may sleep for as long as
they like: what is left then is a Rest, which holds nobody up.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kpfs.base.errors import KernelError
from kpfs.base.lock import Waiter
from kpfs.linux.running import syscalls as nr
from kpfs.linux.running.linux_kernel import LinuxKernel
from kpfs.linux.running.machine import FINALLY, STOP, Argument, Op, Out, Result
from kpfs.linux.running.tasks import Reply, Task, Tasks
from kpfs.mirror.host import Host
from kpfs.mirror.seccomp import Notification, is_valid
from kpfs.mirror.write import Commit

CHUNK = 1 << 17  # bytes that pass between a task and the host at once
MODULE_MAX = 1 << 26  # bytes
TEXT_MAX = 1 << 12  # bytes of a name, or of parameters
LOOK = 0.2  # s between looks whether the caller still waits
BAD_ADDRESS = 8  # where no task has memory
_PROT_READ, _MAP_PRIVATE = 1, 2
_SYSLOG_READS = frozenset((2, 3, 4))  # actions that fill a buffer

# What is left of a call, to be done without the lock: its value, or -errno.
Rest = Callable[[], int]


class Wanted(NamedTuple):
    """What a task is to do for a call."""

    ops: Callable[[int], Sequence[Op]]  # by the descriptor of a file that holds data
    number: int = 0  # of the operation whose result is the call's
    data: bytes | None = None  # None: there is no such file
    out: int = 0  # address in the caller where what is read goes


class Answered:
    """Answers those calls.  listener: that of the supervisor."""

    def __init__(self, kernel: LinuxKernel, host: Host, listener: int) -> None:
        self.kernel = kernel
        self.host = host
        self.listener = listener
        self.methods = {
            nr.SYSLOG: self.syslog,
            nr.INIT_MODULE: self.init_module,
            nr.DELETE_MODULE: self.delete_module,
            nr.FINIT_MODULE: self.finit_module,
        }

    def __call__(
        self, note: Notification, commit: Commit, task_of: Callable[[int], Task]
    ) -> int | Rest:
        """The call's value, -errno, or what is left of it.

        task_of: the task of a thread.  Context: the kernel's lock is not held.
        """
        wanted = self.methods[note.nr](note)
        with self.kernel.lock:
            if not commit():
                return -errno.EINTR  # nobody will know
            machine, tasks = self.kernel.machine, self.kernel.tasks
            try:
                task = task_of(note.pid)
                fd = -1
                if wanted.data is not None:
                    fd = self.kernel.make_file(task, wanted.data)
                ops = wanted.ops(fd)
                places = self.kernel.begin(task, ops)
            except KernelError as error:
                return -error.errno

            def finish() -> int:
                reply = Reply(machine, task.slot, places, len(ops))
                return self.finish(note, wanted, reply)

            if not task.waits:
                return finish()
            task.owed = True
        return lambda: self.wait(note, tasks, task, finish)

    def wait(
        self, note: Notification, tasks: Tasks, task: Task, finish: Callable[[], int]
    ) -> int:
        """Wait until a task does not, or its caller is gone."""
        while True:
            with self.kernel.lock:
                if not task.waits:
                    task.owed = False
                    try:
                        tasks.check(task)
                    except KernelError as error:
                        return -error.errno
                    return -errno.EINTR if task.gone else finish()
                waiter = task.waiter = Waiter()
            waiter.sleep(LOOK)
            if not waiter.awake and not is_valid(self.listener, note.id):
                with self.kernel.lock:
                    task.owed = False
                    if task.waits:
                        tasks.interrupt(task)
                return -errno.EINTR

    def finish(self, note: Notification, wanted: Wanted, reply: Reply) -> int:
        """The value, with what was read given to the caller."""
        value = next((v for v in reply.results[: wanted.number] if v < 0), 0)
        value = value or reply.results[wanted.number]
        if wanted.out and value > 0:
            data = reply.out(0, value)
            if not self.host.write(note.pid, wanted.out, data):
                return -errno.EFAULT
        return value

    def text(self, pid: int, address: int) -> Argument:
        """A string of the caller's, or an address that is as bad in the guest."""
        text = self.host.string(pid, address, TEXT_MAX)
        return BAD_ADDRESS if text is None else text + b"\0"

    # ---- the calls; the lock is not held
    def init_module(self, note: Notification) -> Wanted:
        address, size, words, *_ = note.args
        text = self.text(note.pid, words)
        data = b""
        if size <= MODULE_MAX:
            data = self.host.read(note.pid, address, size)
        if not data or len(data) < size:
            call = Op(nr.INIT_MODULE, (BAD_ADDRESS, size, text))
            return Wanted(lambda _fd: [call])
        how = _PROT_READ, _MAP_PRIVATE
        return Wanted(
            lambda fd: [
                Op(nr.MMAP, (0, size, *how, fd, 0), STOP),
                Op(nr.INIT_MODULE, (Result(0), size, text), STOP),
                Op(nr.MUNMAP, (Result(0), size), FINALLY),
                Op(nr.CLOSE, (fd,), FINALLY),
            ],
            number=1,
            data=data,
        )

    def finit_module(self, note: Notification) -> Wanted:
        number, words, flags, *_ = note.args
        text = self.text(note.pid, words)
        mode, data = self.contents(note.pid, number & 0xFFFFFFFF)
        if not mode:  # a bad descriptor
            call = Op(nr.FINIT_MODULE, (-1, text, flags))
            return Wanted(lambda _fd: [call])
        if not stat.S_ISREG(mode):
            there = b"/\0", os.O_RDONLY, 0
            return Wanted(
                lambda _fd: [
                    Op(nr.OPENAT, (nr.AT_FDCWD, *there)),
                    Op(nr.FINIT_MODULE, (Result(0), text, flags)),
                    Op(nr.CLOSE, (Result(0),)),
                ],
                number=1,
            )
        return Wanted(
            lambda fd: [
                Op(nr.FINIT_MODULE, (fd, text, flags)),
                Op(nr.CLOSE, (fd,)),
            ],
            data=data,
        )

    def contents(self, pid: int, fd: int) -> tuple[int, bytes]:
        """Mode and contents of a file that the caller can read; 0: it is none."""
        path = self.host.fd_path(pid, fd)
        if path is None or not self.host.can_read(pid, fd):
            return 0, b""
        mode = self.host.fd_type(pid, fd)
        if not stat.S_ISREG(mode) or self.host.in_tree(path):
            return mode, b""
        try:
            with open(f"/proc/{pid}/fd/{fd}", "rb") as file:
                return mode, file.read(MODULE_MAX)
        except OSError:
            return 0, b""

    def delete_module(self, note: Notification) -> Wanted:
        name, flags, *_ = note.args
        call = Op(nr.DELETE_MODULE, (self.text(note.pid, name), flags))
        return Wanted(lambda _fd: [call])

    def syslog(self, note: Notification) -> Wanted:
        action, address, size, *_ = note.args
        size &= 0xFFFFFFFF
        if action in _SYSLOG_READS and address and 0 < size < 1 << 31:
            room = min(size, CHUNK)
            read = Op(nr.SYSLOG, (action, Out(room), room))
            return Wanted(lambda _fd: [read], out=address)
        call = Op(nr.SYSLOG, (action, BAD_ADDRESS if address else 0, size))
        return Wanted(lambda _fd: [call])
