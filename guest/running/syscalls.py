# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls and function calls, made by tasks of the guest.  Context: control."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Sequence

from kpfs.base import abi
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import MASK64
from kpfs.base.typed import NamedTuple
from kpfs.base.units import MAX_ARGS
from kpfs.guest.emu.memory import Memory
from kpfs.guest.running.hostop import HostOpHandler
from kpfs.guest.running.hosttask import NO_WORDS, Arg, HostTask, as_bytes
from kpfs.guest.running.requests import BLOCKED, Requests

_REQUEST = abi.KpfsRequest.STRUCT
_COUNT_AT = abi.KpfsRequest.args + 8  # the count in a REQ_SYSCALLS
CALLS_AT_ONCE = 64
_U64 = struct.Struct("<Q")


class PreparedCall(NamedTuple):
    """A function of the guest with its arguments, and the request that calls it."""

    words: tuple[int, ...]
    request: bytes


class Syscalls:
    """Makes system calls and function calls in the guest."""

    def __init__(
        self,
        memory: Memory,
        requests: Requests,
        *,
        numbers: Callable[[], dict[str, int]],
        address_of: Callable[[str], int | None],
    ) -> None:
        """numbers: reads the system calls' from the guest."""
        self._memory, self._ram = memory, memory.ram
        self._requests = requests
        self._numbers = numbers
        self._address_of = address_of
        self._number_of: dict[str, int] = {}

    def call(
        self,
        task: HostTask,
        nr: int | str,
        *args: Arg,
        host_op: HostOpHandler | None = None,
        sleeps: bool = False,
    ) -> int:
        """Make a system call as a task; return its value, or -errno.

        Strings and bytes go to the task's user memory.  ``host_op`` runs when the call
        reaches a file of the mount; a KernelError it raises is the call's -errno, any
        other exception is raised here once the call is over.  BLOCKED if the task went
        to sleep.  In a host operation the task that stands there makes the call.

        sleeps: it may do so for long: on a live machine nobody waits for it here, and
        on a quiet one what is to be done later is done in between.  See collect().
        """
        if isinstance(nr, str):
            nr = self.number(nr)
        if not self._requests.inside:
            return self.request(task, abi.REQ_SYSCALL, nr, args, host_op, sleeps)
        task = self._requests.inside[-1][0]
        task.refusal = self._requests.refusal = None
        pid = task.pid
        outer = self._requests.host_ops.get(pid)
        if host_op is not None:
            self._requests.host_ops[pid] = host_op
        try:
            return self._requests.perform_nested(abi.REQ_SYSCALL, nr, args)
        finally:
            self._requests.refusal = task.refusal
            if outer is not None:
                self._requests.host_ops[pid] = outer

    def call_some(
        self,
        task: HostTask,
        calls: Sequence[tuple[str, Sequence[Arg]]],
        host_op: HostOpHandler,
    ) -> tuple[int, int]:
        """Make the first few of some system calls, up to one that fails, in one go.

        They are as call() makes them, but the task does not sleep in between.
        Returns how many were begun, one at least, and the value of the last one.
        """
        rows: list[list[int]] = []
        strings = b""
        for name, args in calls[:CALLS_AT_ONCE]:
            try:
                words, more = self._row(task.user + len(strings), name, args)
            except KernelError:
                if not rows:
                    raise
                break  # the others come first
            size = len(strings) + len(more) + (len(rows) + 1) * _REQUEST.size
            if size > abi.USER_BUFFER:
                break
            rows.append(words)
            strings += more
        if len(rows) <= 1 or self._requests.inside:
            name, args = calls[0]
            return 1, self.call(task, name, *args, host_op=host_op)
        self._requests.begin(task)
        table = b"".join([_REQUEST.pack(abi.REQ_SYSCALL, *words, 0) for words in rows])
        self._memory.write(task.user, strings + table)
        self._requests.host_ops[task.pid] = host_op
        request = task.user + len(strings), len(rows), *NO_WORDS[2:]
        _REQUEST.pack_into(self._ram, task.req_at, abi.REQ_SYSCALLS, 0, *request, 0)
        ret = self._requests.perform(task)
        if ret == BLOCKED:  # so that the others do not follow
            _U64.pack_into(self._ram, task.req_at + _COUNT_AT, 0)
        # of a task that is gone it may be anything
        return min(max(self._requests.begun(task), 1), len(rows)), ret

    def _row(self, at: int, name: str, args: Sequence[Arg]) -> tuple[list[int], bytes]:
        """Return a call's number and seven words, and its strings, to be at ``at``."""
        words = [self.number(name), 0, 0, 0, 0, 0, 0, 0]
        strings = b""
        for index, arg in enumerate(args, 1):
            if isinstance(arg, int):
                words[index] = arg & MASK64
            else:
                words[index] = at + len(strings)
                data = as_bytes(arg)
                strings += data + bytes(-len(data) % 8)
        return words, strings

    def collect(self, task: HostTask) -> int:
        """Return the value of a call that was BLOCKED; BLOCKED while it sleeps."""
        if task.gone:
            self._requests.exited.pop(task.pid, None)
            return -errno.EFAULT
        if task.blocked and not self._requests.has_ended(task):
            return BLOCKED
        return self._requests.value(task)

    def has_ended(self, task: HostTask) -> bool:
        """Return True if collect() has a value."""
        return task.gone or not task.blocked or self._requests.is_done(task)

    def interrupt(self, task: HostTask) -> None:
        """Wake a task whose process has got a signal.

        Unless nothing wakes it but what it waits for.
        """
        func = self._address_of("kpfs_interrupt")
        if func is not None and not task.gone:
            self.call_function(self._requests.awake(), func, task.addr)

    def call_function(self, task: HostTask | None, func: int, *args: int) -> int:
        """Run a kernel function as a task (None: init); return its signed value.

        In a host operation the task that stands there runs it.
        """
        if len(args) > MAX_ARGS:
            raise KernelError(errno.EINVAL, "more than six arguments")
        task = task or self._requests.awake()
        if self._requests.inside:
            return self.request(task, abi.REQ_CALL, 0, (func, *args))
        self._requests.begin(task)
        words = func, *[arg & MASK64 for arg in args], *NO_WORDS[len(args) + 1 :]
        _REQUEST.pack_into(self._ram, task.req_at, abi.REQ_CALL, 0, *words, 0)
        return self._requests.perform(task)

    def prepare(self, func: int, *args: int) -> PreparedCall:
        """Prepare a call of a function that is made often; see call_prepared()."""
        words = func, *args
        request = _REQUEST.pack(abi.REQ_CALL, 0, *words, *NO_WORDS[len(words) :], 0)
        return PreparedCall(words, request)

    def call_prepared(self, task: HostTask, call: PreparedCall) -> int:
        """Call a function as call_function() does, by a prepared request."""
        if self._requests.inside:
            return self.request(task, abi.REQ_CALL, 0, call.words)
        self._requests.begin(task)
        at = task.req_at
        self._ram[at : at + len(call.request)] = call.request
        return self._requests.perform(task)

    def number(self, name: str) -> int:
        """Return the number of a system call by name; ENOSYS if the guest has none."""
        if not self._number_of:
            self._number_of = self._numbers()
        try:
            return self._number_of[name]
        except KeyError:
            raise KernelError(errno.ENOSYS, f"no system call {name}") from None

    def request(
        self,
        task: HostTask,
        kind: int,
        nr: int,
        args: tuple[Arg, ...],
        host_op: HostOpHandler | None = None,
        sleeps: bool = False,
    ) -> int:
        if self._requests.inside:
            return self._requests.perform_nested(kind, nr, args)
        self._requests.begin(task)
        if host_op is not None:
            self._requests.host_ops[task.pid] = host_op
        words = task.place(args)
        _REQUEST.pack_into(self._ram, task.req_at, kind, nr, *words, 0)
        return self._requests.perform(task, sleeps)
