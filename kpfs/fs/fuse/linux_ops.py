# SPDX-License-Identifier: GPL-2.0-or-later
"""The mount over a real kernel: each operation is system calls of the caller's task.

Every directory, file, mode, owner and errno is the guest's own.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, MutableMapping

from kpfs.base.caller import Caller
from kpfs.base.errors import KernelError
from kpfs.fs.fuse import proto
from kpfs.fs.fuse.linux_machine import OwnTree
from kpfs.fs.fuse.linux_node import OwnHandle, own_stat
from kpfs.fs.fuse.linux_paths import Path, Paths
from kpfs.fs.fuse.loop import Answer, Request
from kpfs.fs.fuse.openflags import guest_flags
from kpfs.fs.fuse.server import FOREVER, OPEN_SIZE, Notify, Server
from kpfs.fs.write_call import EMPTY_WRITE
from kpfs.linux.running import syscalls as nr
from kpfs.linux.running.files import OpenFile, OpenFiles
from kpfs.linux.running.linux_kernel import LinuxKernel
from kpfs.linux.running.machine import STOP, Op, Out, Result
from kpfs.linux.running.tasks import Reply, Task

DIRENTS_SIZE = 32768
MAX_PATH = 4096
NSEC = 1_000_000_000
# what is below a directory or behind a file of the mount's root
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
# In these directories, once they are as they were made, what is there stays.
LASTING = (
    *("/kprobes/", "/tracing/", "/module/", "/debug/kprobes/", "/debug/tracing/"),
    *("/sys/debug/", "/sys/dev/", "/sys/fs/", "/sys/kernel/", "/sys/vm/"),
)
SHOW_TASKS = "/proc", "/debug/sched"
FILES = frozenset(("kallsyms", "modules", "version", "cmdline", "kmsg"))
_ROOT = nr.Stat(stat.S_IFDIR | 0o755, 2, 0, 0, 0, 4096, 1, 0, 0, 0)


# What is made of a write to an open file instead: the bytes taken.
InPlace = Callable[[OpenFiles, OpenFile], int]
Writers = MutableMapping[int, InPlace]  # by the number of our thread


def guest_path(path: str) -> bytes:
    """Where a path of the mount is in the guest, with a 0 behind it; ENOENT.

    EPERM: it is one of machine/.
    """
    first, _, rest = path.strip("/").partition("/")
    if first == "machine":
        raise KernelError(errno.EPERM, path)
    place = PLACES.get(first)
    if place is None:
        raise KernelError(errno.ENOENT, path)
    whole = f"{place}/{rest}" if rest else place
    return whole.encode("latin-1") + b"\0"


class LinuxOperations(Server):
    """Serves the requests of a mount over a real kernel."""

    def __init__(
        self,
        kernel: LinuxKernel,
        files: OpenFiles,
        own: OwnTree,
        notify: Notify,
        on_ready: Callable[[], None],
        writers: Writers,
    ) -> None:
        """own: what is not the guest's.

        writers: threads of ours that write for somebody else, and what they do.
        """
        super().__init__(notify, on_ready)
        self.kernel = kernel
        self.files = files
        self.own = own
        self.own_files: dict[int, OwnHandle] = {}
        self.writers = writers
        self.paths = Paths()
        self.opened_paths: dict[int, Path] = {}  # of open files
        self.asked: set[int] = set()  # directories whose attributes Linux has
        self.pollers: list[tuple[Task, int]] = []
        self.methods |= {
            proto.LOOKUP: self.lookup,
            proto.GETATTR: self.getattr,
            proto.SETATTR: self.setattr,
            proto.READLINK: self.readlink,
            proto.SYMLINK: self.symlink,
            proto.MKNOD: self.mknod,
            proto.MKDIR: self.mkdir,
            proto.UNLINK: self.unlink,
            proto.RMDIR: self.rmdir,
            proto.RENAME: self.rename,
            proto.LINK: self.link,
            proto.CREATE: self.create,
            proto.OPEN: self.open,
            proto.READ: self.read,
            proto.WRITE: self.write,
            proto.IOCTL: self.ioctl,
            proto.POLL: self.poll,
        }

    def started(self) -> None:
        self.kernel.start(self.notify_pollers)
        super().started()
        with self.kernel.lock:
            self.kernel.follow_directories(self.directories_changed)

    # ---- what Linux may keep
    def may_last(self, path: str) -> bool:
        """Whether what a path leads to is there as long as the mount.  Lock held."""
        first, _, rest = path.strip("/").partition("/")
        if first == "machine" or not rest:
            return not rest.startswith("text/")
        known = self.kernel.directories
        return known is not None and known.as_made and f"{path}/".startswith(LASTING)

    def show_tasks(self, path: str) -> None:
        """Have the tasks be there, if a path may show them.  The lock is held."""
        if path.startswith(SHOW_TASKS):
            self.kernel.catch_up()

    def may_keep(self, path: Path, found: nr.Stat) -> bool:
        """Whether Linux may keep the attributes, the size among them."""
        if not path.lasts:
            return False
        if not is_file(found):
            self.asked.add(path.number)
            return True
        kept = self.keeping and not path.open_files
        path.shrunk |= kept
        return kept

    def directories_changed(self) -> None:
        """Have Linux ask for their attributes anew.  Called under the kernel's lock."""
        asked, self.asked = self.asked, set()
        for number in asked:
            self.forget_attributes(number)

    # ---- system calls
    def request(self, task: Task, *ops: Op) -> Reply:
        """Make operations; the first that fails is raised.  The lock is held."""
        reply = self.kernel.request(task, ops)
        for result in reply.results:
            if result < 0:
                raise KernelError(-result, "the guest")
        return reply

    def by_caller(self, request: Request, *ops: Op) -> Reply:
        with self.kernel.lock:
            return self.request(self.task(request), *ops)

    def task(self, request: Request) -> Task:
        """Who asks; a process outside our pid namespace is the agent."""
        if not request.pid:
            return self.kernel.tasks.agent
        return self.kernel.tasks.task(Caller(request.pid, request.uid, request.gid))

    def watcher(self, request: Request) -> Task:
        """Who looks at names and attributes: the caller, unless he waits."""
        tasks = self.kernel.tasks
        task = tasks.known(request.pid)
        return tasks.agent if task is None or task.waits else task

    # ---- names
    def path(self, request: Request, body: bytes) -> str:
        """A path of the mount by its directory and its name."""
        name = body.split(b"\0", 1)[0].decode("latin-1")
        return f"{self.paths[request.nodeid].text}/{name}"

    def child(self, request: Request, body: bytes) -> bytes:
        """The guest's path of that."""
        return guest_path(self.path(request, body))

    def lookup(self, request: Request) -> Answer:
        return self.entry(request, request.body)

    def entry(self, request: Request, name: bytes) -> Answer:
        """The answer that makes an entry known to Linux; name ends with a 0."""
        text = self.path(request, name)
        with self.kernel.lock:
            found = self.stat(request, text)
            path = self.paths.look_up(text)
            path.lasts |= self.may_last(text)
            kept = self.may_keep(path, found)
        hold = FOREVER if path.lasts else 0, FOREVER if kept else 0
        head = proto.ENTRY.pack(path.number, 0, *hold, 0, 0)
        size = found.size if kept or not is_file(found) else OPEN_SIZE
        return Answer(
            payload=head + self.attributes(path.number, found, size),
            undo=lambda: self.paths.forget(path.number, 1),
        )

    def forget_one(self, number: int, lookups: int) -> None:
        self.paths.forget(number, lookups)

    # ---- attributes
    def stat(self, request: Request, path: str) -> nr.Stat:
        """The attributes of what a path leads to.  The lock is held."""
        if not path:
            return _ROOT
        own = self.own.find(path)
        if own is not None:
            return own_stat(own)
        self.show_tasks(path)
        how = nr.AT_SYMLINK_NOFOLLOW, nr.STATX_BASIC
        place = guest_path(path)
        op = Op(nr.STATX, (nr.AT_FDCWD, place, *how, Out(nr.STATX_SIZE)))
        reply = self.request(self.watcher(request), op)
        return nr.read_statx(reply.out(1, nr.STATX_SIZE))

    def getattr(self, request: Request) -> bytes:
        flags, fh = proto.GETATTR_REQUEST.unpack_from(request.body)
        path = self.paths[request.nodeid]
        with self.kernel.lock:
            found = self.stat(request, path.text)
            if flags & proto.GETATTR_FH:  # the only reason is SEEK_END
                path.shrunk, kept = True, False
                if fh not in self.own_files:
                    opened = self.files[fh]
                    task, fd = self.descriptor(request, opened)
                    end = Op(nr.LSEEK, (fd, 0, nr.SEEK_END))
                    opened.pos = self.request(task, end).results[0]
                    found = found._replace(size=opened.pos)
            else:
                kept = self.may_keep(path, found)
                if is_file(found) and not kept:
                    self.forget_attributes(path.number)
        return self.attributes_answer(path, kept, found, found.size)

    def attributes_answer(
        self, path: Path, kept: bool, found: nr.Stat, size: int
    ) -> bytes:
        hold = proto.ATTR_ANSWER.pack(FOREVER if kept else 0, 0, 0)
        return hold + self.attributes(path.number, found, size)

    def attributes(self, number: int, found: nr.Stat, size: int) -> bytes:
        mode = found.mode
        if is_file(found):  # a device too: nobody may open one of the host
            mode = stat.S_IFREG | stat.S_IMODE(mode)
        atime, atime_ns = divmod(found.atime, NSEC)
        mtime, mtime_ns = divmod(found.mtime, NSEC)
        ctime, ctime_ns = divmod(found.ctime, NSEC)
        return proto.ATTR.pack(
            *(number, size, 0),
            *(atime, mtime, ctime, atime_ns, mtime_ns, ctime_ns),
            *(mode, found.nlink),
            found.uid or self.ids[0],
            found.gid or self.ids[1],
            *(0, found.blksize, 0),
        )

    def setattr(self, request: Request) -> bytes:
        valid, *_ = proto.SETATTR_REQUEST.unpack_from(request.body)
        path = self.paths[request.nodeid]
        if self.own.find(path.text) is not None and not valid & ~proto.FATTR_SIZE:
            ops = []
        else:
            ops = self.changes(guest_path(path.text), request)
        with self.kernel.lock:
            if ops:
                self.request(self.task(request), *ops)
            found = self.stat(request, path.text)
            kept = self.may_keep(path, found)
        shown = found.size if kept or not is_file(found) else OPEN_SIZE
        return self.attributes_answer(path, kept, found, shown)

    def changes(self, place: bytes, request: Request) -> list[Op]:
        """What SETATTR wants done to a path of the guest."""
        valid, _, size, _, atime, mtime, _, atime_ns, mtime_ns, _, mode, uid, gid = (
            proto.SETATTR_REQUEST.unpack_from(request.body)
        )
        ops = []
        if valid & proto.FATTR_MODE:
            ops.append(Op(nr.FCHMODAT, (nr.AT_FDCWD, place, mode & 0o7777)))
        if valid & (proto.FATTR_UID | proto.FATTR_GID):
            ids = (
                uid if valid & proto.FATTR_UID else -1,
                gid if valid & proto.FATTR_GID else -1,
            )
            follow = nr.AT_SYMLINK_NOFOLLOW
            ops.append(Op(nr.FCHOWNAT, (nr.AT_FDCWD, place, *ids, follow)))
        if valid & proto.FATTR_SIZE:
            ops.append(Op(nr.TRUNCATE, (place, size)))
        if valid & (proto.FATTR_ATIME | proto.FATTR_MTIME):
            omit = 0, nr.UTIME_OMIT
            times = nr.TIMESPECS.pack(
                *((atime, atime_ns) if valid & proto.FATTR_ATIME else omit),
                *((mtime, mtime_ns) if valid & proto.FATTR_MTIME else omit),
            )
            ops.append(Op(nr.UTIMENSAT, (nr.AT_FDCWD, place, times, 0)))
        return ops

    def readlink(self, request: Request) -> bytes:
        path = guest_path(self.paths[request.nodeid].text)
        op = Op(nr.READLINKAT, (nr.AT_FDCWD, path, Out(MAX_PATH), MAX_PATH))
        with self.kernel.lock:
            reply = self.request(self.watcher(request), op)
            return reply.out(1, reply.results[0])

    # ---- directories
    def entries(self, request: Request) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        path = self.paths[request.nodeid].text
        if not path:
            folders = [name for name in (*PLACES, "machine") if name not in FILES]
            return [(name, stat.S_IFDIR) for name in (".", "..", *folders)] + [
                (name, stat.S_IFREG) for name in PLACES if name in FILES
            ]
        own = self.own.find(path)
        if own is not None:
            return [(".", stat.S_IFDIR), ("..", stat.S_IFDIR), *own.names()]
        flags = os.O_RDONLY | nr.O_DIRECTORY
        with self.kernel.lock:
            self.show_tasks(path)
            task = self.watcher(request)
            op = Op(nr.OPENAT, (nr.AT_FDCWD, guest_path(path), flags, 0))
            fd = self.request(task, op).results[0]
            try:
                read = Op(nr.GETDENTS64, (fd, Out(DIRENTS_SIZE), DIRENTS_SIZE))
                while size := (reply := self.request(task, read)).results[0]:
                    found += nr.read_dirents(reply.out(0, size))
            finally:
                self.request(task, Op(nr.CLOSE, (fd,)))
        return found

    def mkdir(self, request: Request) -> Answer:
        mode, name = proto.MKDIR_REQUEST.unpack_from(request.body)[0], request.body[8:]
        path = self.child(request, name)
        self.by_caller(request, Op(nr.MKDIRAT, (nr.AT_FDCWD, path, mode)))
        return self.entry(request, name)

    def rmdir(self, request: Request) -> bytes:
        return self.remove(request, nr.AT_REMOVEDIR)

    def unlink(self, request: Request) -> bytes:
        return self.remove(request, 0)

    def remove(self, request: Request, how: int) -> bytes:
        path = self.child(request, request.body)
        self.by_caller(request, Op(nr.UNLINKAT, (nr.AT_FDCWD, path, how)))
        return b""

    def mknod(self, request: Request) -> Answer:
        mode, device = proto.MKNOD_REQUEST.unpack_from(request.body)
        name = request.body[proto.MKNOD_REQUEST.size :]
        path = self.child(request, name)
        self.by_caller(request, Op(nr.MKNODAT, (nr.AT_FDCWD, path, mode, device)))
        return self.entry(request, name)

    def symlink(self, request: Request) -> Answer:
        name, _, target = request.body.partition(b"\0")
        path = self.child(request, name)
        self.by_caller(request, Op(nr.SYMLINKAT, (target, nr.AT_FDCWD, path)))
        return self.entry(request, name + b"\0")

    def link(self, request: Request) -> Answer:
        (number,) = proto.FH.unpack_from(request.body)
        name, at = request.body[8:], nr.AT_FDCWD
        path = self.child(request, name)
        old = guest_path(self.paths[number].text)
        self.by_caller(request, Op(nr.LINKAT, (at, old, at, path, 0)))
        return self.entry(request, name)

    def rename(self, request: Request) -> bytes:
        (number,) = proto.FH.unpack_from(request.body)
        old, _, new = request.body[8:].partition(b"\0")
        path = self.child(request, old)
        name = new.rstrip(b"\0").decode("latin-1")
        there = guest_path(f"{self.paths[number].text}/{name}")
        at = nr.AT_FDCWD
        self.by_caller(request, Op(nr.RENAMEAT, (at, path, at, there)))
        return b""

    # ---- files
    def create(self, request: Request) -> Answer:
        flags, mode = proto.CREATE_REQUEST.unpack_from(request.body)
        flags = guest_flags(flags)
        name = request.body[proto.CREATE_REQUEST.size :]
        path = self.child(request, name)
        fh, how = self.opened(request, path, flags | os.O_CREAT, mode & 0o7777)
        entry = self.entry(request, name)
        self.note_open(self.paths.known(self.path(request, name)), fh, flags)
        return Answer(payload=entry.payload + proto.OPEN_ANSWER.pack(fh, how, 0))

    def open(self, request: Request) -> Answer:
        flags = guest_flags(*proto.OPEN_REQUEST.unpack_from(request.body))
        path = self.paths[request.nodeid]
        own = self.own.find(path.text)
        if own is not None:
            fh, how = next(self.handles), proto.FOPEN_DIRECT_IO
            self.own_files[fh] = OwnHandle(own, request.pid)
        else:
            fh, how = self.opened(request, guest_path(path.text), flags, 0)
        self.note_open(path, fh, flags)
        return Answer(
            payload=proto.OPEN_ANSWER.pack(fh, how, 0), undo=lambda: self.close(fh)
        )

    def note_open(self, path: Path, fh: int, flags: int) -> None:
        """A path is open now: its size is to be OPEN_SIZE."""
        self.opened_paths[fh] = path
        path.open_files.add(fh)
        if path.shrunk or path.truncated:
            path.shrunk = False
            self.restore_size(path.number)
        path.truncated |= bool(flags & os.O_TRUNC)  # as soon as Linux has the answer

    def opened(
        self, request: Request, path: bytes, flags: int, mode: int
    ) -> tuple[int, int]:
        fh = next(self.handles)
        with self.kernel.lock:
            task = self.task(request)
            open_it = Op(nr.OPENAT, (nr.AT_FDCWD, path, flags, mode), STOP)
            seek = Op(nr.LSEEK, (Result(0), 0, nr.SEEK_CUR))
            fd, at = self.kernel.request(task, [open_it, seek]).results
            if fd < 0:
                raise KernelError(-fd, "the guest")
            opened = self.files.by_handle[fh] = OpenFile(flags, task, fd)
            if flags & os.O_ACCMODE == os.O_RDONLY:
                opened.ready = self.kernel.ready.reader(path.rstrip(b"\0"))
        how = proto.FOPEN_DIRECT_IO
        if at == -errno.ESPIPE:
            how |= proto.FOPEN_NONSEEKABLE
            opened.seekable = False
        return fh, how

    def descriptor(self, request: Request, opened: OpenFile) -> tuple[Task, int]:
        """The caller's task and its descriptor, made if it has none yet."""
        task = self.task(request)
        return task, self.files.descriptor_of(task, opened)

    def read(self, request: Request) -> bytes:
        fh, offset, size, how, *_ = proto.READ_REQUEST.unpack_from(request.body)
        own = self.own_files.get(fh)
        if not how & proto.READ_LOCKOWNER and not (own and own.node.lasts):
            # for the page cache: see OPEN_SIZE
            raise KernelError(errno.EINVAL, "no splice here")
        if own:
            return own.read(offset, size)
        opened = self.files[fh]
        with self.kernel.lock:
            return self.files.read(self.task(request), opened, size, offset)

    def write(self, request: Request) -> bytes:
        fh, offset, size, *_ = proto.WRITE_REQUEST.unpack_from(request.body)
        in_place = self.writers.pop(request.pid, None) if self.writers else None
        if fh in self.own_files:
            return self.write_own(request, self.own_files[fh], in_place is not None)
        opened = self.files[fh]
        if in_place is not None:
            return proto.WRITE_ANSWER.pack(in_place(self.files, opened))
        begin = proto.WRITE_REQUEST.size
        data = request.body[begin : begin + size]
        with self.kernel.lock:
            task, fd = self.descriptor(request, opened)
            if not opened.flags & os.O_APPEND:
                self.files.seek(task, opened, fd, offset)
            taken = self.request(task, Op(nr.WRITE, (fd, data, size))).results[0]
            opened.pos = offset + taken
            return proto.WRITE_ANSWER.pack(taken)

    def write_own(self, request: Request, opened: OwnHandle, for_other: bool) -> bytes:
        if for_other:
            raise KernelError(errno.EAGAIN, "the caller is to write himself")
        begin, size = (
            proto.WRITE_REQUEST.size,
            proto.WRITE_REQUEST.unpack_from(request.body)[2],
        )
        data = request.body[begin : begin + size]
        opened.node.store(data, lambda: self.task(request))
        return proto.WRITE_ANSWER.pack(size)

    def ioctl(self, request: Request) -> bytes:
        """EMPTY_WRITE stands for a write that Linux would not pass on; no other."""
        fh, _, cmd, *_ = proto.IOCTL_REQUEST.unpack_from(request.body)
        in_place = None
        if cmd == EMPTY_WRITE:
            in_place = self.writers.pop(request.pid, None)
        if in_place is None or fh in self.own_files:
            raise KernelError(errno.ENOTTY, "no such ioctl")
        opened = self.files[fh]
        return proto.IOCTL_ANSWER.pack(in_place(self.files, opened), 0, 0, 0)

    def close(self, fh: int) -> None:
        self.opened_paths.pop(fh).open_files.discard(fh)
        if self.own_files.pop(fh, None) is not None:
            return
        with self.kernel.lock:
            self.files.close(fh)

    # ---- poll
    def poll(self, request: Request) -> bytes:
        """The events that are there; if there are none, tells Linux later."""
        fh, handle, flags, events = proto.POLL_REQUEST.unpack_from(request.body)
        if fh in self.own_files:
            return proto.POLL_ANSWER.pack(events & (nr.POLLIN | nr.POLLOUT))
        with self.kernel.lock:
            task, fd = self.descriptor(request, self.files[fh])
            found = self.look(task, fd, events)
            if not found and flags & proto.POLL_SCHEDULE_NOTIFY:
                waits = Op(nr.POLL, (nr.POLLFD.pack(fd, events, 0), 1, -1))
                self.kernel.begin(task, [waits])
                self.pollers.append((task, handle))
        return proto.POLL_ANSWER.pack(found)

    def look(self, task: Task, fd: int, events: int) -> int:
        reply = self.request(task, Op(nr.POLL, (nr.POLLFD.pack(fd, events, 0), 1, 0)))
        return int(nr.POLLFD.unpack(reply.out(0, nr.POLLFD.size))[2])

    def notify_pollers(self) -> None:
        """Wake those whose poll is over.  Called under the kernel's lock."""
        waiting = []
        for task, handle in self.pollers:
            if task.waits:
                waiting.append((task, handle))
            else:
                self.notify(proto.NOTIFY_POLL, proto.FH.pack(handle))
        self.pollers = waiting


def is_file(found: nr.Stat) -> bool:
    """Whether it is shown as a file."""
    return stat.S_ISREG(found.mode) or stat.S_ISCHR(found.mode)
