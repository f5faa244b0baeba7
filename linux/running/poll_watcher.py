# SPDX-License-Identifier: GPL-2.0-or-later
"""A task that waits until open files of the mount may have become ready.

A poller of the host waits in the host's kernel, which asks once whether a file is
ready, and is to be told when that may have changed.  The task of its process cannot
wait for it: it has other calls to make, and each of them would end the wait.  So one
task of ours waits for all files, by epoll(7).  It is edge-triggered: each wake-up of
the kernel is told once, also of a file that was ready before, as pollers with EPOLLET
need it.

What must always hold:

- Adding a file tells of it at once if it is ready.  That is no news for the poller that
  asks, and is dropped.
- Who was told asks again before being told once more.  A file that nobody has asked
  about since is watched no longer.
- Some files say once that they have changed, and the task may be who asks: such events
  are kept for the next poller.
- A file that is closed leaves the task at once: some can be opened by one at a time.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import Caller
from kpfs.linux.running.files import MountedFile, OpenFiles
from kpfs.linux.running.linux_kernel import LinuxKernel
from kpfs.linux.running.machine import ArgumentOffset, MachineDiedError, Op, Out
from kpfs.linux.running.tasks import NO_PROCESS, AgentTask

Wake = Callable[[], None]
NAME = "kpfs-poll"
EVENTS = nr.POLLIN | nr.POLLPRI | nr.POLLOUT | nr.EPOLLET
CHANGES = nr.POLLPRI | nr.POLLERR  # Kernel: proc_sys_poll(), mounts_poll()
# struct epoll_event, which x86-64 packs and others do not: the descriptor is in both
# halves of the data, so that one of them stands in the third word
EVENT = "4I"
DESCRIPTOR = 2


class PollWatcher:
    """The files that pollers wait for.  Context: the kernel's lock is held."""

    def __init__(self, kernel: LinuxKernel, files: OpenFiles) -> None:
        self._kernel = kernel
        self._files = files
        self._wakes: dict[MountedFile, Wake] = {}
        self._changes: dict[MountedFile, int] = {}
        self._event = kernel.arch.model.struct(EVENT)
        self._task: AgentTask | None = None
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Forget the task, and all that it watched."""
        self._task = None
        self._epoll = -1
        self._watched: dict[int, MountedFile] = {}  # by the task's descriptors
        self._places: list[ArgumentOffset] | None = (
            None  # while it waits, or has waited
        )

    def watch(self, opened: MountedFile) -> bool:
        """Have the kernel tell what happens to a file; False: it is always ready."""
        if opened in self._watched.values() or not opened.can_wait:
            return opened.can_wait
        task = self._idle_task()
        fd = self._files.descriptor_of(task, opened)
        event = self._event.pack(EVENTS, fd, fd, 0)
        add = Op(nr.EPOLL_CTL, (self._epoll, nr.EPOLL_CTL_ADD, fd, event))
        result = self._made(task, add)
        if result == -errno.EPERM:
            opened.can_wait = False
            return False
        if result < 0:
            raise KernelError(errno.EOPNOTSUPP, "no epoll")
        self._watched[fd] = opened
        self._take(task, but=opened)
        return True

    def expect(self, opened: MountedFile, wake: Wake) -> None:
        """Call wake() once when something has happened to a file since watch()."""
        self._wakes[opened] = wake
        self._wait()

    def take_changes(self, opened: MountedFile) -> int:
        """Return the events of CHANGES that the task has seen in place of pollers."""
        return self._changes.pop(opened, 0)

    def forget(self, opened: MountedFile) -> None:
        """Give a file back, which is about to be closed."""
        self._changes.pop(opened, None)
        self._wakes.pop(opened, None)
        task = self._task
        if task is None or task not in opened.fds:
            return
        if self._is_there():
            task = self._idle_task()
        fd = opened.fds.pop(task, -1)
        self._unwatch(task, fd)
        if self._is_there():
            self._made(task, Op(nr.CLOSE, (fd,)))
        self._wait()

    def look(self) -> None:
        """Wake those whose files may be ready now."""
        task = self._task
        if task is None or self._places is None or task.waits:
            return
        try:
            if self._is_there():
                self._finish(task, self._places)
                self._take(task)
            self._wait()
        except MachineDiedError:
            self._wake_all()

    # ---- the task
    def _is_there(self) -> bool:
        """Return True if the task lives, in the present machine."""
        task, machine = self._task, self._kernel.machine
        return (
            task is not None
            and not (task.gone or machine.dead)
            and task.machine is machine
        )

    def _idle_task(self) -> AgentTask:
        """Return the task, which is made if there is none; it does not wait."""
        tasks, task = self._kernel.tasks, self._task
        if task is not None and self._is_there():
            self._places = None
            if tasks.free(task):
                return task
        if task is not None:
            self._wake_all()
        caller = Caller(NO_PROCESS, tasks.owner, os.getgid())
        task = self._task = tasks.fork(tasks.agent, caller, NAME)
        self._epoll = self._made(task, Op(nr.EPOLL_CREATE1, (0,)))
        return task

    def _made(self, task: AgentTask, op: Op) -> int:
        """Make a call of the task; return its result."""
        return self._kernel.tasks.ask(task, [op]).results[0]

    def _wait(self) -> None:
        """Let the task wait, if there is anybody to be woken by it."""
        task = self._task
        if task is None or not self._is_there():
            self._wake_all()
            return
        while self._wakes and self._places is None:
            wait = self._next_event(-1)
            self._places = self._kernel.tasks.begin_to_wait(task, wait)
            if not task.waits:
                self._finish(task, self._places)

    def _finish(self, task: AgentTask, places: list[ArgumentOffset]) -> None:
        """Tell of the event that the task has waited for."""
        self._places = None
        machine = self._kernel.machine
        if machine.results(task.slot, 1)[0] == 1:
            self._tell(task, machine.data(task.slot, places[0], self._event.size))
        else:
            self._wake_all()

    def _next_event(self, milliseconds: int) -> Op:
        room = Out(self._event.size)
        return Op(nr.EPOLL_PWAIT, (self._epoll, room, 1, milliseconds, 0, 8))

    # ---- what it tells
    def _take(self, task: AgentTask, but: MountedFile | None = None) -> None:
        """Tell of all that has happened.  but: of a file of which it is no news."""
        for _ in range(len(self._watched)):
            reply = self._kernel.tasks.ask(task, [self._next_event(0)])
            if reply.results[0] != 1:
                return
            self._tell(task, reply.out(0, self._event.size), but)

    def _tell(
        self, task: AgentTask, event: bytes, but: MountedFile | None = None
    ) -> None:
        """Wake the poller of a file; a file that has none is watched no longer."""
        words = self._event.unpack(event)
        fd = words[DESCRIPTOR]
        opened = self._watched.get(fd)
        if opened is None:
            return
        if words[0] & CHANGES:
            self._changes[opened] = self._changes.get(opened, 0) | words[0] & CHANGES
        if opened is but:
            return
        wake = self._wakes.pop(opened, None)
        if wake is None:
            self._unwatch(task, fd)
        else:
            wake()

    def _unwatch(self, task: AgentTask, fd: int) -> None:
        if self._watched.pop(fd, None) is not None and self._is_there():
            no_event = bytes(self._event.size)
            out = Op(nr.EPOLL_CTL, (self._epoll, nr.EPOLL_CTL_DEL, fd, no_event))
            self._made(task, out)

    def _wake_all(self) -> None:
        """Have all pollers ask again, as the task is no more."""
        for opened in self._watched.values():
            if self._task is not None:
                opened.fds.pop(self._task, None)
        self._begin_anew()
        wakes, self._wakes = self._wakes, {}
        for wake in wakes.values():
            wake()
