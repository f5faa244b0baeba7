# SPDX-License-Identifier: GPL-2.0-or-later
"""Answers CMD's system calls about modules and the log by a Linux kernel.

The host's kernel never sees these calls. A module's init and exit may sleep as long as
they like: then a Completion remains, which waits without the kernel's lock, so that
nobody else is held up.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError
from kpfs.base.lock import Waiter
from kpfs.base.units import MODULE_MAX
from kpfs.linux.running.inserting import make_file
from kpfs.linux.running.linux_kernel import LinuxKernel
from kpfs.linux.running.machine import FINALLY, STOP, Argument, Op, Out, Reply, Result
from kpfs.linux.running.tasks import KILLED, AgentTask, Tasks
from kpfs.mirror.calls import BAD_ADDRESS
from kpfs.mirror.host import Host
from kpfs.mirror.kernel import Commit
from kpfs.mirror.seccomp import Notification, is_valid

CHUNK = 1 << 17  # bytes that pass between a task and the host at once
TEXT_MAX = 1 << 12  # bytes of a name, or of parameters
LOOK = 0.2  # s between looks whether the caller still waits
# actions that fill a buffer: SYSLOG_ACTION_READ, _READ_ALL, _READ_CLEAR
_SYSLOG_READS = frozenset((2, 3, 4))

# Finishes a call without the lock: returns its value, or -errno.
Completion = Callable[[], int]


class TaskWork(NamedTuple):
    """The system calls that a task makes to answer one."""

    ops: Callable[[int], Sequence[Op]]  # given the descriptor of a file with data
    number: int = 0  # index of the operation whose result is the call's
    data: bytes | None = None  # None: no file is needed
    out: int = 0  # address in the caller for what is read


Outcome = tuple[int, bytes]  # the value of a call, and what the caller reads


def outcome(work: TaskWork, reply: Reply) -> Outcome:
    """Return the outcome of work that a task has done.  Context: lock held."""
    value = next((v for v in reply.results[: work.number] if v < 0), 0)
    value = value or reply.results[work.number]
    if not work.out or value <= 0:
        return value, b""
    try:
        return value, reply.out(0, value)
    except KernelError as error:
        return -error.errno, b""


class LinuxAnsweredCalls:
    """The answers to these calls. listener: the supervisor's."""

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
        self, note: Notification, commit: Commit, task_of: Callable[[int], AgentTask]
    ) -> int | Completion:
        """Return the call's value, -errno, or a Completion.

        task_of: finds the task of a thread. Context: the kernel's lock is not held.
        """
        work = self.methods[note.nr](note)
        with self.kernel.lock:
            if not commit():
                return -errno.EINTR  # the caller is gone
            machine, tasks = self.kernel.machine, self.kernel.tasks
            try:
                task = task_of(note.pid)
                fd = -1
                if work.data is not None:
                    fd = make_file(partial(tasks.request, task), work.data)
                ops = work.ops(fd)
                places = self.kernel.tasks.begin(task, ops)
            except KernelError as error:
                return -error.errno

            def finish() -> Outcome:
                reply = Reply(machine, task.slot, places, len(ops))
                return outcome(work, reply)

            done = None if task.waits else finish()
            task.owed = done is None
        if done is not None:
            return self.give(note, work, *done)
        return lambda: self.wait(note, work, tasks, task, finish)

    def wait(
        self,
        note: Notification,
        work: TaskWork,
        tasks: Tasks,
        task: AgentTask,
        finish: Callable[[], Outcome],
    ) -> int:
        """Wait until the task has made its calls or the caller is gone."""
        while True:
            with self.kernel.lock:
                if not task.waits:
                    task.owed = False
                    try:
                        tasks.check(task)
                    except KernelError as error:
                        return -error.errno
                    if task.gone:
                        return -KILLED
                    done = finish()
                    break
                waiter = task.waiter = Waiter()
            waiter.sleep(LOOK)
            if not waiter.awake and not is_valid(self.listener, note.id):
                with self.kernel.lock:
                    task.owed = False
                    if task.waits:
                        tasks.interrupt(task)
                return -errno.EINTR
        return self.give(note, work, *done)

    def give(self, note: Notification, work: TaskWork, value: int, data: bytes) -> int:
        """Give the caller what was read, and return the call's value.

        Context: the lock is not held, as the caller's memory may be a file's of the
        mount.
        """
        if data and not self.host.write(note.pid, work.out, data):
            return -errno.EFAULT
        return value

    def text(self, pid: int, address: int) -> Argument:
        """Return a string of the caller, or an address that is as bad in the kernel."""
        text = self.host.string(pid, address, TEXT_MAX)
        return BAD_ADDRESS if text is None else text + b"\0"

    # ---- the calls.  Context: the lock is not held
    def init_module(self, note: Notification) -> TaskWork:
        address, size, words, *_ = note.args
        text = self.text(note.pid, words)
        data = b""
        if size <= MODULE_MAX:
            data = self.host.read(note.pid, address, size)
        if not data or len(data) < size:
            call = Op(nr.INIT_MODULE, (BAD_ADDRESS, size, text))
            return TaskWork(lambda _fd: [call])
        how = mmap.PROT_READ, mmap.MAP_PRIVATE
        return TaskWork(
            lambda fd: [
                Op(nr.MMAP, (0, size, *how, fd, 0), STOP),
                Op(nr.INIT_MODULE, (Result(0), size, text), STOP),
                Op(nr.MUNMAP, (Result(0), size), FINALLY),
                Op(nr.CLOSE, (fd,), FINALLY),
            ],
            number=1,
            data=data,
        )

    def finit_module(self, note: Notification) -> TaskWork:
        number, words, flags, *_ = note.args
        text = self.text(note.pid, words)
        mode, data = self.contents(note.pid, number & 0xFFFFFFFF)
        if not mode:  # the descriptor is bad
            call = Op(nr.FINIT_MODULE, (-1, text, flags))
            return TaskWork(lambda _fd: [call])
        if not stat.S_ISREG(mode):
            there = b"/\0", os.O_RDONLY, 0
            return TaskWork(
                lambda _fd: [
                    Op(nr.OPENAT, (nr.AT_FDCWD, *there)),
                    Op(nr.FINIT_MODULE, (Result(0), text, flags)),
                    Op(nr.CLOSE, (Result(0),)),
                ],
                number=1,
            )
        return TaskWork(
            lambda fd: [Op(nr.FINIT_MODULE, (fd, text, flags)), Op(nr.CLOSE, (fd,))],
            data=data,
        )

    def contents(self, pid: int, fd: int) -> tuple[int, bytes]:
        """Return mode and contents of a file that the caller has open.

        The mode is 0 if the caller cannot read it.
        """
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

    def delete_module(self, note: Notification) -> TaskWork:
        name, flags, *_ = note.args
        call = Op(nr.DELETE_MODULE, (self.text(note.pid, name), flags))
        return TaskWork(lambda _fd: [call])

    def syslog(self, note: Notification) -> TaskWork:
        action, address, size, *_ = note.args
        size &= 0xFFFFFFFF
        if action in _SYSLOG_READS and address and 0 < size < 1 << 31:
            room = min(size, CHUNK)
            read = Op(nr.SYSLOG, (action, Out(room), room))
            return TaskWork(lambda _fd: [read], out=address)
        call = Op(nr.SYSLOG, (action, BAD_ADDRESS if address else 0, size))
        return TaskWork(lambda _fd: [call])
