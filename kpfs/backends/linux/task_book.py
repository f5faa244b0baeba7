# SPDX-License-Identifier: GPL-2.0-or-later
"""The tasks of a Linux kernel that a command's processes have, with their descriptors.

A task is forked by the task of its process's creator.  If calls were left out, catching
up brings the task to the state of its process: it exists or has ended, has its name,
and has descriptors of files of the same names.
"""

from __future__ import annotations

import os
import stat
import threading
from collections import defaultdict
from copy import copy
from typing import NamedTuple

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.ktypes import Caller
from kpfs.linux.running.files import OpenFiles
from kpfs.linux.running.linux_kernel import LinuxKernel
from kpfs.linux.running.machine import Op
from kpfs.linux.running.tasks import AgentTask
from kpfs.mirror.host import Descriptor, Host
from kpfs.mirror.process_table import ProcessTable

THERE = frozenset((b"/", b"/proc", b"/sys", b"/dev", b"/tmp"))  # in each guest
MAX_FD = 400  # below those that are out of the way


class HostFile(NamedTuple):
    """A file of the host that a path or descriptor leads to."""

    path: bytes
    mode: int
    size: int


class TaskFiles:
    """The descriptors and the directory of a task."""

    def __init__(self) -> None:
        self.open: set[int] = set()
        self.cwd = b""
        # sockets whose other end is there, too: what they lead to, b"" before a look
        self.pairs: dict[int, bytes] = {}
        # the descriptors of its process, if the task has just those
        self.same: list[tuple[int, bytes]] | None = None

    def copy(self) -> TaskFiles:
        made = copy(self)
        made.open, made.pairs = set(self.open), dict(self.pairs)
        return made


class LinuxTaskBook(ProcessTable[AgentTask]):
    """The maker of tasks in a Linux kernel.  Context: the kernel's lock is held."""

    def __init__(self, kernel: LinuxKernel, files: OpenFiles, host: Host) -> None:
        super().__init__(host, kernel.lock)
        self.kernel = kernel
        self.files = files
        kernel.follow(self.restart)
        kernel.skip_policy.join_tasks(self)
        kernel.make_tasks_by(self.create)
        self.restart()

    def restart(self) -> None:
        """Start anew: another machine runs, which has seen nothing yet."""
        self.has = defaultdict[AgentTask, TaskFiles](TaskFiles)
        self.made = set(THERE)

    # ---- one task
    def find(self, pid: int) -> AgentTask | None:
        return self.kernel.tasks.known(pid)

    def task(self, pid: int) -> AgentTask:
        task = self._current(pid)
        if pid in self.behind:
            self.behind.discard(pid)
            self.copy_descriptors(task)
            self.copy_directory(task)
        return task

    def _current(self, pid: int) -> AgentTask:
        """Return the task of a thread, which may lack descriptors."""
        tasks = self.kernel.tasks
        return tasks.current(pid) or tasks.task(Caller(pid, self.host.uid(pid), 0))

    def create(self, caller: Caller, comm: str) -> AgentTask:
        """Fork a task of a new caller, by the task of its creator."""
        tasks = self.kernel.tasks
        if any(thread.native_id == caller.pid for thread in threading.enumerate()):
            # it opens a file that a program reads when this thread has ended: see
            # kpfs.mirror.host_overrides.HostOverrides.open()
            return tasks.agent
        creator = self.host.creator(caller.pid)
        parent = tasks.known(creator)
        if parent is None and creator in self.behind:
            parent = self._current(creator)
        if parent is None or parent.waits:
            self.behind.add(caller.pid)  # it has no descriptors yet
            return tasks.fork(tasks.agent, caller, comm)
        if not self.host.same_descriptors(caller.pid, creator):
            self.behind.add(caller.pid)  # it was forked long ago
        task = tasks.fork(parent, caller, comm)
        self.files.inherit(parent, task)
        self.has[task] = self.has[parent].copy()
        return task

    def exit(self, task: AgentTask, status: int) -> None:
        self.has.pop(task, None)
        self.kernel.tasks.exit(task, status & 0xFF)

    # ---- catching up
    def is_in_call(self, pid: int) -> bool:
        task = self.find(pid)
        return task is not None and (task.waits or task.owed)

    def bring(self, pid: int) -> None:
        self.task(pid)

    def end(self, pid: int) -> None:
        task = self.find(pid)
        if task is not None:
            self.exit(task, 0)
        self.forget(pid)

    def copy_descriptors(self, task: AgentTask) -> None:
        """Give a task the descriptors that its process has."""
        pid, has = task.host_pid, self.has[task]
        there = [
            fd
            for fd in self.host.descriptors(pid)
            if not fd.in_tree and fd.number < MAX_FD
        ]
        numbers = [(fd.number, fd.link) for fd in there]
        if has.same == numbers:
            return
        # the pairs of sockets that the process still has
        pairs = {
            fd.number: fd.link
            for fd in there
            if has.pairs.get(fd.number) in (b"", fd.link)
            and fd.link.startswith(b"socket:")
        }
        # a file that could not be opened has left its number to one of the mount
        closes = [
            Op(nr.CLOSE, (fd,))
            for fd in has.open
            if fd not in pairs and not self.files.holds(task, fd)
        ]
        for start in range(0, len(closes), abi.NR_OPS):
            self.kernel.tasks.attempt(task, closes[start : start + abi.NR_OPS])
        has.open, has.pairs = set(pairs), pairs
        for fd in there:
            # one of the mount stays where it is: a request may be about it already
            if not self.files.holds(task, fd.number):
                how = fd.flags & os.O_CLOEXEC
                self.provide(task, fd.number, self._file(fd), how)
        has.same = numbers

    def copy_directory(self, task: AgentTask) -> None:
        """Change a task's directory to that of its process."""
        cwd = self.host.cwd(task.host_pid)
        if self.has[task].cwd != cwd and not self.host.in_tree(cwd):
            self.enter(task, cwd)

    def _file(self, fd: Descriptor) -> HostFile:
        if not fd.name or fd.name.startswith(b"/dev/"):
            return HostFile(b"/dev/zero", 0, 0)  # a pipe, a socket, a terminal
        return HostFile(fd.name, fd.mode, fd.size if stat.S_ISREG(fd.mode) else 0)

    # ---- files
    def enter(self, task: AgentTask, cwd: bytes) -> None:
        """Change the task's directory."""
        self.make_path(HostFile(cwd, stat.S_IFDIR | 0o755, 0))
        self.kernel.tasks.attempt(task, [Op(nr.CHDIR, (cwd + b"\0",))])
        self.has[task].cwd = cwd

    def provide(self, task: AgentTask, fd: int, file: HostFile, flags: int = 0) -> None:
        """Give a task a descriptor of a file, if it has none of that number.

        flags: O_CLOEXEC or 0.
        """
        fds = self.has[task].open
        if fd in fds:
            return
        self.files.make_room(task, fd)
        self.make_path(file)
        folder = stat.S_ISDIR(file.mode)
        how = os.O_RDONLY | nr.O_DIRECTORY if folder else os.O_RDWR
        path = file.path + b"\0"
        opening = Op(nr.OPENAT, (nr.AT_FDCWD, path, how | flags, 0))
        made = self.kernel.tasks.attempt(task, [opening])
        if made and 0 <= made[0] != fd:
            move = Op(nr.DUP3, (made[0], fd, flags)), Op(nr.CLOSE, (made[0],))
            self.kernel.tasks.attempt(task, move)
        fds.add(fd)

    def is_there(self, path: bytes) -> bool:
        """Return True if the kernel has a file, or has its own there.  Context: any."""
        return path in self.made or path.startswith((b"/proc/", b"/sys/", b"/dev/"))

    def make_path(self, file: HostFile) -> None:
        """Make a file or directory in the kernel, with the directories above it."""
        path, mode, size = file
        if self.is_there(path):
            return
        ops, parts = [], path.strip(b"/").split(b"/")
        for count in range(1, len(parts)):
            folder = b"/" + b"/".join(parts[:count])
            if folder not in self.made:
                self.made.add(folder)
                ops.append(Op(nr.MKDIRAT, (nr.AT_FDCWD, folder + b"\0", 0o755)))
        name = path + b"\0"
        if stat.S_ISDIR(mode):
            ops.append(Op(nr.MKDIRAT, (nr.AT_FDCWD, name, 0o755)))
        else:
            how = stat.S_IFREG | 0o644
            ops.append(Op(nr.MKNODAT, (nr.AT_FDCWD, name, how, 0)))
            if size:
                ops.append(Op(nr.TRUNCATE, (name, size)))
        self.made.add(path)
        for start in range(0, len(ops), abi.NR_OPS):
            # no request, before which tasks would catch up: that may be what needs it
            self.kernel.tasks.ask(
                self.kernel.tasks.agent, ops[start : start + abi.NR_OPS]
            )
