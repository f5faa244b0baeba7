# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls of the guest that are made for processes of the host."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from kpfs.backends.guest.root.background import Background
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import Caller
from kpfs.base.lock import FairLock, Waiter
from kpfs.base.units import PAGE_SIZE
from kpfs.guest.loader.modules import Parameter
from kpfs.guest.machine import Guest
from kpfs.guest.running.hostop import HostOp, HostOpHandler
from kpfs.guest.running.hosttask import HostTask
from kpfs.guest.running.requests import BLOCKED
from kpfs.guest.running.syscalls import CALLS_AT_ONCE


def _no_files(_request: HostOp) -> int:
    raise KernelError(errno.ENOENT, "there is no tree")


class HostCalls:
    """The maker of these system calls.  Context: control, lock held."""

    def __init__(self, guest: Guest, background: Background, lock: FairLock) -> None:
        """background: is told after each, and knows how to wait."""
        self._guest = guest
        self._background = background
        self._lock = lock
        self._files: HostOpHandler = _no_files
        self.closed = False  # the guest is gone
        self._nr_calls = 0
        self._busy = 0  # ns in calls
        self.marked = 0  # open files of the mount that a mirror follows
        self.moves = 0  # how often a mirror may have moved descriptors of the mount
        self._pages: list[int] = []  # for values of parameters, while no call has them

    def attach_files(self, serve: HostOpHandler) -> None:
        """Have the mount's files served to calls that nobody made through it."""
        self._files = serve
        self._guest.requests.attach_files(serve)

    def task(self, caller: Caller) -> HostTask:
        """Return the caller's task in the guest; fork one there if it is new."""
        return self.task_of(caller.pid, caller.uid)

    def task_of(self, pid: int, uid: int) -> HostTask:
        """Return the task of a process of the host, as the user that it is."""
        guest = self._guest
        if self.closed or guest.sched.dead:
            self.check()
        return guest.host_tasks.of_process(pid, uid)

    def all_tasks(self) -> list[HostTask]:
        """Return all tasks that calls were made for."""
        return self._guest.requests.all_tasks()

    def reap(self) -> None:
        """Let the tasks of processes that have ended exit."""
        self.check()
        self._guest.host_tasks.reap()

    @property
    def lives(self) -> bool:
        """Return True if check() has nothing to refuse."""
        return not (self.closed or self._guest.sched.dead)

    @property
    def dead(self) -> str:
        """Return why the guest is dead; "" if it lives, or is gone."""
        return "" if self.closed else self._guest.sched.dead

    def check_present(self) -> None:
        """Refuse a request for a file of a guest that is gone."""
        if self.closed:
            raise KernelError(errno.ESHUTDOWN, "the guest is gone")

    def check(self) -> None:
        """Refuse what needs a guest that lives: ESHUTDOWN."""
        if not self.lives:
            self.check_present()
            raise KernelError(errno.ESHUTDOWN, self.dead)

    def call(
        self,
        task: HostTask,
        name: str,
        *args: int | str | bytes,
        host_op: HostOpHandler | None = None,
    ) -> int:
        """Make a system call of a task in the guest; return its value.

        host_op runs where the call reaches a file of the mount; what it raises, or any
        other failure of the call, is raised here.
        """
        if self.closed or self._guest.sched.dead:
            self.check()
        begin = time.perf_counter_ns()
        try:
            ret = self._guest.syscalls.call(
                task, name, *args, host_op=host_op or self._files
            )
        finally:
            self._nr_calls += 1
            self._busy += time.perf_counter_ns() - begin
        return ret if ret >= 0 else self._result(ret, name)

    def leave_out(self) -> None:
        """Count a call that is not made, as nobody could see it: its time passes."""
        self._nr_calls += 1
        self._guest.clock.step()

    def call_all(
        self, task: HostTask, calls: Sequence[tuple[str, Sequence[int | str | bytes]]]
    ) -> None:
        """Make system calls of a task up to the first that fails; raise its error.

        The lock is given back now and then.
        Context: the lock is not held.
        """
        done = 0
        while done < len(calls):
            with self._lock:
                self.check()
                begin = time.perf_counter_ns()
                begun = 1
                try:
                    begun, ret = self._guest.syscalls.call_some(
                        task, calls[done : done + CALLS_AT_ONCE], self._files
                    )
                finally:
                    self._nr_calls += begun
                    self._busy += time.perf_counter_ns() - begin
                done += begun
                self._result(ret, calls[done - 1][0])

    def sleeping_call(self, task: HostTask, name: str, *args: int | str | bytes) -> int:
        """Make a system call that may sleep as long as it likes; return its value.

        A signal of the caller wakes the task if it sleeps interruptibly; else the
        caller waits on.  Raises what the call fails with.
        Context: the lock is not held, or the call does not sleep.
        """
        syscalls, background, signals = self._guest.syscalls, self._background, True
        with self._locked():
            self.check()
            ret = syscalls.call(task, name, *args, host_op=self._files, sleeps=True)
            waiter = self._wait_for(task, ret, signals=True)
        while waiter is not None:
            try:
                background.wait(waiter)
            except KernelError as exc:
                if exc.errno != errno.EINTR:
                    raise
                signals = False
            with self._locked():
                self.check()
                if not signals:
                    syscalls.interrupt(task)
                ret = syscalls.collect(task)
                waiter = self._wait_for(task, ret, signals=signals)
        return self._result(ret, name)

    def _wait_for(self, task: HostTask, ret: int, *, signals: bool) -> Waiter | None:
        """Prepare to wait for the end of a call; None: it has ended.

        Context: the lock has been held since the task was looked at, or it could end in
        between, and nobody would be woken.
        """
        if ret != BLOCKED:
            return None
        ended = partial(self._guest.syscalls.has_ended, task)
        return self._background.prepare_to_wait(ended, signals=signals)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Take the lock; a signal does not keep the caller from it."""
        while True:
            try:
                self._lock.__enter__()
                break
            except KernelError:
                continue
        try:
            yield
        finally:
            self._lock.__exit__()

    def _result(self, ret: int, name: str) -> int:
        if ret == BLOCKED:
            raise KernelError(errno.EINTR, f"{name}() sleeps")
        if ret < 0:
            refusal = self._guest.requests.refusal
            why = refusal.why if refusal and refusal.errno == -ret else "failed"
            raise KernelError(-ret, f"{name}(): {why}")
        return ret

    def insmod(self, task: HostTask, image: bytes, parameters: bytes) -> None:
        """Load an image by init_module(); raises what that is refused with."""
        pending = self._guest.modules.pending
        pending[task.pid] = image
        try:
            self.sleeping_call(task, "init_module", 0, len(image), parameters)
        finally:
            pending.pop(task.pid, None)

    def get_parameter(self, parameter: Parameter) -> bytes:
        """Return the value of a module's parameter; EPERM: it cannot be read.

        Kernel: param_attr_show()
        """
        if not parameter.get:
            raise KernelError(errno.EPERM, f"{parameter.name} cannot be read")
        with self._take_page() as page:
            ret = self._parameter(parameter.get, parameter, page)
            return self._guest.read(page, min(ret, PAGE_SIZE))

    def set_parameter(self, parameter: Parameter, value: bytes) -> None:
        """Set the parameter of a module; EPERM: it cannot be, or what it says.

        Kernel: param_attr_store()
        """
        if not parameter.set:
            raise KernelError(errno.EPERM, f"{parameter.name} cannot be set")
        with self._take_page() as page:
            self._guest.write(page, value[: PAGE_SIZE - 1] + b"\0")
            self._parameter(parameter.set, parameter, page)

    def _parameter(self, function: int, parameter: Parameter, page: int) -> int:
        """Run one of a parameter's functions, which return an int."""
        call = self._guest.syscalls.call_function
        ret = call(None, function, page, parameter.addr) & 0xFFFFFFFF
        return self._result(ret - (ret >> 31 << 32), parameter.name)

    @contextmanager
    def _take_page(self) -> Iterator[int]:
        """Take a page in which the value of a parameter is handed over."""
        pages = self._pages
        page = pages.pop() if pages else self._guest.area.alloc_data(PAGE_SIZE)
        try:
            yield page
        finally:
            pages.append(page)

    def stats(self) -> dict[str, int]:
        """Return how many calls were made, and the time that they took."""
        return {"syscalls": self._nr_calls, "host_us_in_syscalls": self._busy // 1000}

    def close(self) -> None:
        """Refuse all that come from now on: the guest ends."""
        self.closed = True
