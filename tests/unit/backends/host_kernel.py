# SPDX-License-Identifier: GPL-2.0-or-later
"""A stand-in for a Linux kernel: the host's makes the system calls, below a folder."""

import ctypes
import os
from types import SimpleNamespace
from typing import Any

from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError
from kpfs.base.lock import FairLock
from kpfs.linux.arch.arches import X86_64
from kpfs.linux.running.machine import STOP, Op, Out, Result
from kpfs.linux.running.tasks import AgentTask

HOST_MACHINE = "x86_64"  # whose numbers of system calls those are


class HostReply:
    model = X86_64.model

    def __init__(self):
        self.results = []
        self.places = []  # buffers of the arguments that lie in memory

    def out(self, number, size):
        return self.places[number].raw[:size]

    def taken(self, number, size):
        assert self.results[number] <= size
        return self.results[number]


class HostKernel:
    """Has what LinuxTree and OpenFiles ask of a LinuxKernel."""

    def __init__(self, top):
        self.top_folder, self.top = top, os.fsencode(top)
        self.lock, self.arch = FairLock(), X86_64
        self._last = HostReply()
        self._begun: dict[AgentTask, list[Op]] = {}
        self.machine = SimpleNamespace(
            dead="",
            results=lambda _slot, count: self._last.results[:count],
            data=lambda _slot, place, size: self._last.out(place, size),
        )
        self.agent = self.fork(0)
        self.known: dict[int, AgentTask] = {}
        self.tasks = SimpleNamespace(
            agent=self.agent,
            task=lambda caller: self.known.setdefault(
                caller.pid, self.fork(caller.pid)
            ),
            known=lambda pid: self.known.get(pid),
            fork=lambda _parent, caller, _comm: self.fork(caller.pid),
            free=self.free,
            ask=self.request,
            request=self.request,
            call=self.call,
            begin_to_wait=self.begin_to_wait,
            owner=0,
        )
        self.directories = SimpleNamespace(as_made=True)
        self.ready = SimpleNamespace(reader=lambda path: None)
        self.caught_up = 0
        self._libc = ctypes.CDLL(None, use_errno=True)

    def fork(self, pid):
        return AgentTask(self.machine, 0, pid, pid, "task")  # type: ignore[arg-type]

    def catch_up(self):
        self.caught_up += 1

    def start(self, on_wake):
        self.on_wake = on_wake

    def follow(self, follower):
        self.on_reboot = follower

    def follow_directories(self, on_change):
        self.on_change = on_change

    @property
    def waiting(self):
        return len(self._begun)

    def free_all(self):
        """End all waits without a result; return the tasks."""
        tasks = list(self._begun)
        return [task for task in tasks if self.free(task)]

    def free(self, task):
        self._begun.pop(task, None)
        task.waits = False
        return not task.gone

    def request(self, task, ops, memory=b""):
        assert not task.waits
        reply = HostReply()
        for op in ops:
            reply.results.append(self._call(op, reply))
            if reply.results[-1] < 0 and op.flags & STOP:
                reply.results += [reply.results[-1]] * (len(ops) - len(reply.results))
                break
        return reply

    def call(self, task, *ops, why=""):
        reply = self.request(task, ops)
        for result in reply.results:
            if result < 0:
                raise KernelError(-result, why)
        return reply

    def begin_to_wait(self, task, op):
        """Have a task wait until finish(), whatever it is to wait for."""
        self._begun[task] = [op]
        task.waits = True
        return [0]

    def finish(self):
        """Make the calls of tasks that wait, which do not wait any more."""
        for task, ops in list(self._begun.items()):
            self.free(task)
            self._last = self.request(task, ops)
        self.on_wake()

    def _call(self, op, reply):
        values: list[Any] = []
        if op.nr == nr.PIDFD_OPEN:  # all tasks are this process
            op = op._replace(args=(os.getpid(), 0))
        for value in op.args:
            if isinstance(value, Result):
                values.append(ctypes.c_long(reply.results[value.op]))
            elif isinstance(value, int):
                values.append(ctypes.c_long(value))
            else:
                data = bytes(value.size) if isinstance(value, Out) else value
                if data.startswith(b"/"):
                    data = self.top + data
                buffer = ctypes.create_string_buffer(data, max(len(data), 1))
                reply.places.append(buffer)
                values.append(ctypes.byref(buffer))
        result = self._libc.syscall(ctypes.c_long(op.nr), *values)
        return -ctypes.get_errno() if result < 0 else result
