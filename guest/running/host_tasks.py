# SPDX-License-Identifier: GPL-2.0-or-later
"""Tasks of the guest that stand for processes of the host: made, renamed and ended."""

from __future__ import annotations

import errno
import os
import struct
import time
from collections.abc import Callable

from kpfs.base import abi, host_process
from kpfs.base.abi import TASK_COMM_LEN
from kpfs.base.errors import KernelError
from kpfs.base.syscall_numbers import CLONE3, EXIT_GROUP
from kpfs.guest.emu.memory import Memory
from kpfs.guest.running.hosttask import (
    INIT_PID,
    HostTask,
    comm_of,
    open_comm,
    parent_of,
    process_lives,
)
from kpfs.guest.running.requests import BUSY_PAUSE, QUIET_TURNS, Requests
from kpfs.guest.running.syscalls import Syscalls

_REAP_INTERVAL_NS = 1_000_000_000
_CLONE_ARGS = abi.KpfsCloneArgs.STRUCT
_U32 = struct.Struct("<I")
_SIGCHLD = 17
_SIGKILL = 9


class HostTasks:
    """The tasks by the host's pid.  Context: control."""

    def __init__(
        self,
        memory: Memory,
        requests: Requests,
        syscalls: Syscalls,
        *,
        nr_cpus: int,
        run_until_idle: Callable[[int], bool],
        forks_seen: Callable[[], bool],
    ) -> None:
        """forks_seen: tells whether the event that names tasks' makers is on.

        run_until_idle: lets the guest run for so many turns.
        """
        self._ram, self._nr_cpus = memory.ram, nr_cpus
        self._requests, self._syscalls = requests, syscalls
        self._run_until_idle = run_until_idle
        self._forks_seen = forks_seen
        self._forking: set[int] = set()  # host pids for which threads fork tasks
        self._of_host: dict[int, HostTask] = {}
        self._next_reap = 0
        self._unpinned = os.sched_getaffinity(0)

    def _known(self, pid: int) -> HostTask | None:
        """Return the task that a process has; None if it has ended."""
        task = self._of_host.get(pid)
        if task is None or not task.gone:
            return task
        del self._of_host[pid]
        return None

    def of_process(
        self,
        pid: int,
        uid: int,
        comm: str | None = None,
        parent: int | None = None,
        flags: int = 0,
    ) -> HostTask:
        """Return the task of a host process; fork one in the guest if it is new there.

        ``comm`` and ``parent`` default to what /proc says of the process.
        flags: what it shares with its parent, as for clone3(2).
        """
        if pid <= INIT_PID:
            return self._requests.init()
        while pid in self._forking and not self._requests.inside:
            self._requests.step_aside(BUSY_PAUSE)
        task = self._known(pid)
        if task is not None and task.busy and not self._requests.inside:
            self._requests.wait_for(task)
            task = self._known(pid)
        if task is not None and task.blocked and not self._requests.has_ended(task):
            self._abandon(task)
            task = None
        if task is None:
            return self._fork(pid, uid, comm, parent, flags)
        raw = b""
        if comm is None and task.comm_fd >= 0:
            try:
                raw = os.pread(task.comm_fd, 64, 0)
                if raw != task.raw_comm:
                    comm = comm_of(raw)
            except OSError:  # the process has ended, and its pid was used again
                self.exit(task)
                return self._fork(pid, uid, None, parent, flags)
        if comm is not None and comm != task.comm:
            self.set_comm(task, comm)
        if raw:
            task.raw_comm = raw
        if uid != task.uid:
            _U32.pack_into(self._ram, task.uid_at, uid)
            task.uid = uid
        self._pin(task, pid)
        return task

    def _pin(self, task: HostTask, pid: int) -> None:
        """Note on which of the guest's CPUs a process may run.

        The host alone knows, as the guest kernel has no sched_setaffinity(2). Who
        pinned kpfs as a whole did not mean the guest's CPUs.
        """
        try:
            cpus = os.sched_getaffinity(pid)
        except OSError:  # the process has ended
            return
        if cpus == self._unpinned:
            task.cpus = ()
        else:
            task.cpus = tuple(n for n in range(self._nr_cpus) if n in cpus)

    def set_comm(self, task: HostTask, comm: str) -> None:
        """Kernel: __set_task_comm()."""
        task.comm, task.raw_comm = comm, b""
        data = os.fsencode(comm)[: TASK_COMM_LEN - 1].ljust(TASK_COMM_LEN, b"\0")
        self._ram[task.comm_at : task.comm_at + TASK_COMM_LEN] = data

    def _fork(
        self, pid: int, uid: int, comm: str | None, parent: int | None, flags: int = 0
    ) -> HostTask:
        if time.monotonic_ns() >= self._next_reap:
            self.reap()
        fd = -1
        if comm is None:
            fd, comm = open_comm(pid)
        if parent is None:
            parent = parent_of(pid)
        maker = self._maker(parent)
        if maker.blocked and not self._requests.has_ended(maker):
            # the task sleeps in a call, which its process may have left
            maker = self._requests.awake()
        if maker is not self._known(parent):
            flags = 0
        self._forking.add(pid)
        try:
            made = self._clone(maker, pid, uid, comm, flags)
            if made == -errno.EAGAIN and self.reap():
                made = self._clone(maker, pid, uid, comm, flags)
            if made == -errno.EEXIST:  # one of the guest's own tasks has that pid
                made = self._clone(maker, 0, uid, comm, flags)
            if made < 0:
                raise KernelError(-made, f"no task for process {pid}")
            task = self._requests.find(made)
        except BaseException:
            if fd >= 0:
                os.close(fd)
            raise
        finally:
            self._forking.discard(pid)
        task.comm_fd, task.host_pid = fd, pid
        self._pin(task, pid)
        self._of_host[pid] = task
        return task

    def _maker(self, parent: int) -> HostTask:
        """Return the task of the process that forked another one, or else init.

        If anybody is told of that, it gets one if it descends from a process with one.
        """
        task = self._known(parent)
        if task is None and self._forks_seen() and self._descends(parent):
            task = self._fork(parent, host_process.uid(parent), None, None)
        return task or self._requests.init()

    def _descends(self, pid: int) -> bool:
        """Return True if an ancestor of a process has a task."""
        while (pid := parent_of(pid)) > INIT_PID:
            if self._known(pid) is not None:
                return True
        return False

    def _clone(
        self, parent: HostTask, pid: int, uid: int, comm: str, flags: int
    ) -> int:
        """Make clone3() as the parent's task; return the new pid, or -errno."""
        task = self._requests.inside[-1][0] if self._requests.inside else parent
        if not self._requests.inside:
            task.used = 0
        name = task.place_bytes(os.fsencode(comm)[: TASK_COMM_LEN - 1] + b"\0")
        set_tid = task.place_bytes(struct.pack("<i", pid)) if pid else 0
        signal = flags, 0, 0, 0, _SIGCHLD, 0, 0, 0
        pids = set_tid, int(bool(pid)), 0
        args = _CLONE_ARGS.pack(*signal, *pids, name, uid, 0xFFFF_FFFF)
        addr = task.place_bytes(args)
        return self._syscalls.request(task, abi.REQ_SYSCALL, CLONE3, (addr, len(args)))

    def exit(self, task: HostTask, status: int = 0) -> None:
        """Make the task exit_group(), as its host process is gone."""
        if self._requests.inside:
            return  # not now: another task is in a host operation
        self._syscalls.request(task, abi.REQ_SYSCALL, EXIT_GROUP, (status,))

    def _abandon(self, task: HostTask) -> None:
        """Kill the task of a process that left a call which was BLOCKED."""
        self._requests.host_ops.pop(task.pid, None)
        if not self._requests.inside:
            self._syscalls.call(self._requests.awake(), "kill", task.pid, _SIGKILL)
            self._run_until_idle(QUIET_TURNS)

    def reap(self) -> int:
        """End the tasks of vanished host processes; return how many."""
        self._next_reap = time.monotonic_ns() + _REAP_INTERVAL_NS
        if self._requests.inside:
            return 0
        tasks = self._requests.tasks.values()
        gone = [t for t in tasks if t.comm_fd >= 0 and not process_lives(t)]
        for task in gone:
            self._end(task)
        return len(gone)

    def _end(self, task: HostTask) -> None:
        if task.busy or task.gone:
            return  # another thread sees to it
        if task.blocked and not self._requests.has_ended(task):
            self._abandon(task)
        else:
            self.exit(task)

    def end_all(self) -> None:
        """End the tasks of host processes, whose files of /proc are closed already."""
        tasks = [task for task in self._requests.tasks.values() if task.comm_fd >= 0]
        for task in tasks:
            task.comm_fd = -1
        for task in tasks:
            self._end(task)

    def close(self) -> None:
        """Close the files of /proc that the tasks hold."""
        for task in self._requests.tasks.values():
            task.close()
