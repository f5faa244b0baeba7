# SPDX-License-Identifier: GPL-2.0-or-later
"""Make the calls of a command's processes by tasks of a guest kernel.

The facts about a call on the host go into struct mirror_call (guest/src/fs/mirror.c),
its strings and data into the user memory of the task that makes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kpfs.backends.guest.syslog import GuestSyslog
from kpfs.backends.guest.task_book import GuestTaskBook
from kpfs.base import abi, mapping
from kpfs.base import syscall_numbers as nr
from kpfs.base.ktypes import Caller
from kpfs.base.log import Log
from kpfs.base.units import PATH_MAX
from kpfs.fs.traits import Reviving
from kpfs.guest.running.requests import BLOCKED
from kpfs.mirror import calls as mirror_calls
from kpfs.mirror.plan import Plan

if TYPE_CHECKING:
    from kpfs.backends.guest.root.guest_kernel import GuestKernel
    from kpfs.backends.guest.vfs import Vfs, VfsFile
    from kpfs.fs.node import Dir
    from kpfs.fs.tree import WriteCall
    from kpfs.guest.machine import Guest
    from kpfs.guest.running.hosttask import HostTask
    from kpfs.mirror.host import Host
    from kpfs.mirror.kernel import Commit, Replayed
    from kpfs.mirror.seccomp import Notification

log = Log(__name__)

BUSY = abi.MIRROR_BUSY
_CALL_SIZE = abi.MirrorCall.SIZE
# words of struct mirror_call
_ARGS_AT, _CWD_WORD = abi.MirrorCall.args // 8, abi.MirrorCall.cwd // 8
_LINK_WORD, _WAIT_WORD = abi.MirrorCall.link // 8, abi.MirrorCall.wait // 8
_NR_ARGS = 6
# by a set of arguments as bits: their numbers
_MEMBERS = [
    tuple(n for n in range(_NR_ARGS) if bits >> n & 1) for bits in range(1 << _NR_ARGS)
]
_CWD_AT = 256  # the place of the working directory's path, behind the structure
_LINK_AT = _CWD_AT + PATH_MAX + 1  # and what is read of a link
_BLOCK_SIZE = _LINK_AT + PATH_MAX + 1
# calls that may move descriptors of files of the mount
MOVES = mirror_calls.EXECS | mirror_calls.EXITS
MOVES |= {nr.CLOSE, nr.DUP, nr.DUP2, nr.DUP3, nr.FCNTL}
# how often a call is put off until the mount has closed a file
ATTEMPTS = 3
_WAITS = (*[True] * ATTEMPTS, False)  # and then it is made all the same


class GuestMirror:
    """Implements kpfs.mirror.kernel.MirroredKernel."""

    answered = frozenset((nr.SYSLOG,))
    made = mirror_calls.GUEST_CALLS

    def __init__(self, kernel: GuestKernel, host: Host) -> None:
        self.kernel, self.lock = kernel, kernel.lock
        self.skip_policy = kernel.skip_policy
        self.host = host
        with kernel.lock:
            self.guest = PlannedCalls(kernel.guest)
            self.tasks = GuestTaskBook(kernel, host)
            self._syslog = GuestSyslog(kernel, host)

    def follow(self, kernel: GuestKernel, _root: Dir) -> None:
        """Use another kernel from now on.  Context: control, lock held."""
        self.kernel, self.guest = kernel, PlannedCalls(kernel.guest)
        self.skip_policy = kernel.skip_policy
        self.tasks.enter(kernel)
        self._syslog.follow(kernel)

    def uts_names(self) -> dict[int, bytes]:
        from kpfs.backends.guest.files.proc import UTS_RELEASE, UTS_VERSION, uts_name

        with self.kernel.lock:
            fields = UTS_RELEASE, UTS_VERSION
            return {field: uts_name(self.kernel, field) for field in fields}

    def answer(self, note: Notification, commit: Commit) -> Replayed:
        return self._syslog(note, commit)

    # ---- calls
    def make(self, note: Notification, plan: Plan) -> None:
        for wait in _WAITS:
            with self.kernel.lock:
                if plan.mount or (
                    note.nr in mirror_calls.EXITS
                    and (self.kernel.syscalls.marked or self.kernel.guest.forks_seen())
                ):  # children inherit what goes with this call
                    self.tasks.meet_heirs(note.pid)
                if self.call(self.tasks.task(note.pid), plan, wait) != BUSY:
                    return
            self.host.await_mount()

    def call(self, task: HostTask, plan: Plan, wait: bool = False) -> int:
        """Have a task make a call; return its value or -errno.

        wait: see PlannedCalls.call().  Context: control, lock held.
        """
        if plan.nr in MOVES:
            self.kernel.syscalls.moves += 1
        ret = self.guest.call(task, plan, wait)
        if ret == BLOCKED:
            log.warning("mirrored call %d of %d sleeps", plan.nr, task.pid)
        return ret

    # ---- writes to files of the mount
    def may_write(self, opened: VfsFile) -> bool:
        return not opened.sleeps  # no thread of ours can wait that long

    def write(
        self, files: Vfs, opened: VfsFile, pid: int, call: WriteCall, at: int
    ) -> tuple[int, int]:
        if not isinstance(opened.node, Reviving):
            self.tasks.task(pid)
        caller = Caller(pid, self.host.uid(pid), 0)
        return files.write_call(caller, opened, call, at)


class _Block:
    """Memory for one struct mirror_call and its paths, and the call that takes it."""

    def __init__(self, guest: Guest, func: int) -> None:
        self.at = guest.area.alloc_data(_BLOCK_SIZE)
        self.view = guest.view(self.at, _BLOCK_SIZE)
        self.words = mapping.known(self.view[:_CALL_SIZE].cast("Q"))
        self.call = guest.syscalls.prepare(func, self.at)

    def place(self, at: int, text: bytes) -> int:
        """Put a path into the block; return its address."""
        path = text[:PATH_MAX] + b"\0"
        self.view[at : at + len(path)] = path
        return self.at + at


class PlannedCalls:
    """The maker of planned calls in the guest.  Context: control, lock held."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self._func = guest.needed("mirror_syscall")
        # those that no call uses: there is one for each thread that makes a call
        self._blocks: list[_Block] = []
        self._memory: dict[int, memoryview] = {}  # the tasks' user memory, by address

    def call(self, task: HostTask, plan: Plan, wait: bool = True) -> int:
        """Make the call as the task; return its value or -errno.

        BUSY, with wait: nothing was done, as the mount has yet to close what is where
        a new descriptor is to be.
        """
        block = self._blocks.pop() if self._blocks else _Block(self._guest, self._func)
        block.view[:_CALL_SIZE] = plan.view[:_CALL_SIZE]
        words = block.words
        if plan.pointers:
            user = task.user
            self._fill(user, plan)
            for index in _MEMBERS[plan.pointers]:
                words[_ARGS_AT + index] += user
        if words[_CWD_WORD]:
            words[_CWD_WORD] = block.place(_CWD_AT, plan.cwd_text)
        if words[_LINK_WORD]:
            words[_LINK_WORD] = block.place(_LINK_AT, plan.link_text)
        words[_WAIT_WORD] = wait
        try:
            return self._guest.syscalls.call_prepared(task, block.call)
        finally:
            self._blocks.append(block)

    def _fill(self, user: int, plan: Plan) -> None:
        """Put the plan's memory where the task's is."""
        size = plan.size
        if not size:
            return
        memory = plan.memory
        for at in plan.relocations:
            word = int.from_bytes(memory[at : at + 8], "little") + user
            memory[at : at + 8] = word.to_bytes(8, "little")
        plan.relocations.clear()
        view = self._memory.get(user)
        if view is None:
            view = self._memory[user] = self._guest.view(user, abi.USER_SIZE)
        view[:size] = memory
