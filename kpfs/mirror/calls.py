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

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.typed import NamedTuple
from kpfs.mirror.host import AT_FDCWD, Host, signed
from kpfs.mirror.plan import DATA_MAX, MAX_FD, Plan
from kpfs.mirror.seccomp import Notification

AT_NOFOLLOW, AT_FOLLOW = 0x100, 0x400  # AT_SYMLINK_...
O_CREAT_EXCL, O_NOFOLLOW = 0o300, 0o400000
F_DUPFD, F_SETFD, F_DUPFD_CLOEXEC = 0, 2, 1030
EXECS = frozenset((nr.EXECVE, nr.EXECVEAT))
EXITS = frozenset((nr.EXIT, nr.EXIT_GROUP))
# calls that a Linux kernel answers itself
ANSWERED = frozenset((nr.SYSLOG, nr.INIT_MODULE, nr.DELETE_MODULE, nr.FINIT_MODULE))
VECTOR_MAX = 256  # strings of argv and of envp that the kernel sees
VECTOR_BYTES = 0xA000
IOV_MAX = 1024
NUMBER = "number"  # a kind of argument that needs no change
_IOV = struct.Struct("<2Q")


class Call(NamedTuple):
    """A system call that is mirrored."""

    args: tuple[str, ...]  # kinds of argument: NUMBER, or methods of _Carrier
    new_fds: int  # descriptors that it makes
    # (argument, flags in it that keep a last link from being followed)
    nofollow: tuple[int, int]
    # mirrored for files of the mount too, as FUSE has no request for it
    tree: bool


def _call(
    kinds: str = "",
    *,
    new_fds: int = 0,
    nofollow: tuple[int, int] = (0, 0),
    tree: bool = False,
) -> Call:
    return Call(tuple(kinds.split()), new_fds, nofollow, tree)


CALLS: dict[int, Call] = {
    nr.READ: _call("read_fd out number"),
    nr.WRITE: _call("write_fd data number"),
    nr.OPEN: _call("path number number", new_fds=1, nofollow=(1, O_NOFOLLOW)),
    nr.CLOSE: _call("closed"),
    nr.STAT: _call("path out", tree=True),
    nr.FSTAT: _call("fd out", tree=True),
    nr.LSTAT: _call("link_path out", tree=True),
    nr.LSEEK: _call("seek_fd number number", tree=True),
    nr.PREAD64: _call("read_fd out number number"),
    nr.PWRITE64: _call("write_fd data number number"),
    nr.READV: _call("readv_fd read_iov number"),
    nr.WRITEV: _call("writev_fd write_iov number"),
    nr.ACCESS: _call("path number", tree=True),
    nr.PIPE: _call("out", new_fds=2),
    nr.DUP: _call("fd", new_fds=1, tree=True),
    nr.DUP2: _call("fd replaced", tree=True),
    nr.GETPID: _call(),
    nr.EXECVE: _call("path vector vector"),
    nr.EXIT: _call("number"),
    nr.UNAME: _call("out"),
    nr.FCNTL: _call("fd number number", tree=True),
    nr.FSYNC: _call("fd"),
    nr.FDATASYNC: _call("fd"),
    nr.TRUNCATE: _call("path number"),
    nr.FTRUNCATE: _call("fd number"),
    nr.GETDENTS: _call("dir_fd out number", tree=True),
    nr.GETCWD: _call("cwd_out number"),
    nr.CHDIR: _call("path", tree=True),
    nr.FCHDIR: _call("cwd_fd", tree=True),
    nr.RENAME: _call("entry entry"),
    nr.MKDIR: _call("entry number"),
    nr.RMDIR: _call("entry"),
    nr.CREAT: _call("path number", new_fds=1),
    nr.LINK: _call("link_path entry"),
    nr.UNLINK: _call("entry"),
    nr.SYMLINK: _call("text entry"),
    nr.READLINK: _call("read_link out number", tree=True),
    nr.CHMOD: _call("path number"),
    nr.FCHMOD: _call("fd number"),
    nr.CHOWN: _call("path number number"),
    nr.FCHOWN: _call("fd number number"),
    nr.LCHOWN: _call("link_path number number"),
    nr.GETUID: _call(),
    nr.GETGID: _call(),
    nr.GETEUID: _call(),
    nr.GETEGID: _call(),
    nr.GETPPID: _call(),
    nr.STATFS: _call("path out", tree=True),
    nr.FSTATFS: _call("fd out", tree=True),
    nr.GETTID: _call(),
    nr.GETDENTS64: _call("dir_fd out number", tree=True),
    nr.EXIT_GROUP: _call("number"),
    nr.OPENAT: _call("at path number number", new_fds=1, nofollow=(2, O_NOFOLLOW)),
    nr.MKDIRAT: _call("at entry number"),
    nr.FCHOWNAT: _call("at path number number number", nofollow=(4, AT_NOFOLLOW)),
    nr.NEWFSTATAT: _call("at path out number", nofollow=(3, AT_NOFOLLOW), tree=True),
    nr.UNLINKAT: _call("at entry number"),
    nr.RENAMEAT: _call("at entry at entry"),
    nr.LINKAT: _call("at old_path at entry number"),
    nr.SYMLINKAT: _call("text at entry"),
    nr.READLINKAT: _call("at read_link out number", tree=True),
    nr.FCHMODAT: _call("at path number"),
    nr.FACCESSAT: _call("at path number", tree=True),
    nr.UTIMENSAT: _call("at path times number", nofollow=(3, AT_NOFOLLOW)),
    nr.DUP3: _call("fd replaced number", tree=True),
    nr.PIPE2: _call("out number", new_fds=2),
    nr.RENAMEAT2: _call("at entry at entry number"),
    nr.EXECVEAT: _call("at path vector vector number", nofollow=(4, AT_NOFOLLOW)),
    nr.STATX: _call("at path number number out", nofollow=(2, AT_NOFOLLOW), tree=True),
    nr.OPENAT2: _call("at path how number", new_fds=1),
    nr.FACCESSAT2: _call("at path number number", nofollow=(3, AT_NOFOLLOW), tree=True),
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
    """A pass through the arguments of one call, which fills its plan.

    A kind of argument is a method, which is told the argument's number.
    """

    __slots__ = (
        "call", "dirfd", "follow", "host", "left_to_mount", "pid", "plan", "values",
    )  # fmt: skip

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
                mask == O_NOFOLLOW and flags & O_CREAT_EXCL == O_CREAT_EXCL
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
        """Plan a string that is no path to be walked."""
        text = self.host.string(self.pid, self.values[index])
        if text is not None:  # a bad address is as bad in the kernel
            self.plan.point(index, self.plan.place(text + b"\0"))

    def out(self, index: int) -> None:
        """Plan an address where the call stores its result."""
        if self.values[index]:
            self.plan.point(index, abi.USER_BUFFER)

    def cwd_out(self, index: int) -> None:
        self.plan.paths = True
        self.plan.cwd = self.host.cwd(self.pid)
        self.out(index)

    # ---- paths
    def at(self, index: int) -> None:
        """Note the directory that the next path begins at."""
        self.dirfd = signed(self.values[index])

    def path(self, index: int) -> None:
        self._path(index, self.follow)

    def link_path(self, index: int) -> None:
        """Plan a path whose last component is taken as it is."""
        self._path(index, False)

    def old_path(self, index: int) -> None:
        """Plan a path; linkat's flags say whether its last link is followed."""
        self._path(index, bool(self.values[4] & AT_FOLLOW))

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
        """Plan a path and return it; None if it is bad, or left to the mount."""
        plan, host, dirfd, value = self.plan, self.host, self.dirfd, self.values[index]
        self.dirfd = AT_FDCWD
        text = host.string(self.pid, value)
        plan.paths = True
        if text is None:  # a bad address is as bad in the kernel
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
        """Return the place of a path that begins at a directory; plan the directory."""
        plan = self.plan
        if dirfd == AT_FDCWD:
            plan.cwd = self.host.cwd(self.pid)
            return plan.cwd + b"/" + text
        base = self.host.fd_path(self.pid, dirfd)
        if base is None:
            return b"/" + text  # not open, and so not in the kernel
        if dirfd < MAX_FD:
            plan.fds.append((dirfd, S_IFDIR if text else S_IFREG))
        return base + b"/" + text if text else base

    def how(self, index: int) -> None:
        """Plan a struct open_how."""
        self._structure(index, 24)

    def times(self, index: int) -> None:
        """Plan two struct timespec, or NULL."""
        self._structure(index, 32)

    def _structure(self, index: int, size: int) -> None:
        value = self.values[index]
        raw = self.host.read(self.pid, value, size) if value else b""
        if len(raw) == size:  # a bad address is as bad in the kernel
            self.plan.point(index, self.plan.place(raw))

    # ---- descriptors
    def fd(self, index: int) -> None:
        """Plan a descriptor that the call uses without reading or writing."""
        self._fd(index, S_IFREG)

    def _fd(self, index: int, mode: int) -> bool:
        """Plan a descriptor; return False if it is not open, or left to the mount."""
        number = signed(self.values[index])
        place = self.host.fd_path(self.pid, number) if number >= 0 else None
        if place and not self.call.tree and self.host.in_tree(place):
            self.left_to_mount = True
            return False
        if place is None or number >= MAX_FD:
            return False
        self.plan.fds.append((number, mode))
        return True

    def dir_fd(self, index: int) -> None:
        """Plan a descriptor that should be of a directory."""
        self._fd(index, self.host.fd_type(self.pid, signed(self.values[index])))

    def cwd_fd(self, index: int) -> None:
        """Plan fchdir()'s descriptor, which leaves the task's directory as it is."""
        self.plan.paths = True
        self.dir_fd(index)

    def seek_fd(self, index: int) -> None:
        fd, whence = signed(self.values[index]), self.values[2]
        mode, start = self.host.seek_from(self.pid, fd, whence)
        self._fd(index, mode)
        self.plan.count = start

    def read_fd(self, index: int) -> None:
        pos = signed(self.values[3], 64) if len(self.call.args) > 3 else None
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
        fd = signed(self.values[index])
        self.plan.count = self.host.bytes_left(self.pid, fd, count, pos)

    def closed(self, index: int) -> None:
        place = self.host.fd_path(self.pid, signed(self.values[index]))
        if place is not None and self.host.in_tree(place):
            self.plan.mount = True
        else:
            self.replaced(index)

    def replaced(self, index: int) -> None:
        """Plan a number that is free, or taken by something else, afterwards."""
        number = signed(self.values[index])
        if 0 <= number < MAX_FD:
            self.plan.spare_fd = number

    # ---- data
    def data(self, index: int) -> None:
        """Plan the data of a write; its size is the next argument."""
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
        """Plan argv or envp."""
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
