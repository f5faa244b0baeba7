# SPDX-License-Identifier: GPL-2.0-or-later
"""The system calls that are mirrored, and how each is carried over to the kernel.

One row of CALLS tells the kinds of a call's arguments; a kind is a method of _Carrier.
Two sorts of calls are not mirrored:
- calls that make a process: the kernel forks at the first call of the child, when its
  pid is known;
- kill(): a shell calls it when signals are about to arrive at the shell itself, which
  could interrupt the call meanwhile (see kpfs.mirror.supervisor).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from stat import S_IFDIR, S_IFREG
from typing import NamedTuple

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.mirror.host import AT_FDCWD, Host
from kpfs.mirror.plan import DATA_MAX, MAX_FD, Plan
from kpfs.mirror.seccomp import Notification

AT_SYMLINK_NOFOLLOW, AT_SYMLINK_FOLLOW = 0x100, 0x400
O_CREAT_EXCL, O_NOFOLLOW = 0o300, 0o400000
F_DUPFD, F_SETFD, F_DUPFD_CLOEXEC = 0, 2, 1030
EXECS = frozenset((nr.EXECVE, nr.EXECVEAT))
EXITS = frozenset((nr.EXIT, nr.EXIT_GROUP))
# calls that a Linux kernel answers itself
ANSWERED = frozenset((nr.SYSLOG, nr.INIT_MODULE, nr.DELETE_MODULE, nr.FINIT_MODULE))
VECTOR_MAX = 256  # strings of argv and of envp that the guest sees
VECTOR_BYTES = 0xA000
IOV_MAX = 1024
NUMBER = "number"  # a kind of argument that is the same in the guest
_IOV = struct.Struct("<2Q")


class Call(NamedTuple):
    """A system call that is mirrored."""

    args: tuple[str, ...]  # kinds of argument: NUMBER, or methods of _Carrier
    new_fds: int = 0  # descriptors that it makes
    # (argument, flags in it that keep a last link from being followed)
    nofollow: tuple[int, int] = (0, 0)
    # mirrored for files of the mount too, as FUSE has no request for it
    tree: bool = False


_AT_FLAGS = AT_SYMLINK_NOFOLLOW
_OPEN_FLAGS = O_NOFOLLOW

CALLS: dict[int, Call] = {
    nr.READ: Call(("read_fd", "out", "number")),
    nr.WRITE: Call(("write_fd", "data", "number")),
    nr.OPEN: Call(("path", "number", "number"), new_fds=1, nofollow=(1, _OPEN_FLAGS)),
    nr.CLOSE: Call(("closed",)),
    nr.STAT: Call(("path", "out"), tree=True),
    nr.FSTAT: Call(("fd", "out"), tree=True),
    nr.LSTAT: Call(("link_path", "out"), tree=True),
    nr.LSEEK: Call(("seek_fd", "number", "number"), tree=True),
    nr.PREAD64: Call(("read_fd", "out", "number", "number")),
    nr.PWRITE64: Call(("write_fd", "data", "number", "number")),
    nr.READV: Call(("readv_fd", "read_iov", "number")),
    nr.WRITEV: Call(("writev_fd", "write_iov", "number")),
    nr.ACCESS: Call(("path", "number"), tree=True),
    nr.PIPE: Call(("out",), new_fds=2),
    nr.DUP: Call(("fd",), new_fds=1, tree=True),
    nr.DUP2: Call(("fd", "replaced"), tree=True),
    nr.GETPID: Call(()),
    nr.EXECVE: Call(("path", "vector", "vector")),
    nr.EXIT: Call(("number",)),
    nr.UNAME: Call(("out",)),
    nr.FCNTL: Call(("fd", "number", "number"), tree=True),
    nr.FSYNC: Call(("fd",)),
    nr.FDATASYNC: Call(("fd",)),
    nr.TRUNCATE: Call(("path", "number")),
    nr.FTRUNCATE: Call(("fd", "number")),
    nr.GETDENTS: Call(("dir_fd", "out", "number"), tree=True),
    nr.GETCWD: Call(("cwd_out", "number")),
    nr.CHDIR: Call(("path",), tree=True),
    nr.FCHDIR: Call(("cwd_fd",), tree=True),
    nr.RENAME: Call(("entry", "entry")),
    nr.MKDIR: Call(("entry", "number")),
    nr.RMDIR: Call(("entry",)),
    nr.CREAT: Call(("path", "number"), new_fds=1),
    nr.LINK: Call(("link_path", "entry")),
    nr.UNLINK: Call(("entry",)),
    nr.SYMLINK: Call(("text", "entry")),
    nr.READLINK: Call(("read_link", "out", "number"), tree=True),
    nr.CHMOD: Call(("path", "number")),
    nr.FCHMOD: Call(("fd", "number")),
    nr.CHOWN: Call(("path", "number", "number")),
    nr.FCHOWN: Call(("fd", "number", "number")),
    nr.LCHOWN: Call(("link_path", "number", "number")),
    nr.GETUID: Call(()),
    nr.GETGID: Call(()),
    nr.GETEUID: Call(()),
    nr.GETEGID: Call(()),
    nr.GETPPID: Call(()),
    nr.STATFS: Call(("path", "out"), tree=True),
    nr.FSTATFS: Call(("fd", "out"), tree=True),
    nr.GETTID: Call(()),
    nr.GETDENTS64: Call(("dir_fd", "out", "number"), tree=True),
    nr.EXIT_GROUP: Call(("number",)),
    nr.OPENAT: Call(
        ("at", "path", "number", "number"), new_fds=1, nofollow=(2, _OPEN_FLAGS)
    ),
    nr.MKDIRAT: Call(("at", "entry", "number")),
    nr.FCHOWNAT: Call(
        ("at", "path", "number", "number", "number"), nofollow=(4, _AT_FLAGS)
    ),
    nr.NEWFSTATAT: Call(
        ("at", "path", "out", "number"), nofollow=(3, _AT_FLAGS), tree=True
    ),
    nr.UNLINKAT: Call(("at", "entry", "number")),
    nr.RENAMEAT: Call(("at", "entry", "at", "entry")),
    nr.LINKAT: Call(("at", "old_path", "at", "entry", "number")),
    nr.SYMLINKAT: Call(("text", "at", "entry")),
    nr.READLINKAT: Call(("at", "read_link", "out", "number"), tree=True),
    nr.FCHMODAT: Call(("at", "path", "number")),
    nr.FACCESSAT: Call(("at", "path", "number"), tree=True),
    nr.UTIMENSAT: Call(("at", "path", "times", "number"), nofollow=(3, _AT_FLAGS)),
    nr.DUP3: Call(("fd", "replaced", "number"), tree=True),
    nr.PIPE2: Call(("out", "number"), new_fds=2),
    nr.RENAMEAT2: Call(("at", "entry", "at", "entry", "number")),
    nr.EXECVEAT: Call(
        ("at", "path", "vector", "vector", "number"), nofollow=(4, _AT_FLAGS)
    ),
    nr.STATX: Call(
        ("at", "path", "number", "number", "out"), nofollow=(2, _AT_FLAGS), tree=True
    ),
    nr.OPENAT2: Call(("at", "path", "how", "number"), new_fds=1),
    nr.FACCESSAT2: Call(
        ("at", "path", "number", "number"), nofollow=(3, _AT_FLAGS), tree=True
    ),
}


DUPLICATES = (F_DUPFD, F_DUPFD_CLOEXEC)
# of a call with many meanings: the values of its second argument that are mirrored
MEANINGS = {nr.FCNTL: (*DUPLICATES, F_SETFD)}


def plan_call(host: Host, note: Notification) -> Plan | None:
    """Plan a call of the host for the kernel.

    None: it is about a file of the mount, and FUSE has a request for it.
    """
    carrier = _Carrier(host, note)
    return None if carrier.left_to_mount else carrier.plan


class _Carrier:
    """Goes through the arguments of one call and fills its plan.

    A kind of argument is a method, which is told the argument's number.
    """

    __slots__ = (
        "call",
        "dirfd",
        "follow",
        "host",
        "left_to_mount",
        "pid",
        "plan",
        "values",
    )

    def __init__(self, host: Host, note: Notification) -> None:
        number = note.nr
        self.host = host
        self.pid = note.pid
        self.values = values = note.args
        self.call = call = CALLS[number]
        self.plan = plan = Plan(number, values[: len(call.args)])
        self.dirfd = AT_FDCWD
        self.left_to_mount = False
        self.follow = True
        index, mask = call.nofollow
        if mask:
            flags = values[index]
            self.follow = not flags & mask and not (
                mask == _OPEN_FLAGS and flags & O_CREAT_EXCL == O_CREAT_EXCL
            )
        for index, carry in _CARRIERS[number]:
            carry(self, index)
            if self.left_to_mount:
                return
        count, start = call.new_fds, 0
        if number == nr.FCNTL and values[1] & 0xFFFFFFFF in DUPLICATES:
            count, start = 1, values[2]
        if count:
            plan.new_fds = host.free_fds(self.pid, count, start, MAX_FD)

    # ---- plain
    def text(self, index: int) -> None:
        """A string that is no path to be walked."""
        text = self.host.string(self.pid, self.values[index])
        if text is not None:  # a bad address is as bad in the guest
            self.plan.point(index, self.plan.place(text + b"\0"))

    def out(self, index: int) -> None:
        """An address where the call stores its result."""
        if self.values[index]:
            self.plan.point(index, abi.USER_BUFFER)

    def cwd_out(self, index: int) -> None:
        self.plan.paths = True
        self.plan.cwd = self.host.cwd(self.pid)
        self.out(index)

    # ---- paths
    def at(self, index: int) -> None:
        """The directory that the next path begins at."""
        self.dirfd = _signed(self.values[index])

    def path(self, index: int) -> None:
        self._path(index, self.follow)

    def link_path(self, index: int) -> None:
        """A path whose last component is taken as it is."""
        self._path(index, False)

    def old_path(self, index: int) -> None:
        """Plan a path; linkat's flags say whether its last link is followed."""
        self._path(index, bool(self.values[4] & AT_SYMLINK_FOLLOW))

    def read_link(self, index: int) -> None:
        """Plan the path of a link that the call reads; the plan gets its contents."""
        dirfd = self.dirfd
        text = self._path(index, False)
        if text is not None:
            self.plan.link = self.host.link(self.pid, dirfd, text)

    def entry(self, index: int) -> None:
        """Plan the path of a directory's entry to be made, moved or removed."""
        if self._path(index, False) is not None:
            self.plan.names[-1] = 0, self.plan.names[-1][1]

    def _path(self, index: int, follow: bool) -> bytes | None:
        """Plan a path: what the host has there, None where that is no string."""
        plan, host, dirfd, value = self.plan, self.host, self.dirfd, self.values[index]
        self.dirfd = AT_FDCWD
        text = host.string(self.pid, value)
        plan.paths = True
        if text is None:  # a bad address is as bad in the guest
            # utimensat: NULL is the descriptor itself
            place = b"" if value else self._relative(dirfd, b"")
            self.left_to_mount = host.in_tree(place) and not self.call.tree
            return None
        if plan.text is None:
            plan.text = text
        place = text if text.startswith(b"/") else self._relative(dirfd, text)
        in_tree = host.in_tree(place)
        mode = S_IFREG | 0o644
        if not in_tree and text:
            mode, in_tree = host.file(self.pid, dirfd, text, follow)
        if in_tree and not self.call.tree:
            self.left_to_mount = True
            return None
        names = text.split(b"/")
        walked = len(names) - names.count(b"") - names.count(b".") - names.count(b"..")
        plan.names.append((walked, mode))
        plan.point(index, plan.place(text + b"\0"))
        return text

    def _relative(self, dirfd: int, text: bytes) -> bytes:
        """The place of a path that begins at a directory, which the plan provides."""
        plan = self.plan
        if dirfd == AT_FDCWD:
            plan.cwd = self.host.cwd(self.pid)
            return plan.cwd + b"/" + text
        base = self.host.fd_path(self.pid, dirfd)
        if base is None:
            return b"/" + text  # not open, and so not in the guest
        if dirfd < MAX_FD:
            plan.fds.append((dirfd, S_IFDIR if text else S_IFREG))
        return base + b"/" + text if text else base

    def how(self, index: int) -> None:
        """struct open_how."""
        self._structure(index, 24)

    def times(self, index: int) -> None:
        """Two struct timespec, or NULL."""
        self._structure(index, 32)

    def _structure(self, index: int, size: int) -> None:
        value = self.values[index]
        raw = self.host.read(self.pid, value, size) if value else b""
        if len(raw) == size:  # a bad address is as bad in the guest
            self.plan.point(index, self.plan.place(raw))

    # ---- descriptors
    def fd(self, index: int) -> None:
        """A descriptor that the call uses without reading or writing."""
        self._fd(index, S_IFREG)

    def _fd(self, index: int, mode: int) -> bool:
        """Plan a descriptor; return False if it is not open, or left to the mount."""
        number = _signed(self.values[index])
        place = self.host.fd_path(self.pid, number) if number >= 0 else None
        if place and not self.call.tree and self.host.in_tree(place):
            self.left_to_mount = True
            return False
        if place is None or number >= MAX_FD:
            return False
        self.plan.fds.append((number, mode))
        return True

    def dir_fd(self, index: int) -> None:
        """A descriptor that should be of a directory."""
        self._fd(index, self.host.fd_type(self.pid, _signed(self.values[index])))

    def cwd_fd(self, index: int) -> None:
        """Plan fchdir()'s descriptor, which leaves the guest's directory as it is."""
        self.plan.paths = True
        self.dir_fd(index)

    def seek_fd(self, index: int) -> None:
        fd, whence = _signed(self.values[index]), self.values[2]
        mode, start = self.host.seek_from(self.pid, fd, whence)
        self._fd(index, mode)
        self.plan.count = start

    def read_fd(self, index: int) -> None:
        pos = _signed(self.values[3], 64) if len(self.call.args) > 3 else None
        if self._fd(index, S_IFREG | 0o400):
            self._count_left(index, self.values[2], pos)

    def write_fd(self, index: int) -> None:
        self._fd(index, S_IFREG | 0o200)
        self.plan.count = self.values[2]

    def readv_fd(self, index: int) -> None:
        if self._fd(index, S_IFREG | 0o400):
            total = sum(size for _, size in self._iov())
            self._count_left(index, total, None)

    def writev_fd(self, index: int) -> None:
        self._fd(index, S_IFREG | 0o200)
        self.plan.count = sum(size for _, size in self._iov())

    def _count_left(self, index: int, count: int, pos: int | None) -> None:
        fd = _signed(self.values[index])
        self.plan.count = self.host.bytes_left(self.pid, fd, count, pos)

    def closed(self, index: int) -> None:
        place = self.host.fd_path(self.pid, _signed(self.values[index]))
        if place is not None and self.host.in_tree(place):
            self.plan.mount = True
        else:
            self.replaced(index)

    def replaced(self, index: int) -> None:
        """A number that is free, or taken by something else, afterwards."""
        number = _signed(self.values[index])
        if 0 <= number < MAX_FD:
            self.plan.spare_fd = number

    # ---- data
    def data(self, index: int) -> None:
        """The data of a write; its size is the next argument."""
        size = min(self.values[2], DATA_MAX)
        data = self.host.read(self.pid, self.values[index], size)
        self.plan.point(index, self.plan.place(data))

    def _iov(self) -> list[tuple[int, int]]:
        count = self.values[2]
        if count > IOV_MAX:
            return []
        raw = self.host.read(self.pid, self.values[1], count * _IOV.size)
        return list(_IOV.iter_unpack(raw[: len(raw) & ~15]))

    def read_iov(self, index: int) -> None:
        plan = self.plan
        iov = self._iov()
        at = plan.place(
            b"".join(_IOV.pack(abi.USER_BUFFER, size) for _base, size in iov)
        )
        plan.relocations += [at + 16 * i for i in range(len(iov))]
        plan.point(index, at)

    def write_iov(self, index: int) -> None:
        plan, words, left = self.plan, b"", DATA_MAX
        for base, size in (iov := self._iov()):
            data = self.host.read(self.pid, base, min(size, left)) if left else b""
            left -= len(data)
            words += _IOV.pack(plan.place(data), size)
        at = plan.place(words)
        plan.relocations += [at + 16 * i for i in range(len(iov))]
        plan.point(index, at)

    def vector(self, index: int) -> None:
        """argv or envp."""
        value = self.values[index]
        if not value:
            return
        plan, words = self.plan, []
        for pointer in self.host.pointers(self.pid, value, VECTOR_MAX):
            text = self.host.string(self.pid, pointer)
            if text is None or len(plan.memory) + len(text) > VECTOR_BYTES:
                break
            words.append(plan.place(text + b"\0"))
        plan.point(index, plan.add_vector([*words, -1]))


def _carriers(call: Call) -> list[tuple[int, Callable[[_Carrier, int], None]]]:
    """Return the methods that carry a call's arguments over, without plain numbers."""
    kinds = enumerate(call.args)
    return [(n, getattr(_Carrier, kind)) for n, kind in kinds if kind != NUMBER]


_CARRIERS = {number: _carriers(call) for number, call in CALLS.items()}


def _signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
