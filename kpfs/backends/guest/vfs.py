# SPDX-License-Identifier: GPL-2.0-or-later
"""Open files of a guest kernel's mount: each operation is a system call of the guest.

A file of the mount could simply be read by Python.  Then a probe on vfs_read() would
never see the ``cat`` that looks at it.  So the guest's own open(), read(), write() and
close() run, in a task with the caller's pid, and the file's work is done in their
middle (``host_op``).  System calls that the guest makes by itself find the same files.

Calls that only read are left out while nobody could see them: see
kpfs.base.skip_policy.  A Vfs is the book of these: which callers made them, with which
open files.

What must always hold:

- A handle (what Python knows of an open file) belongs to one VfsFile, and a VfsFile to
  one guest; after a reboot it answers ESHUTDOWN.
- ``Vfs.descriptors()`` has a descriptor exactly if a table of descriptors has it.
  Tasks may share a table, and whichever of them lives closes what is in it.  Under a
  mirror tasks inherit and duplicate descriptors, and the guest says where they are
  (kpfs.backends.guest.marks); else a caller without one has inherited the open file.  A
  caller that lacks one gets it when it first needs it.
- The guest's position of a file is where the host's is, after every operation:
  ``handle.next``.
- ``host_op`` runs in the middle of a system call of the guest, under the kernel's lock,
  and must not wait.  Files that may wait do so before the call, without the lock.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from kpfs.backends.guest.files.guest_file import GuestServed, ShowsTasks
from kpfs.backends.guest.hinter import Hinter
from kpfs.backends.guest.marks import Marks
from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.base import abi, host_process
from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import Caller
from kpfs.base.syscall_numbers import AT_FDCWD
from kpfs.fs.node import Dir, File, Handle, OpenHandle, walk
from kpfs.fs.traits import AfterExits, Posthumous, Reviving, Vital
from kpfs.fs.tree import WriteCall
from kpfs.guest.running.hostop import HostOp, HostOpHandler
from kpfs.guest.running.hosttask import HostTask

LLONG_MAX = (1 << 63) - 1
O_DIRECT = 0o40000
# flags of open(2) with which it is not left out: it may change the file, or fail
NOT_SKIPPED = os.O_ACCMODE | os.O_TRUNC | O_DIRECT
# the calls that are left out, or made for them later; clone3 makes the task
READING = (nr.READ, nr.CLOSE, nr.LSEEK, nr.DUP2, nr.OPENAT, nr.CLONE3)
UNSEEN_MAX = 4096  # processes, before those that have ended are forgotten
# A segment of a writev() that begins further on is not in the guest's memory.
LAST_SEGMENT = abi.USER_BUFFER_SIZE - abi.HOST_DATA_SIZE
# Most bytes of a write to a file that the guest's own code serves.
GUEST_WRITE_MAX = abi.USER_BUFFER_SIZE - 1
_IOV = struct.Struct("<2Q")
# Where the guest's open() finds what is below a directory of the mount.
LINUX_PATHS = {
    "kprobes": "/sys/kernel/debug/kprobes",
    "sys": "/proc/sys",
    "tracing": "/sys/kernel/tracing",
    "kallsyms": "/proc/kallsyms",
    "version": "/proc/version",
    "cmdline": "/proc/cmdline",
    "config.gz": "/sys/kernel/debug/kpfs/config.gz",
    "module": "/sys/kernel/debug/kpfs/module",  # the guest has no /sys/module
    "modules": "/proc/modules",
    "kmsg": "/proc/kmsg",  # the guest has no /dev
    "messages": "/sys/kernel/debug/kpfs/messages",  # the guest has no /var/log
    "machine": "/sys/kernel/debug/kpfs/machine",
    "debug": "/sys/kernel/debug",  # after those that lie in it
}


class VfsFile(OpenHandle):
    """A file opened through the mount, and its descriptors in the guest."""

    def __init__(self, vfs: Vfs, path: bytes, flags: int, handle: Handle) -> None:
        super().__init__(handle)
        self.vfs = vfs  # the guest may have been replaced since
        self.path = path
        self.node = handle.file
        # guest code on the way to it has oopsed: the guest is left out from then on
        self.apart = False
        # By table, as a process that did not open the file has it from one that did.
        self.fds: dict[int, int] = {}
        self.opener: HostTask | None = None  # the last task that it was opened in
        self.mark = 0  # its number in the guest, 0: it has none
        self.moves = 0  # HostCalls.moves when fds was right
        # those whose calls were left out, by pid: their tasks are to have it, too
        self.unseen: dict[int, Caller] = {}


class Vfs:
    """The files of one tree.  Kernel: do_sys_openat2(), vfs_read(), vfs_write() ..."""

    _mark_numbers = itertools.count(1)  # no snapshot puts it back

    def __init__(
        self, kernel: GuestKernel, root: Dir, *, lazy: bool = False, hints: int = -1
    ) -> None:
        """lazy: reading that nobody could see in the guest is not done there.

        hints: the descriptor for what is said of features that the guest lacks.
        """
        self.lazy = lazy
        self.hinter = Hinter(kernel, hints)
        self.kernel = kernel
        self.calls = kernel.syscalls
        self.root = root
        self._handles: dict[int, Handle] = {}  # by the cookie in the guest's file
        self._own: set[int] = set()  # cookies of files that the guest opened by itself
        self._next_cookie = 1
        self._opened: set[VfsFile] = set()
        self._marks: Marks | None = None  # under a mirror
        # callers whose calls were left out, by pid, and the files they used
        self._unseen: dict[int, Caller] = {}
        self._unopened: dict[VfsFile, None] = {}  # in order
        self.calls.attach_files(self.serve)
        kernel.skip_policy.join(self)

    def file(self, path: str) -> File:
        """Return the file at a path of the mount; ENOENT, ENOTDIR, EISDIR."""
        node = walk(self.root, path)
        if not isinstance(node, File):
            raise KernelError(errno.EISDIR, path)
        return node

    def _bind(self, request: HostOp, handle: Handle) -> None:
        """Make the file that the guest opens remember its handle.

        A process finds by the mount the files that it has from its parent.
        """
        request.cookie = self._next_cookie
        self._next_cookie += 1
        self._handles[request.cookie] = handle
        request.flags |= abi.HOST_NOT_INHERITED
        if not handle.file.may_pwrite(handle.flags):
            request.flags |= abi.HOST_NO_PWRITE

    def _lacks_guest(self, node: File, *, writes: bool = False) -> bool:
        """Return True if an operation on a file is to be done without the guest.

        ESHUTDOWN: it is dead and needed, or gone.
        """
        calls, revives = self.calls, isinstance(node, Reviving)
        if calls.lives and not revives:
            return False
        calls.check_present()
        if revives or (calls.dead and not writes and isinstance(node, Posthumous)):
            return True
        calls.check()
        return False

    # ---- calls that are left out
    def _is_unseen(self, node: File) -> bool:
        """Return True if nobody could see in the guest that a file is read.

        Even then a file that the guest's own code serves needs its calls.
        Context: control, lock held.
        """
        if not self.lazy or isinstance(node, GuestServed):
            return False
        return not self.kernel.skip_policy.can_be_seen(READING)

    def _leave_out(self, caller: Caller, opened: VfsFile) -> None:
        """Note a call that is not made in the guest; let its time pass there."""
        self.calls.leave_out()
        opened.unseen[caller.pid] = caller
        self._unopened[opened] = None
        self._unseen[caller.pid] = caller
        if len(self._unseen) > UNSEEN_MAX:
            rows = self._unseen.items()
            self._unseen = {p: c for p, c in rows if host_process.exists(p)}

    def catch_up(self, pid: int | None) -> None:
        """See kpfs.base.skip_policy.Book.  Single processes are the mirror's affair."""
        if pid is not None:
            return
        unseen, self._unseen = self._unseen, {}
        for caller in unseen.values():
            if host_process.exists(caller.pid):
                with contextlib.suppress(KernelError):  # no room for so many
                    self.calls.task(caller)
        unopened, self._unopened = self._unopened, {}
        if unopened:
            for opened in self._opened:
                self.descriptors(opened)
        for opened in unopened:
            for caller in opened.unseen.values():
                if host_process.exists(caller.pid):
                    with contextlib.suppress(KernelError):
                        self._open_unseen(caller, opened)
            opened.unseen.clear()
        if unopened:
            self.kernel.skip_policy.share()

    def _open_unseen(self, caller: Caller, opened: VfsFile) -> None:
        """Give the caller's task the descriptor that it would have.

        What the mirror has found at its number stands for it so far.
        """
        task = self.calls.task(caller)
        table = task.table
        if table in opened.fds or (opened.mark and opened.fds):
            return
        taken = {other.fds[table] for other in self._opened if table in other.fds}
        fd = self._descriptor(task, opened)
        number = self.kernel.skip_policy.number_of(
            caller.pid, opened.path, opened.flags, taken
        )
        if -1 < number < fd:  # else the process has duplicated it since, as shells do
            self.calls.call(task, "dup2", fd, number)
            self.calls.call(task, "close", fd)
            opened.fds[table] = number

    # ---- where tasks have them
    def descriptors(self, opened: VfsFile) -> dict[int, int]:
        """Return a descriptor of the file for each table that has one."""
        if opened.mark and opened.moves != self.calls.moves:
            opened.moves = self.calls.moves
            opened.fds = {task.table: fd for task, fd in self._places(opened)}
        return opened.fds

    def _places(self, opened: VfsFile) -> list[tuple[HostTask, int]]:
        """Return all descriptors of a marked file, each with a task that has it."""
        tasks = {task.pid: task for task in self.calls.all_tasks() if not task.gone}
        places = self._marks.places(opened.mark) if self._marks else []
        return [(tasks[pid], fd) for pid, fd in places if pid in tasks]

    def _note(self, task: HostTask, opened: VfsFile, fd: int) -> None:
        """Note that a file was opened in a task."""
        if self.kernel.skip_policy.mirrored:
            if self._marks is None:
                self._marks = Marks(self.kernel.guest)
            if not opened.mark:
                opened.mark, opened.moves = next(self._mark_numbers), self.calls.moves
                self.calls.marked += 1
            self._marks.mark(task, fd, opened.mark)
        opened.fds[task.table] = fd
        opened.opener = task

    # ---- through the mount
    def open(self, caller: Caller, path: str, flags: int) -> VfsFile:
        """Open a path of the mount, by open(2)."""
        return self.open_node(caller, self.file(path), path, flags)

    def open_node(self, caller: Caller, node: File, path: str, flags: int) -> VfsFile:
        """Open the file that is at a path, by open(2)."""
        made: list[Handle] = []
        host_op = partial(self._serve_open, node, flags, caller, made)
        name = linux_path(path).encode("latin-1")
        with self.kernel.lock:
            if self._lacks_guest(node):
                return VfsFile(self, name, flags, opened_by(caller, node, flags))
            if isinstance(node, AfterExits):
                self.calls.reap()
            if isinstance(node, ShowsTasks) and self.kernel.guest.forks_seen():
                self.calls.reap()
                self.kernel.skip_policy.catch_up()
            if not flags & NOT_SKIPPED and self._is_unseen(node):
                opened = VfsFile(self, name, flags, opened_by(caller, node, flags))
                self._opened.add(opened)
                self._leave_out(caller, opened)
                if not isinstance(node, AfterExits | ShowsTasks):
                    self.kernel.skip_policy.unchanged()
                return opened
            if flags & os.O_TRUNC:
                self.kernel.skip_policy.catch_up()
            else:
                self.kernel.skip_policy.catch_up(caller.pid)
            task = self.calls.task(caller)
            try:
                fd = self.calls.call(
                    task, "openat", AT_FDCWD, name, flags, 0, host_op=host_op
                )
            except KernelError:
                if not is_cut_off(node, task):
                    raise
                opened = VfsFile(self, name, flags, opened_by(caller, node, flags))
                opened.apart = True
                return opened
            opened = VfsFile(
                self, name, flags, made[0] if made else node.handle(flags, caller.pid)
            )
            self._note(task, opened, fd)
            self._opened.add(opened)
            if isinstance(node, GuestServed):
                opened.nonseekable = not self._seekable(task, fd)
            return opened

    def _serve_open(
        self,
        node: File,
        flags: int,
        caller: Caller,
        made: list[Handle],
        request: HostOp,
    ) -> int:
        """Open a file in the middle of open(2); close it where that fails after all."""
        if request.kind == abi.HOST_RELEASE:
            self._handles.pop(request.cookie).release()
        else:
            made.append(opened_by(caller, node, flags))
            self._bind(request, made[0])
        return 0

    def _seekable(self, task: HostTask, fd: int) -> bool:
        """Return True if a file of the guest's own code has a position to set."""
        try:
            self.calls.call(task, "lseek", fd, 0, os.SEEK_CUR)
        except KernelError as refused:
            return refused.errno != errno.ESPIPE
        return True

    def _place(
        self, caller: Caller, opened: VfsFile, offset: int
    ) -> tuple[HostTask, int]:
        """Choose the task that makes a call on such a file, and its descriptor.

        It is at the position that FUSE says: it is there already if nobody has set it
        since the last operation.  A process that has the descriptor from another one
        shares its open file, so that the other one, if it lives, makes the call.
        """
        task = self.calls.task(caller)
        fd = self.descriptors(opened).get(task.table)
        if fd is None:
            task, fd = next(iter(self._holders(opened)), (task, None))
        there = fd is not None and offset == opened.handle.next
        if fd is None:
            fd = self._descriptor(task, opened)
        if not there and not opened.nonseekable and not opened.flags & os.O_APPEND:
            self.calls.call(task, "lseek", fd, offset, os.SEEK_SET)
        return task, fd

    def _descriptor(self, task: HostTask, opened: VfsFile) -> int:
        """Return the task's descriptor, made if it has none yet."""
        fd = self.descriptors(opened).get(task.table)
        if fd is None:
            args = AT_FDCWD, opened.path, opened.flags, 0

            def host_op(request: HostOp) -> int:
                if isinstance(opened.node, GuestServed):
                    opened.node.opened(opened.flags)
                self._bind(request, opened.handle)
                return 0

            fd = self.calls.call(task, "openat", *args, host_op=host_op)
            self._note(task, opened, fd)
        return fd

    def set_flags(self, opened: VfsFile, flags: int) -> None:
        """Set the flags of an open file, by fcntl(2) of each task that has it."""
        with self.kernel.lock:
            opened.set_flags(flags)
            for task, fd in self._holders(opened):
                if self.calls.lives:
                    self.calls.call(task, "fcntl", fd, nr.F_SETFL, opened.flags)

    def _holders(
        self, opened: VfsFile, *, every: bool = False
    ) -> list[tuple[HostTask, int]]:
        """Return a task that can make calls for each table, and the file's number.

        every: all numbers that the file has.
        """
        if every and opened.mark:
            fds = [(task.table, fd) for task, fd in self._places(opened)]
        else:
            fds = [*self.descriptors(opened).items()]
        opener = opened.opener
        if opener is None or opener.blocked or {at for at, _ in fds} != {opener.table}:
            among = self.calls.all_tasks()
        else:  # as it mostly is
            among = [opener]
        tasks = {
            task.table: task for task in among if not task.gone and not task.blocked
        }
        return [(tasks[table], fd) for table, fd in fds if table in tasks]

    def read(
        self,
        caller: Caller,
        opened: VfsFile,
        size: int,
        offset: int,
        splice: bool | None = None,
    ) -> bytes:
        """Read by read(2).  A file that makes the reader wait needs no lock then.

        splice: it is for splice(2), which the guest lacks; True: that is not to wait.
        """
        handle, since = opened.handle, None
        take: Callable[[int, int], bytes] = handle.read
        is_ready: Callable[[], bool] = handle.ready
        if splice is not None:
            take = partial(handle.splice, nonblock=splice)
        while True:
            if splice is None:
                handle.prepare(size, offset)
            with self.kernel.lock:
                waits = not (handle.nonblock or isinstance(opened.node, GuestServed))
                if splice is not None:
                    handle.check_splice(size, offset)
                    is_ready = partial(handle.splice_ready, since)
                    waits = handle.splice_waits(splice)
                lacking = self._lacks_guest(opened.node) or opened.apart
                if not waits or is_ready():
                    try:
                        if lacking:
                            return take(size, offset)
                        return self._read(caller, opened, size, offset, take)
                    except KernelError as e:
                        # another reader has taken what was there
                        if e.errno != errno.EAGAIN or not waits:
                            raise
                        if splice is not None and handle.splice_ended(since):
                            return b""
                if splice is not None:
                    is_ready = partial(handle.splice_ready, since := handle.wakes)
                waiter = self.kernel.background.prepare_to_wait(is_ready)
            self.kernel.background.wait(waiter)

    def ioctl(self, opened: VfsFile, command: int) -> None:
        """Make an ioctl(2), which the guest's own code takes no part in."""
        with self.kernel.lock:
            self._lacks_guest(opened.node)
            opened.handle.ioctl(command)
            self.kernel.background.guest_ran()

    def splice_into(
        self, caller: Caller, opened: VfsFile, data: bytes, offset: int
    ) -> int:
        """Write for splice(2), as a write(2) of the guest."""
        if not opened.node.splices_into:
            raise KernelError(errno.EINVAL, "not for splice(2)")
        return self.write(caller, opened, data, offset)

    def _read(
        self,
        caller: Caller,
        opened: VfsFile,
        size: int,
        offset: int,
        take: Callable[[int, int], bytes],
    ) -> bytes:
        """Make a read(2) of the guest, in which take() reads the file."""
        data = b""

        def host_op(_request: HostOp) -> bytes:
            nonlocal data
            data = take(size, offset)
            return data

        if self._is_unseen(opened.node):
            self._leave_out(caller, opened)
            data = take(size, offset)
            opened.handle.moved(offset, len(data))
            self.kernel.skip_policy.unchanged()
            return data
        if self.kernel.skip_policy.mirrored:  # it may have inherited the descriptor
            self.kernel.skip_policy.catch_up(caller.pid)
        if isinstance(opened.node, GuestServed):
            task, fd = self._place(caller, opened, offset)
            size = min(size, abi.USER_BUFFER_SIZE)
            got = self.calls.call(task, "read", fd, task.buffer, size)
            opened.handle.moved(offset, got)
            return self.kernel.guest.read(task.buffer, got)
        task = self.calls.task(caller)
        try:
            fd = self._descriptor(task, opened)
            self.calls.call(task, "read", fd, task.buffer, size, host_op=host_op)
        except KernelError:
            if not is_cut_off(opened.node, task):
                raise
            opened.apart = True
            data = data or take(size, offset)
        opened.handle.moved(offset, len(data))
        return data

    def write(self, caller: Caller, opened: VfsFile, data: bytes, offset: int) -> int:
        """Write by write(2); return the number of bytes taken."""
        done = 0

        def host_op(request: HostOp) -> int:
            nonlocal done
            done = opened.handle.write(_brought(request, data), offset)
            return done

        with self._hinting(opened, data), self.kernel.lock:
            if self._lacks_guest(opened.node, writes=True):
                return opened.handle.write(data, offset)
            self.kernel.skip_policy.catch_up()
            if isinstance(opened.node, GuestServed):
                task, fd = self._place(caller, opened, offset)
                data = data[:GUEST_WRITE_MAX]
                taken = self.calls.call(task, "write", fd, data, len(data))
            else:
                task = self.calls.task(caller)
                args = data, len(data)
                taken = self._write(task, opened, "write", args, host_op)
                if taken < 0:
                    task = self.calls.task(caller)
                    taken = done or opened.handle.write(data, offset)
            opened.handle.moved(offset, taken)
        opened.handle.written(lambda: task)
        return taken

    @contextlib.contextmanager
    def _hinting(self, opened: VfsFile, data: bytes) -> Iterator[None]:
        """Say what the guest lacks, if that is why the block raises KernelError."""
        try:
            yield
        except KernelError as error:
            path = mount_path(opened.path.decode("latin-1"))
            self.hinter.refused(error, path, opened.node, data)
            raise

    def _write(
        self,
        task: HostTask,
        opened: VfsFile,
        name: str,
        rest: Sequence[int | bytes],
        host_op: HostOpHandler,
    ) -> int:
        """Make a write call to a file that Python serves; return the bytes taken.

        rest: the arguments behind the descriptor. -1: the file is apart, and if the
        call was made at all, it has killed the task.
        """
        if opened.apart:
            return -1
        try:
            fd = self._descriptor(task, opened)
            return self.calls.call(task, name, fd, *rest, host_op=host_op)
        except KernelError:
            if not is_cut_off(opened.node, task):
                raise
        opened.apart = True
        return -1

    def write_call(
        self, caller: Caller, opened: VfsFile, call: WriteCall, pos: int
    ) -> tuple[int, int]:
        """Make a write call at position pos; return bytes taken and the new position.

        pos does not matter to pwrite64(), which leaves it alone, nor to a file that
        cannot be seeked: nobody can see or change the position that FUSE has of it.
        """
        if isinstance(opened.node, GuestServed):
            with self.kernel.lock:
                self.kernel.skip_policy.catch_up()
                return self._write_guest(caller, opened, call, pos)
        handle, data, done = opened.handle, call.data, 0
        fixed = opened.node.nonseekable
        at = call.pos
        if call.name != "pwrite64":
            at = handle.tell(handle.next if fixed else pos)
        if at + len(data) > LLONG_MAX:
            raise KernelError(errno.EINVAL, "behind the last position")

        def host_op(request: HostOp) -> int:
            nonlocal at, done  # each segment of a writev() comes here
            part = data[done : done + request.count]
            if done <= LAST_SEGMENT:
                part = _brought(request, part)
            done += len(part)
            taken, at = handle.write_at(part, at)
            return taken

        with self._hinting(opened, data), self.kernel.lock:
            if self._lacks_guest(opened.node, writes=True):
                return handle.write(data, pos), pos
            self.kernel.skip_policy.catch_up()
            task = self.calls.task(caller)
            rest = self._arguments(task, call, opened.node)
            taken = self._write(task, opened, call.name, rest, host_op)
            if taken < 0:
                task = self.calls.task(caller)
                taken, at = (done, at) if done else handle.write_at(data, at)
            if call.name != "pwrite64":
                if fixed:
                    handle.stays(at)
                else:
                    handle.placed(at)
                    pos = at
        handle.written(lambda: task)
        return taken, pos

    def _write_guest(
        self, caller: Caller, opened: VfsFile, call: WriteCall, pos: int
    ) -> tuple[int, int]:
        """Make a write call to a file that the guest's own code serves."""
        handle = opened.handle
        at = handle.next if opened.nonseekable else pos
        task, fd = self._place(caller, opened, at)
        if call.name == "pwrite64":
            data = call.data[:GUEST_WRITE_MAX]
            args = fd, data, len(data), call.pos
            return self.calls.call(task, call.name, *args), pos
        sizes, taken = call.sizes if call.name == "writev" else [len(call.data)], 0
        for size in sizes:
            data = call.data[taken : taken + size][:GUEST_WRITE_MAX]
            try:
                count = self.calls.call(task, "write", fd, data, len(data))
            except KernelError:
                if not taken:
                    raise
                break
            taken += count
            if count < size:
                break
        if not opened.nonseekable:
            pos = self.calls.call(task, "lseek", fd, 0, os.SEEK_CUR)
        handle.placed(pos)
        return taken, pos

    def _arguments(
        self, task: HostTask, call: WriteCall, node: File
    ) -> list[int | bytes]:
        """Return the arguments after fd; segments of a writev() lie in the buffer."""
        data = call.data
        if call.name == "write":
            return [data, len(data)]
        if call.name == "pwrite64":
            return [data, len(data), call.pos]
        sizes = [len(data)] if node.write_iter else call.sizes
        kept = data[: abi.USER_BUFFER_SIZE]
        self.kernel.guest.view(task.buffer, len(kept))[:] = kept
        starts = itertools.accumulate(sizes, initial=0)
        vector = [
            _IOV.pack(task.buffer + min(start, LAST_SEGMENT), size)
            for start, size in zip(starts, sizes, strict=False)
        ]
        return [b"".join(vector), len(sizes)]

    def poll(self, opened: VfsFile) -> tuple[int, object]:
        """Return a handle's poll() and news().  Context: lock held."""
        self._lacks_guest(opened.node)
        return opened.handle.poll(), opened.handle.news()

    def release(self, opened: VfsFile) -> None:
        """Close the file in each task that still lives, after the last close(2)."""
        with self.kernel.lock:
            if self.calls.closed:
                return
            reads = opened.flags & os.O_ACCMODE == os.O_RDONLY
            if not reads and not self.calls.dead:
                self.kernel.skip_policy.catch_up()  # a write may take effect now
            if opened.unseen and not opened.fds:
                self.calls.leave_out()
            self._opened.discard(opened)
            self._unopened.pop(opened, None)
            if opened.mark:
                self.calls.marked -= 1
                if self._marks and self.calls.lives:
                    self._marks.unpin(opened.mark)
            holders = self._holders(opened, every=True) if opened.fds else ()
            for task, fd in holders:
                if not task.gone and self.calls.lives:
                    try:
                        self.calls.call(task, "close", fd)
                    except KernelError:  # it has closed it itself, by machine/syscall
                        continue
            opened.handle.release()
            if reads and not opened.fds:
                self.kernel.skip_policy.unchanged()

    def release_all(self) -> None:
        """Release the open files of tasks that have ended."""
        opened, self._opened = self._opened, set()
        for each in opened:
            each.handle.release()

    # ---- by the guest itself
    def serve(self, request: HostOp) -> int | bytes:
        """Serve the guest's own system calls, made without the mount."""
        if request.kind == abi.HOST_OPEN:
            path = os.fsencode(request.path).decode("latin-1")
            node = self.file(mount_path(path))
            self._bind(request, node.open(request.flags, request.pid))
            self._own.add(request.cookie)
            request.flags &= ~abi.HOST_NOT_INHERITED
            return 0
        if request.kind == abi.HOST_RELEASE:
            handle = self._handles.pop(request.cookie, None)
            if request.cookie in self._own:
                self._own.discard(request.cookie)
                if handle is not None:
                    handle.release()
            return 0
        handle = self._handles.get(request.cookie)
        if handle is None or request.kind not in (abi.HOST_READ, abi.HOST_WRITE):
            raise KernelError(errno.EINVAL, "not for this file")
        handle.placed(request.pos)
        if request.kind == abi.HOST_READ:
            data = handle.read(request.count, request.pos)
            request.pos += len(data)
            return data
        if handle.acts_later:
            raise KernelError(errno.EINVAL, "not for the guest itself")
        taken, request.pos = handle.write_at(request.data(), request.pos)
        return taken


def is_cut_off(node: File, task: HostTask) -> bool:
    """Return True if a call has killed its task, but not to keep from a vital file."""
    return task.gone and isinstance(node, Vital)


def _brought(request: HostOp, data: bytes) -> bytes:
    """Return the data for a file, as guest code may have changed it on the way.

    The guest brings only the first HOST_DATA_SIZE bytes, as it has no room for more.
    """
    brought = request.data()
    return brought + data[len(brought) : request.count]


def opened_by(caller: Caller, node: File, flags: int) -> Handle:
    """Open a file for a caller.  Raises KernelError."""
    handle = node.open(flags, caller.pid)
    handle.uid = caller.uid
    return handle


def linux_path(path: str) -> str:
    """Return the path on Linux of an absolute path in the mount."""
    top, slash, rest = path.lstrip("/").partition("/")
    return LINUX_PATHS.get(top, "/" + top) + slash + rest


def mount_path(path: str) -> str:
    """Return the path in the mount of one on Linux; others stay, and are not there."""
    for top, linux in LINUX_PATHS.items():
        if path == linux or path.startswith(linux + "/"):
            return f"/{top}{path[len(linux) :]}"
    return f"/{path}"
