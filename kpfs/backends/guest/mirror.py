# SPDX-License-Identifier: GPL-2.0-or-later
"""Make the calls of a command's processes by tasks of a guest kernel."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from typing import TYPE_CHECKING

from kpfs.backends.guest.task_book import GuestTaskBook
from kpfs.base.caller import Caller
from kpfs.base.errors import KernelError
from kpfs.guest.running.syscalls import BLOCKED
from kpfs.mirror import calls as mirror_calls
from kpfs.mirror.plan import BUSY, MirrorGuest, Plan

if TYPE_CHECKING:
    from kpfs.base.lock import FairLock
    from kpfs.fs.booted import Booted
    from kpfs.fs.node import Dir
    from kpfs.fs.vfs import OpenFile, Vfs
    from kpfs.fs.write_call import WriteCall
    from kpfs.guest.running.syscalls import HostTask
    from kpfs.mirror.host import Host
    from kpfs.mirror.kernel import Commit, Replayed
    from kpfs.mirror.seccomp import Notification
    from kpfs.root.guest_kernel import GuestKernel

log = logging.getLogger(__name__)

# how often a call is put off until the mount has closed a file
ATTEMPTS = 3
_WAITS = (*[True] * ATTEMPTS, False)  # and then it is made all the same


class GuestMirror:
    """Implements kpfs.mirror.kernel.MirroredKernel."""

    answered: frozenset[int] = frozenset()
    is_slow = False

    def __init__(self, kernel: GuestKernel, host: Host) -> None:
        self.kernel = kernel
        self.skip_policy = kernel.skip_policy
        self.host = host
        with kernel.lock:
            self.guest = MirrorGuest(kernel.guest)
            self.tasks = GuestTaskBook(kernel, host)

    def follow(self, kernel: GuestKernel, _root: Dir) -> None:
        """Use another kernel from now on.  Context: control, lock held."""
        self.kernel, self.guest = kernel, MirrorGuest(kernel.guest)
        self.skip_policy = kernel.skip_policy
        self.tasks.enter(kernel)

    @property
    def lock(self) -> FairLock:
        return self.kernel.lock

    def uts_names(self) -> dict[int, bytes]:
        from kpfs.fs.files.proc import UTS_RELEASE, UTS_VERSION, uts_name

        with self.kernel.lock:
            fields = UTS_RELEASE, UTS_VERSION
            return {field: uts_name(self.kernel, field) for field in fields}

    def answer(self, note: Notification, commit: Commit) -> Replayed:
        raise NotImplementedError  # no call is answered

    # ---- calls
    def make(self, note: Notification, plan: Plan) -> None:
        for wait in _WAITS:
            with self.kernel.lock:
                if note.nr in mirror_calls.EXITS and self.kernel.guest.forks_seen():
                    self.tasks.meet_children(note.pid)
                if self.call(self.tasks.task(note.pid), plan, wait) != BUSY:
                    return
            self.host.await_mount()

    def call(self, task: HostTask, plan: Plan, wait: bool = False) -> int:
        """Have a task make a call; return its value or -errno.

        wait: see MirrorGuest.call().  Context: control, lock held.
        """
        try:
            ret = self.guest.call(task, plan, wait)
        finally:
            self.kernel.background.guest_ran()
        if ret == BLOCKED:
            log.warning("mirrored call %d of %d sleeps", plan.nr, task.pid)
        return ret

    # ---- writes to files of the mount
    def may_write(self, opened: OpenFile) -> bool:
        return not opened.node.sleeps  # no thread of ours can wait that long

    def write(
        self,
        files: Vfs,
        opened: OpenFile,
        pid: int,
        fd: int,
        call: WriteCall,
        commit: Commit,
    ) -> int:
        moves = call.name != "pwrite64" and not opened.nonseekable
        before = os.lseek(fd, 0, os.SEEK_CUR) if moves else 0
        caller = Caller(pid, self.host.uid(pid), 0)
        with self.kernel.lock:
            if not commit():
                raise KernelError(errno.ESRCH, f"{pid} is gone")
            if not opened.node.revives:
                self.tasks.task(pid)
            taken, after = files.write_call(caller, opened, call, before)
        if moves and after != before:
            with contextlib.suppress(OSError):
                os.lseek(fd, after, os.SEEK_SET)
        return taken


def open_mirror(booted: Booted, host: Host, _listener: int) -> GuestMirror:
    """Return a mirror of the kernel that is mounted, also after it was rebooted."""
    with booted.kernel.lock:
        mirror = GuestMirror(booted.kernel, host)
        booted.follow(mirror.follow)
    return mirror
