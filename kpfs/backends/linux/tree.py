# SPDX-License-Identifier: GPL-2.0-or-later
"""A Linux kernel's files as a Tree: operations are system calls of the caller's task.

Every directory, file, mode, owner and errno is the kernel's own.  machine/ lies beside
them: what is there needs no file of the kernel.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from kpfs.base import syscall_numbers as nr
from kpfs.base.data_model import DataModel
from kpfs.base.errors import KernelError
from kpfs.base.fuse_wire import SetattrRequest
from kpfs.base.units import NSEC
from kpfs.fs.machine import MachineInfo, machine_dir
from kpfs.fs.node import Dir, File, Handle, Node, OpenHandle, names_of, walk
from kpfs.fs.seqfile import SeqFile
from kpfs.fs.traits import Constant
from kpfs.fs.tree import Attributes, Listener
from kpfs.linux.running import syscalls
from kpfs.linux.running.files import MountedFile, OpenFiles
from kpfs.linux.running.machine import Argument, Op, Out, Reply
from kpfs.linux.running.poll_watcher import PollWatcher
from kpfs.linux.running.tasks import AgentTask

if TYPE_CHECKING:
    from kpfs.base.ktypes import Caller
    from kpfs.base.lock import FairLock
    from kpfs.fs.tree import InPlace, Wake
    from kpfs.linux.running.linux_kernel import LinuxKernel

DIRENTS_SIZE = 32768
MAX_ENTRIES = 1 << 20
MAX_PATH = 4096
# the kernel's paths of the root's directories and files
PLACES = {
    "kprobes": "/sys/kernel/debug/kprobes",
    "sys": "/proc/sys",
    "tracing": "/sys/kernel/tracing",
    "debug": "/sys/kernel/debug",
    "module": "/sys/module",
    "proc": "/proc",
    "sysfs": "/sys",
    "kallsyms": "/proc/kallsyms",
    "modules": "/proc/modules",
    "version": "/proc/version",
    "cmdline": "/proc/cmdline",
    "kmsg": "/dev/kmsg",
}
MACHINE = "machine"
FILES = frozenset(("kallsyms", "modules", "version", "cmdline", "kmsg"))
# In these directories, once they are as they were made, what is there stays.
LASTING = (
    *("/kprobes/", "/tracing/", "/module/", "/debug/kprobes/", "/debug/tracing/"),
    *("/sys/debug/", "/sys/dev/", "/sys/fs/", "/sys/kernel/", "/sys/vm/"),
)
SHOW_TASKS = "/proc", "/debug/sched"
_ROOT = Attributes(stat.S_IFDIR | 0o755, 0, 0, 0, 0, nlink=2)


def guest_path(path: str) -> bytes:
    """Return where a path of the tree is in the kernel, with a 0 behind it; ENOENT.

    EPERM: it is one of machine/.
    """
    first, _, rest = path.strip("/").partition("/")
    if first == MACHINE:
        raise KernelError(errno.EPERM, path)
    place = PLACES.get(first)
    if place is None:
        raise KernelError(errno.ENOENT, path)
    whole = f"{place}/{rest}" if rest else place
    return whole.encode("latin-1") + b"\0"


@contextmanager
def opened(call: Callable[[Op], Reply], path: bytes, flags: int) -> Iterator[int]:
    """Open a file and yield its descriptor.

    call: makes a system call of a task, and raises what it fails with.
    """
    fd = call(Op(nr.OPENAT, (nr.AT_FDCWD, path, flags, 0))).results[0]
    try:
        yield fd
    finally:
        call(Op(nr.CLOSE, (fd,)))


def read_directory(call: Callable[[Op], Reply], path: bytes) -> list[tuple[str, int]]:
    """Return names and modes of all that is in a directory.  call: see opened()."""
    found: list[tuple[str, int]] = []
    with opened(call, path, os.O_RDONLY | nr.O_DIRECTORY) as fd:
        listing = Op(nr.GETDENTS64, (fd, Out(DIRENTS_SIZE), DIRENTS_SIZE))
        while size := (reply := call(listing)).results[0]:
            found += syscalls.read_dirents(reply.out(0, size), reply.model)
            if len(found) > MAX_ENTRIES:
                raise KernelError(errno.EFBIG, "a directory without an end")
    return found


class LinuxEntry:
    """A path of the tree."""

    __slots__ = ("lasts", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.lasts = not path  # it leads to what is there as long as the mount

    @property
    def key(self) -> Hashable:
        return self.path


class LastLog(SeqFile):
    """kmsg of a kernel that is dead."""

    def __init__(self, kernel: LinuxKernel) -> None:
        super().__init__()
        self.mode = stat.S_IFREG | 0o644
        self._kernel = kernel

    def show(self) -> str:
        return "".join(record.kmsg() for record in self._kernel.dmesg())


class OwnFiles:
    """machine/ and the like: files of kpfs beside those of the kernel, by their paths.

    They need no mount.
    """

    def __init__(self, kernel: LinuxKernel, info: MachineInfo) -> None:
        self.kernel = kernel
        self._root = Dir()
        self._root.children[MACHINE] = machine_dir(info)
        self._last_log = LastLog(kernel)

    def find(self, path: str) -> Node | None:
        """Return the node at a path, None: the path is the kernel's; ENOENT."""
        path = path.strip("/")
        if path == "kmsg" and self.kernel.machine.dead:
            return self._last_log
        if path.partition("/")[0] != MACHINE:
            return None
        return walk(self._root, path)

    def open(self, node: Node, flags: int, pid: int) -> OwnFile:
        """Open one of these files for a process; EISDIR."""
        if not isinstance(node, File):
            raise KernelError(errno.EISDIR, "a directory")
        with self.kernel.lock:
            return OwnFile(self.kernel.lock, node.open(flags, pid))


class OwnFile(OpenHandle):
    """An open file of OwnFiles."""

    def __init__(self, lock: FairLock, handle: Handle) -> None:
        super().__init__(handle)
        self._lock = lock

    def read(self, size: int, offset: int) -> bytes:
        self.handle.prepare(size, offset)
        with self._lock:
            data = self.handle.read(size, offset)
            self.handle.moved(offset, len(data))
        return data

    def write(self, data: bytes, offset: int, task: Callable[[], AgentTask]) -> int:
        """task: returns that of the writer, with the lock held."""

        def writer() -> AgentTask:
            with self._lock:
                return task()

        with self._lock:
            taken = self.handle.write(data, offset)
            self.handle.moved(offset, taken)
        self.handle.written(writer)
        return taken

    def seek_end(self) -> None:
        with self._lock:
            self.handle.seek_end()

    def release(self) -> None:
        with self._lock:
            self.handle.release()


LinuxFile = MountedFile | OwnFile


class LinuxTree:
    """Implements kpfs.fs.tree.Tree."""

    def __init__(self, kernel: LinuxKernel, files: OpenFiles, own: OwnFiles) -> None:
        """own: the files of machine/."""
        self.kernel, self.lock = kernel, kernel.lock
        self.files = files
        self.own = own
        self.root = LinuxEntry("")
        self._poll_watcher = PollWatcher(kernel, files)

    def start(self, listener: Listener) -> None:
        self.kernel.start(self._poll_watcher.look)
        self.kernel.follow(self._poll_watcher.look)
        with self.kernel.lock:
            self.kernel.follow_directories(listener.directories_changed)

    def renew(self, entry: LinuxEntry) -> None:
        """Do nothing: a path stays what it is."""

    # ---- system calls
    def _by_caller(self, caller: Caller, number: int, *args: Argument) -> None:
        with self.kernel.lock:
            self.kernel.tasks.call(self.task(caller), Op(number, args))

    def task(self, caller: Caller) -> AgentTask:
        """Return the caller's task; outside our pid namespace, that is the agent."""
        tasks = self.kernel.tasks
        return tasks.task(caller) if caller.pid else tasks.agent

    def _watcher(self, pid: int) -> AgentTask:
        """Return the task that looks at names and attributes.

        It is the caller's, unless that waits.
        """
        tasks = self.kernel.tasks
        task = tasks.known(pid)
        return tasks.agent if task is None or task.waits else task

    def _show_tasks(self, path: str) -> None:
        """Have the tasks be there, if a path may show them.  Context: lock held."""
        if path.startswith(SHOW_TASKS):
            self.kernel.skip_policy.catch_up()

    # ---- names and attributes
    def look_up(self, folder: LinuxEntry, name: str) -> Hashable:
        return f"{folder.path}/{name}"

    def entry(self, _folder: LinuxEntry, _name: str, key: Hashable) -> LinuxEntry:
        return LinuxEntry(str(key))

    def _may_last(self, path: str) -> bool:
        """Return True if what a path leads to is there as long as the mount.

        Context: lock held.
        """
        first, _, rest = path.strip("/").partition("/")
        if first == MACHINE or not rest:
            return not rest.startswith("text/")
        known = self.kernel.directories
        return known is not None and known.as_made and f"{path}/".startswith(LASTING)

    def attributes(self, pid: int, entry: LinuxEntry) -> Attributes:
        with self.kernel.lock:
            return self._attributes(pid, entry)

    def _attributes(self, pid: int, entry: LinuxEntry) -> Attributes:
        path = entry.path
        if not path:
            return _ROOT
        own = self.own.find(path)
        found = self._stat(pid, path) if own is None else _own_attributes(own)
        entry.lasts |= self._may_last(path)
        return found._replace(stays=entry.lasts, steady=entry.lasts)

    def _stat(self, pid: int, path: str) -> Attributes:
        self._show_tasks(path)
        how = nr.AT_SYMLINK_NOFOLLOW, nr.STATX_BASIC
        place = guest_path(path)
        op = Op(nr.STATX, (nr.AT_FDCWD, place, *how, Out(syscalls.STATX_SIZE)))
        reply = self.kernel.tasks.call(self._watcher(pid), op)
        found = syscalls.read_statx(reply.out(1, syscalls.STATX_SIZE), reply.model)
        mode = found.mode
        if stat.S_ISCHR(mode):  # nobody may open a device of the host
            mode = stat.S_IFREG | stat.S_IMODE(mode)
        times = found.atime, found.mtime, found.ctime
        ids = found.uid or None, found.gid or None
        return Attributes(
            *(mode, found.size, *times, found.nlink, *ids, found.blksize),
            is_file=stat.S_ISREG(mode),
        )

    def seek_end(
        self, caller: Caller, entry: LinuxEntry, file: LinuxFile
    ) -> Attributes:
        with self.kernel.lock:
            found = self._attributes(caller.pid, entry)
            if isinstance(file, OwnFile):
                file.seek_end()
                return found
            task, fd = self._descriptor(caller, file)
            end = Op(nr.LSEEK, (fd, 0, nr.SEEK_END))
            file.pos = self.kernel.tasks.call(task, end).results[0]
            return found._replace(size=file.pos)

    def set_attributes(
        self,
        caller: Caller,
        entry: LinuxEntry,
        _file: LinuxFile | None,
        asked: SetattrRequest,
    ) -> Attributes:
        path = entry.path
        only_size = asked == SetattrRequest(fh=asked.fh, size=asked.size)
        own = only_size and self.own.find(path) is not None
        ops = [] if own else _changes(guest_path(path), asked, self.kernel.arch.model)
        with self.kernel.lock:
            if ops:
                self.kernel.tasks.call(self.task(caller), *ops)
            return self._attributes(caller.pid, entry)

    def read_link(self, pid: int, entry: LinuxEntry) -> bytes:
        path = guest_path(entry.path)
        op = Op(nr.READLINKAT, (nr.AT_FDCWD, path, Out(MAX_PATH), MAX_PATH))
        with self.kernel.lock:
            reply = self.kernel.tasks.call(self._watcher(pid), op)
            return reply.out(1, reply.results[0])

    # ---- directories
    def entries(self, pid: int, folder: LinuxEntry) -> list[tuple[str, int]]:
        dots = [(".", stat.S_IFDIR), ("..", stat.S_IFDIR)]
        path = folder.path
        if not path:
            folders = [name for name in (*PLACES, MACHINE) if name not in FILES]
            files = [name for name in PLACES if name in FILES]
            return [
                *dots,
                *((name, stat.S_IFDIR) for name in folders),
                *((name, stat.S_IFREG) for name in files),
            ]
        own = self.own.find(path)
        if own is not None:
            return [*dots, *names_of(own)]
        with self.kernel.lock:
            self._show_tasks(path)
            call = partial(self.kernel.tasks.call, self._watcher(pid))
            return read_directory(call, guest_path(path))

    def mkdir(self, caller: Caller, folder: LinuxEntry, name: str, mode: int) -> None:
        self._by_caller(caller, nr.MKDIRAT, *_child(folder, name), mode)

    def rmdir(self, caller: Caller, folder: LinuxEntry, name: str) -> None:
        self._by_caller(caller, nr.UNLINKAT, *_child(folder, name), nr.AT_REMOVEDIR)

    def mknod(
        self, caller: Caller, folder: LinuxEntry, name: str, mode: int, device: int
    ) -> None:
        self._by_caller(caller, nr.MKNODAT, *_child(folder, name), mode, device)

    def unlink(self, caller: Caller, folder: LinuxEntry, name: str) -> None:
        self._by_caller(caller, nr.UNLINKAT, *_child(folder, name), 0)

    def symlink(
        self, caller: Caller, folder: LinuxEntry, name: str, target: bytes
    ) -> None:
        new = _child(folder, name)
        self._by_caller(caller, nr.SYMLINKAT, target + b"\0", *new)

    def link(
        self, caller: Caller, folder: LinuxEntry, name: str, old: LinuxEntry
    ) -> None:
        there = nr.AT_FDCWD, guest_path(old.path)
        self._by_caller(caller, nr.LINKAT, *there, *_child(folder, name), 0)

    def rename(
        self,
        caller: Caller,
        folder: LinuxEntry,
        name: str,
        new_folder: LinuxEntry,
        new_name: str,
    ) -> None:
        new = _child(new_folder, new_name)
        self._by_caller(caller, nr.RENAMEAT, *_child(folder, name), *new)

    # ---- files
    def open(self, caller: Caller, entry: LinuxEntry, flags: int) -> LinuxFile:
        own = self.own.find(entry.path)
        if own is not None:
            return self.own.open(own, flags, caller.pid)
        path = guest_path(entry.path)
        with self.kernel.lock:
            return self.files.open(self.task(caller), path, flags, 0)

    def create(
        self, caller: Caller, folder: LinuxEntry, name: str, flags: int, mode: int
    ) -> LinuxFile:
        _, path = _child(folder, name)
        with self.kernel.lock:
            return self.files.open(self.task(caller), path, flags | os.O_CREAT, mode)

    def _descriptor(self, caller: Caller, file: MountedFile) -> tuple[AgentTask, int]:
        """Return the caller's task and its descriptor, made if it has none yet."""
        self.files.check(file)
        task = self.task(caller)
        return task, self.files.descriptor_of(task, file)

    def set_flags(self, caller: Caller, file: LinuxFile, flags: int) -> None:
        with self.kernel.lock:
            if isinstance(file, MountedFile):
                task, fd = self._descriptor(caller, file)
                flags &= nr.SETFL_MASK
                self.kernel.tasks.call(task, Op(nr.FCNTL, (fd, nr.F_SETFL, flags)))
            file.set_flags(flags)

    def read(self, caller: Caller, file: LinuxFile, size: int, offset: int) -> bytes:
        if isinstance(file, OwnFile):
            return file.read(size, offset)
        with self.kernel.lock:
            self.files.check(file)
            return self.files.read(self.task(caller), file, size, offset)

    def write(self, caller: Caller, file: LinuxFile, data: bytes, offset: int) -> int:
        if isinstance(file, OwnFile):
            return file.write(data, offset, lambda: self.task(caller))
        with self.kernel.lock:
            task, fd = self._descriptor(caller, file)
            if not file.flags & os.O_APPEND:
                self.files.seek(task, file, fd, offset)
            op = Op(nr.WRITE, (fd, data, len(data)))
            taken = self.kernel.tasks.call(task, op).taken(0, len(data))
            if taken < 0:
                raise KernelError(-taken)
            file.pos = offset + taken
            return taken

    def splice_from(
        self, caller: Caller, file: LinuxFile, size: int, offset: int, nonblock: bool
    ) -> bytes:
        with self._spliced(caller, file) as (task, opened):
            flags = nr.SPLICE_F_NONBLOCK if nonblock else 0
            return self.files.splice_from(task, opened, size, offset, flags)

    def splice_into(
        self, caller: Caller, file: LinuxFile, data: bytes, offset: int
    ) -> int:
        with self._spliced(caller, file) as (task, opened):
            return self.files.splice_into(task, opened, data, offset)

    def ioctl(
        self, caller: Caller, file: LinuxFile, command: int, argument: int
    ) -> int:
        if command or isinstance(file, OwnFile):  # others may have pointers
            raise KernelError(errno.ENOTTY, "no such ioctl")
        with self.kernel.lock:
            task, fd = self._descriptor(caller, file)
            op = Op(nr.IOCTL, (fd, command, argument))
            return self.kernel.tasks.call(task, op).results[0]

    @contextmanager
    def _spliced(
        self, caller: Caller, file: LinuxFile
    ) -> Iterator[tuple[AgentTask, MountedFile]]:
        """Hold the lock, and yield the caller's task and a file of the kernel's."""
        if isinstance(file, OwnFile):
            raise KernelError(errno.EINVAL, "not for splice(2)")
        with self.kernel.lock:
            self.files.check(file)
            yield self.task(caller), file

    def write_in_place(self, make: InPlace, file: LinuxFile) -> int:
        if isinstance(file, OwnFile):
            raise KernelError(errno.EAGAIN, "the caller is to write itself")
        self.files.check(file)
        return make(self.files, file)

    def release(self, file: LinuxFile) -> None:
        if isinstance(file, OwnFile):
            file.release()
            return
        with self.kernel.lock:
            try:
                self._poll_watcher.forget(file)
            finally:
                self.files.close(file)

    # ---- poll
    def poll(
        self, caller: Caller, file: LinuxFile, events: int, wake: Wake | None
    ) -> int:
        if isinstance(file, OwnFile):
            return events & (nr.POLLIN | nr.POLLOUT)
        with self.kernel.lock:
            self.files.check(file)
            waits = wake is not None and self._poll_watcher.watch(file)
            task, fd = self._descriptor(caller, file)
            row = self.kernel.arch.model.struct(syscalls.POLLFD)
            asked = row.pack(fd, events, 0)
            reply = self.kernel.tasks.call(task, Op(nr.POLL, (asked, 1, 0)))
            found = int(row.unpack(reply.out(0, row.size))[2])
            found |= self._poll_watcher.take_changes(file) & (events | nr.POLLERR)
            if wake is not None and waits:
                self._poll_watcher.expect(file, wake)
        return found


def _child(folder: LinuxEntry, name: str) -> tuple[int, bytes]:
    """Return an entry as system calls name it: a descriptor and a path."""
    return nr.AT_FDCWD, guest_path(f"{folder.path}/{name}")


def _own_attributes(node: Node) -> Attributes:
    is_file = isinstance(node, File)
    return Attributes(
        *(node.mode, node.size, 0, 0, 0, 1 if is_file else 2),
        constant=isinstance(node, Constant),
        is_file=is_file,
    )


def _changes(place: bytes, asked: SetattrRequest, model: DataModel) -> list[Op]:
    """Return the calls that change a path's attributes."""
    _, mode, uid, gid, size, atime, mtime = asked
    at = nr.AT_FDCWD
    ops = []
    if mode is not None:
        ops.append(Op(nr.FCHMODAT, (at, place, mode & 0o7777)))
    if uid is not None or gid is not None:
        ids = -1 if uid is None else uid, -1 if gid is None else gid
        ops.append(Op(nr.FCHOWNAT, (at, place, *ids, nr.AT_SYMLINK_NOFOLLOW)))
    if size is not None:
        ops.append(Op(nr.TRUNCATE, (place, size)))
    if atime is not None or mtime is not None:
        times = [
            (0, nr.UTIME_OMIT) if t is None else divmod(t, NSEC) for t in (atime, mtime)
        ]
        packed = model.struct(syscalls.TIMESPECS).pack(*times[0], *times[1])
        ops.append(Op(nr.UTIMENSAT, (at, place, packed, 0)))
    return ops
