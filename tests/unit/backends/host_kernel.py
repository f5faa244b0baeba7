# SPDX-License-Identifier: GPL-2.0-or-later
"""A stand-in for a Linux kernel: the host's makes the system calls, below a folder."""

import ctypes
import os
from types import SimpleNamespace
from typing import Any

from kpfs.base.errors import KernelError
from kpfs.base.lock import FairLock
from kpfs.linux.running.machine import STOP, Out, Result
from kpfs.linux.running.tasks import Task

HOST_MACHINE = "x86_64"  # whose numbers of system calls those are


class HostReply:
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
        self.lock = FairLock()
        self.machine = SimpleNamespace(dead="")
        self.agent = self.fork(0)
        self.known: dict[int, Task] = {}
        self.tasks = SimpleNamespace(
            agent=self.agent,
            task=lambda caller: self.known.setdefault(
                caller.pid, self.fork(caller.pid)
            ),
            known=lambda pid: self.known.get(pid),
        )
        self.directories = SimpleNamespace(as_made=True)
        self.ready = SimpleNamespace(reader=lambda path: None)
        self.caught_up = 0
        self._libc = ctypes.CDLL(None, use_errno=True)

    def fork(self, pid):
        return Task(self.machine, 0, pid, pid, "task")  # type: ignore[arg-type]

    def catch_up(self):
        self.caught_up += 1

    def start(self, on_wake):
        self.on_wake = on_wake

    def follow_directories(self, on_change):
        self.on_change = on_change

    def request(self, task, ops, memory=b""):
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

    def begin(self, task, ops):
        task.waits = True

    def _call(self, op, reply):
        values: list[Any] = []
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
