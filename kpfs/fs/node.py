# SPDX-License-Identifier: GPL-2.0-or-later
"""Directories, files and open files of the mount; nothing here knows of kprobes.

A file is a class with ``show()`` and, if it can be written, ``store()``.  How reads and
writes at offsets map to these is said by its base class here or in kpfs.fs.seqfile.
Everything but getattr and readdir runs in control context, under the kernel's lock.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Mapping

from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError
from kpfs.base.typed import TypeVar
from kpfs.fs.traits import Constant, Sleeping

T = TypeVar("T")
READABLE = nr.POLLIN | nr.POLLRDNORM
DEFAULT_POLLMASK = READABLE | nr.POLLOUT | nr.POLLWRNORM

# Errnos of a file system for operations that would change its tree.
_CHANGES = "mknod", "mkdir", "rmdir", "unlink", "rename", "link", "symlink"
DEBUGFS = dict.fromkeys(_CHANGES, errno.EPERM) | {"create": errno.EACCES}
PROC_SYS = dict.fromkeys(DEBUGFS, errno.ENOENT) | {
    "unlink": errno.EACCES,
    "chmod": errno.EPERM,
    "chown": errno.EPERM,
}


class Node:
    """An entry's attributes, as stat() shows them.  Times are ns since 1970."""

    fs: Mapping[str, int] = DEBUGFS
    blksize = 4096

    def __init__(self, mode: int = 0) -> None:
        self.mode = mode
        self.uid: int | None = None  # None: the user that mounted
        self.gid: int | None = None
        self.size = 0
        self.atime: int | None = None  # None: when it was mounted
        self.mtime: int | None = None

    @property
    def nlink(self) -> int:
        return 1

    def refuse(self, operation: str) -> KernelError:
        return KernelError(self.fs[operation], f"{operation} is not for this tree")

    def chmod(self, mode: int) -> None:
        if "chmod" in self.fs:
            raise self.refuse("chmod")
        self.mode = stat.S_IFMT(self.mode) | stat.S_IMODE(mode)

    def chown(self, uid: int, gid: int) -> None:
        """Change the owner; -1 leaves an id as it is."""
        if "chown" in self.fs:
            raise self.refuse("chown")
        self.uid = self.uid if uid == -1 else uid
        self.gid = self.gid if gid == -1 else gid

    def truncate(self, size: int) -> None:
        """Set what stat shows as the size, as debugfs and tracefs do; no more."""
        self.size = size


class Dir(Node):
    """A directory with a fixed set of entries."""

    entry_type = stat.S_IFDIR

    def __init__(self, mode: int = 0) -> None:
        super().__init__(mode)
        self.children: dict[str, Node] = {}

    def add(self, name: str, mode: int, node: Node) -> None:
        """Make an entry; it is a file if mode does not say what it is."""
        node.mode = mode if stat.S_IFMT(mode) else stat.S_IFREG | mode
        self.children[name] = node

    def lookup(self, name: str) -> Node | None:
        return self.children.get(name)

    def names(self) -> Iterable[str]:
        return list(self.children)

    def type_of(self, name: str) -> int:
        """Return the type that readdir gives of a further entry."""
        return self.entry_type

    @property
    def nlink(self) -> int:
        """Return the number of links: its name, its ".", and ".." of directories."""
        return 2 + sum(stat.S_ISDIR(child.mode) for child in self.children.values())

    def mkdir(self, name: str) -> None:
        raise self.refuse("mkdir")

    def rmdir(self, name: str) -> None:
        raise self.refuse("rmdir")


class ProcSysDir(Dir):
    """A directory below /proc/sys."""

    fs = PROC_SYS
    blksize = 1024

    @property
    def nlink(self) -> int:
        return 1


class DynDir(Dir):
    """A directory that has further entries, made as they are looked up.

    ``entry_type`` is what readdir says of all of them: S_IFDIR or S_IFREG.

    ``entry(name)`` and ``entries()`` are called without the kernel's lock.
    """

    def __init__(self, mode: int = 0) -> None:
        super().__init__(mode)
        self._kept: dict[str, tuple[object, Node]] = {}

    def keep(
        self, name: str, thing: T | None, make: Callable[[T], Node]
    ) -> Node | None:
        """Return the entry of a name; make it if it was made for another thing.

        None as the thing removes the entry.
        """
        if thing is None:
            self._kept.pop(name, None)
            return None
        of, node = self._kept.get(name, (None, None))
        if node is None or of is not thing:
            node = make(thing)
            self._kept[name] = thing, node
        return node

    def entry(self, name: str) -> Node | None:
        raise NotImplementedError

    def entries(self) -> Iterable[str]:
        raise NotImplementedError

    @property
    def nlink(self) -> int:
        return super().nlink + self.count_directories()

    def count_directories(self) -> int:
        """Return how many of entries() are directories: all, or none."""
        return len([*self.entries()]) if stat.S_ISDIR(self.entry_type) else 0

    def lookup(self, name: str) -> Node | None:
        return self.children.get(name) or self.entry(name)

    def names(self) -> Iterable[str]:
        return [*self.children, *self.entries()]


class Handle:
    """One open file.  Kernel: struct file and its private data.

    FUSE moves the file position after a write and some kernel files do not: ``ahead``
    is how much further FUSE's position is than the kernel's would be, until a seek.
    """

    def __init__(self, file: File, flags: int, pid: int) -> None:
        self.file = file
        self.flags = flags
        self.pid = pid  # the process that opened it
        self.uid = 0  # the user of this process
        self.next = 0  # FUSE's position, if nobody seeks
        self.ahead = 0

    @property
    def nonblock(self) -> bool:
        """Return True if no read of it is to wait."""
        return bool(self.flags & os.O_NONBLOCK)

    def prepare(self, size: int, offset: int) -> None:
        """Do the part of a read that needs no lock; called before it, without the lock.

        The result of read() must not depend on it.
        """

    def read(self, size: int, offset: int) -> bytes:
        """Return at most size bytes; b"" at the end."""
        raise KernelError(errno.EINVAL, "not for reading")

    def check_splice(self, size: int, offset: int) -> None:
        """Let splice(2) take up to size bytes at an offset, or refuse it: EINVAL."""
        if not self.file.splices_from:
            raise KernelError(errno.EINVAL, "not for splice(2)")

    def splice_waits(self, nonblock: bool) -> bool:
        """Return True if a splice waits for data.  nonblock: it has been told not to.

        Most files heed O_NONBLOCK alone.
        """
        return not self.nonblock

    def splice_ready(self, since: int | None) -> bool:
        """Return True if a splice need not wait, or has waited for long enough.

        since: ``wakes`` when it began to wait; None: it has not waited.
        """
        return self.ready()

    def splice_ended(self, since: int | None) -> bool:
        """Return True if a splice that finds nothing gets 0 bytes."""
        return False

    def splice(self, size: int, offset: int, nonblock: bool) -> bytes:
        """Return what splice(2) takes, size bytes at most."""
        return self.read(size, offset)

    wakes = 0  # how often ioctl() has woken the splices that wait

    def ioctl(self, command: int) -> None:
        """Do what ioctl(2) commands, without data; ENOTTY."""
        raise KernelError(errno.ENOTTY, "no such ioctl")

    def write(self, data: bytes, offset: int) -> int:
        """Take a write that FUSE asks for at offset; return the bytes taken."""
        pos = self.tell(offset, bool(self.flags & os.O_APPEND))
        taken, after = self.write_at(data, pos)
        self.ahead += pos + taken - after
        return taken

    def write_at(self, data: bytes, pos: int) -> tuple[int, int]:
        """Take a write at the kernel's position; return bytes taken, new position."""
        taken = self.take(data, pos)
        moves = self.file.write_moves
        return taken, pos + (taken if moves is None else moves)

    def take(self, data: bytes, pos: int) -> int:
        """Take a write at a position; return the number of bytes taken."""
        taken = self.file.store(data)
        return len(data) if taken is None else taken

    # a write takes effect in written(), which only writers through the mount get
    acts_later = False

    def written(self, task: Callable[[], object]) -> None:
        """Act on what a write() has taken; may still fail it.

        task: returns the writing task, one of the emulated kernel.
        Context: without the kernel's lock, as this may wait.
        """

    def seek_end(self) -> None:
        """Refuse lseek(SEEK_END), or let it answer the size that stat shows."""

    def ready(self) -> bool:
        """Return True if a read would not block.  Called under the kernel's lock."""
        return True

    def poll(self) -> int:
        """Return the events of poll(2) that are there; the lock is held."""
        return DEFAULT_POLLMASK if self.ready() else 0

    def news(self) -> object:
        """Return what differs after each thing that wakes those who poll."""
        return None

    def release(self) -> None:
        """Give up the file: the last reference is gone."""
        self.file.closed(self)

    def tell(self, offset: int, append: bool = False) -> int:
        """Return the kernel's position for an operation that FUSE asks for at offset.

        append: for a write with O_APPEND FUSE says the end of the file, as if that had
        any meaning; the kernel files go on from where they are.
        """
        if append:
            self.ahead += offset - self.next
        elif offset != self.next:
            self.ahead = 0
        return offset - self.ahead

    def moved(self, offset: int, length: int) -> None:
        """Note that an operation at FUSE's offset took length bytes."""
        self.next = offset + length

    def placed(self, pos: int) -> None:
        """Note that FUSE's position and the kernel's are pos from now on."""
        self.next, self.ahead = pos, 0

    def stays(self, pos: int) -> None:
        """Note that the kernel's position is pos now, and FUSE's where it was."""
        self.ahead = self.next - pos


class OpenHandle:
    """The base of a tree's open files that have a handle."""

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        self.flags = handle.flags
        self.nonseekable = handle.file.nonseekable
        self.constant = isinstance(handle.file, Constant)
        self.sleeps = isinstance(handle.file, Sleeping)

    def set_flags(self, flags: int) -> None:
        """Set those that fcntl(2) can set.  Context: lock held."""
        self.flags ^= (self.flags ^ flags) & nr.SETFL_MASK
        self.handle.flags = self.flags


class File(Node):
    """A file that can be opened, but neither read nor written."""

    handle_type: type[Handle] = Handle  # type of its open files
    nonseekable = False
    # bytes by which a write moves the file position, None: by what it took
    write_moves: int | None = None
    # splice(2) and sendfile(2) work.  Kernel: file_operations.splice_read, splice_write
    splices_from = splices_into = False
    write_iter = False  # a writev() is one write.  Kernel: file_operations.write_iter

    def show(self) -> str | bytes:
        """Return the text as it stands."""
        raise KernelError(errno.EINVAL, "not for reading")

    def store(self, data: bytes) -> int | None:
        """Take a write; return the bytes taken if not all."""
        raise KernelError(errno.EINVAL, "not for writing")

    def opened(self, flags: int) -> None:
        """Note that the file is opened, or raise what open() is refused with."""
        if truncates(flags):
            self.emptied()

    def emptied(self) -> None:
        """Note that an open for writing has emptied the file, likewise."""

    def may_pwrite(self, flags: int) -> bool:
        """Return True if it can be written at an offset.  Kernel: FMODE_PWRITE."""
        return not self.nonseekable

    def closed(self, handle: Handle) -> None:
        """Note that an open file is closed: opened()'s counterpart."""

    def open(self, flags: int, pid: int = 0) -> Handle:
        """Open by process pid.  O_TRUNC is in flags when it was given.

        An open for writing with O_TRUNC sets the size to 0, as in simple file systems.
        """
        self.opened(flags)
        if flags & os.O_TRUNC:
            self.truncate(0)
        return self.handle(flags, pid)

    def handle(self, flags: int, pid: int) -> Handle:
        return self.handle_type(self, flags, pid)


def names_of(folder: Node) -> list[tuple[str, int]]:
    """Return names and modes of what is in a directory, as readdir says; ENOTDIR."""
    if not isinstance(folder, Dir):
        raise KernelError(errno.ENOTDIR, "a file")
    children = folder.children
    return [
        (name, children[name].mode if name in children else folder.type_of(name))
        for name in folder.names()
    ]


def walk(root: Dir, path: str) -> Node:
    """Return the node at an absolute path; ENOENT, ENOTDIR."""
    node: Node = root
    for name in path.split("/"):
        if not name:
            continue
        if not isinstance(node, Dir):
            raise KernelError(errno.ENOTDIR, path)
        found = node.lookup(name)
        if found is None:
            raise KernelError(errno.ENOENT, path)
        node = found
    return node


def populate(
    root: Dir, rows: Iterable[tuple[str, int, Callable[[T], Node]]], owner: T
) -> dict[str, Dir]:
    """Make what a table says below root; return all directories by their paths."""
    dirs: dict[str, Dir] = {"": root}
    for path, mode, make in rows:
        parent, _, name = path.rpartition("/")
        node = make(owner)
        dirs[parent].add(name, mode, node)
        if isinstance(node, Dir):
            dirs[path] = node
    return dirs


def truncates(flags: int) -> bool:
    """Return True if an open() with these flags is for writing and empties the file."""
    return bool(flags & os.O_TRUNC) and flags & os.O_ACCMODE != os.O_RDONLY


def encode(text: str | bytes) -> bytes:
    """Encode the text of a file: a character is a byte, as the kernel has it."""
    return text if isinstance(text, bytes) else text.encode("latin-1")
