# SPDX-License-Identifier: GPL-2.0-or-later
"""The system calls that are mirrored, and how each is carried over to the kernel.

One row of CALLS tells the kinds of a call's arguments.  ``plan.h`` says what the kinds
mean, ``plan.c`` carries them over; those that it leaves out are methods of _Carrier.
``kpfs/manual/calls.tsv`` says of every call of x86-64 why it is mirrored or not.
"""

from __future__ import annotations

import signal
import struct
import termios
from collections.abc import Callable, Mapping

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.typed import NamedTuple
from kpfs.mirror.host import Host, signed
from kpfs.mirror.plan import DATA_MAX, Plan, PlanRow
from kpfs.mirror.seccomp import Notification

AT_NOFOLLOW = 0x100  # AT_SYMLINK_NOFOLLOW
O_CREAT_EXCL, O_NOFOLLOW = 0o300, 0o400000
EXECS = frozenset((nr.EXECVE, nr.EXECVEAT))
EXITS = frozenset((nr.EXIT, nr.EXIT_GROUP))
# calls that a Linux kernel answers itself
ANSWERED = frozenset((nr.SYSLOG, nr.INIT_MODULE, nr.DELETE_MODULE, nr.FINIT_MODULE))
# calls that change what descriptors a process has, and that only some kernel makes, or
# none; what recvmsg(2) brings is found at the next look, as it would cost too much to
# note each
NOTED = frozenset(
    (
        *(nr.CLOSE_RANGE, nr.UNSHARE, nr.SOCKET, nr.SOCKETPAIR, nr.ACCEPT, nr.ACCEPT4),
        *(nr.EPOLL_CREATE, nr.EPOLL_CREATE1, nr.EVENTFD, nr.EVENTFD2, nr.SIGNALFD),
        *(nr.SIGNALFD4, nr.TIMERFD_CREATE, nr.INOTIFY_INIT, nr.INOTIFY_INIT1, nr.BPF),
        *(nr.MEMFD_CREATE, nr.MEMFD_SECRET, nr.PIDFD_OPEN, nr.PIDFD_GETFD, nr.MQ_OPEN),
        *(nr.PERF_EVENT_OPEN, nr.FANOTIFY_INIT, nr.OPEN_BY_HANDLE_AT, nr.USERFAULTFD),
        *(nr.IO_URING_SETUP, nr.OPEN_TREE, nr.FSOPEN, nr.FSPICK, nr.FSMOUNT),
        nr.LANDLOCK_CREATE_RULESET,
    )
)
# calls about a kernel's own probes and programs, which reach those of the host alone
HOSTS_OWN = {nr.BPF: "bpf(2)", nr.PERF_EVENT_OPEN: "perf_event_open(2)"}
# calls that open files of the mount; by argument: the flags, of which FUSE is not told
# O_CLOEXEC
OPENS = {nr.OPEN: 1, nr.OPENAT: 2}
VECTOR_MAX = 256  # strings of argv and of envp that the kernel sees
VECTOR_BYTES = 0xA000
IOV_MAX = 1024
WATCHED_MAX = 0x1000  # bytes that tell which descriptors a call waits for
BAD_ADDRESS = 8  # an address at which no task has memory
_IOV = struct.Struct("<2Q")
_POLLFD = struct.Struct("<ihh")


class Call(NamedTuple):
    """A system call that is mirrored."""

    args: tuple[str, ...]  # kinds of argument
    new_fds: int  # descriptors that it makes
    # (argument, flags in it that keep a last link from being followed)
    nofollow: tuple[int, int]
    # mirrored for files of the mount too, as FUSE has no request for it
    tree: bool
    guest: bool  # the guest kernel has it
    always: bool  # made only where all are, as programs make so many


def _call(
    kinds: str = "",
    *,
    new_fds: int = 0,
    nofollow: tuple[int, int] = (0, 0),
    tree: bool = False,
    guest: bool = True,
    always: bool = False,
) -> Call:
    return Call(tuple(kinds.split()), new_fds, nofollow, tree, guest, always)


def _linux(kinds: str = "", *, new_fds: int = 0, always: bool = False) -> Call:
    """Return a call that the guest kernel lacks."""
    return _call(kinds, new_fds=new_fds, guest=False, always=always)


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
    # about the task itself, time, and files as a whole
    nr.KILL: _call("number number"),
    nr.UMASK: _call("number"),
    nr.GETTIMEOFDAY: _call("out out"),
    nr.TIMES: _call("out"),
    nr.SYNC: _call(),
    nr.CLOCK_GETTIME: _call("number out"),
    nr.NANOSLEEP: _call("no_time out"),
    nr.SCHED_YIELD: _call(always=True),
    nr.CLOCK_NANOSLEEP: _linux("number number no_time out"),
    nr.CLOCK_GETRES: _linux("number out"),
    nr.GETITIMER: _linux("number out"),
    nr.GETRLIMIT: _linux("number out"),
    nr.PRLIMIT64: _linux("number number absent out"),
    nr.GETRUSAGE: _linux("number out"),
    nr.SYSINFO: _linux("out"),
    nr.SETPGID: _linux("number number"),
    nr.GETPGRP: _linux(),
    nr.GETPGID: _linux("number"),
    nr.SETSID: _linux(),
    nr.GETSID: _linux("number"),
    nr.GETGROUPS: _linux("number out"),
    nr.GETRESUID: _linux("out out out"),
    nr.GETRESGID: _linux("out out out"),
    nr.GETPRIORITY: _linux("number number"),
    nr.SETPRIORITY: _linux("number number number"),
    nr.SCHED_GETPARAM: _linux("number out"),
    nr.SCHED_GETSCHEDULER: _linux("number"),
    nr.SCHED_GET_PRIORITY_MAX: _linux("number"),
    nr.SCHED_GET_PRIORITY_MIN: _linux("number"),
    nr.SCHED_RR_GET_INTERVAL: _linux("number out"),
    nr.SCHED_GETATTR: _linux("number out number number"),
    nr.SCHED_GETAFFINITY: _linux("number number out"),
    nr.GETCPU: _linux("out out out"),
    nr.GETRANDOM: _linux("out number number"),
    nr.FLOCK: _linux("fd number"),
    nr.FADVISE64: _linux("fd number number number"),
    nr.READAHEAD: _linux("fd number number"),
    nr.SYNC_FILE_RANGE: _linux("fd number number number"),
    nr.SYNCFS: _linux("fd"),
    nr.PREADV: _linux("readv_fd read_iov number number number"),
    nr.PWRITEV: _linux("writev_fd write_iov number number number"),
    nr.PREADV2: _linux("readv_fd read_iov number number number number"),
    nr.PWRITEV2: _linux("writev_fd write_iov number number number number"),
    nr.GETXATTR: _linux("path text out number"),
    nr.LGETXATTR: _linux("link_path text out number"),
    nr.FGETXATTR: _linux("fd text out number"),
    nr.LISTXATTR: _linux("path out number"),
    nr.LLISTXATTR: _linux("link_path out number"),
    nr.FLISTXATTR: _linux("fd out number"),
    # descriptors of the task's own
    nr.EVENTFD: _linux("number", new_fds=1),
    nr.EVENTFD2: _linux("number number", new_fds=1),
    nr.EPOLL_CREATE: _linux("number", new_fds=1),
    nr.EPOLL_CREATE1: _linux("number", new_fds=1),
    nr.INOTIFY_INIT: _linux(new_fds=1),
    nr.INOTIFY_INIT1: _linux("number", new_fds=1),
    nr.TIMERFD_CREATE: _linux("number number", new_fds=1),
    nr.MEMFD_CREATE: _linux("text number", new_fds=1),
    nr.SOCKET: _linux("number number number", new_fds=1),
    nr.SOCKETPAIR: _linux("number number number out", new_fds=2),
    nr.SHUTDOWN: _linux("fd number"),
    nr.SENDTO: _linux("fd data number number absent absent", always=True),
    nr.RECVFROM: _linux("fd out number number absent absent", always=True),
    nr.IOCTL: _linux("fd number out", always=True),
    nr.POLL: _linux("poll_fds number no_wait", always=True),
    nr.PPOLL: _linux("poll_fds number no_wait no_mask number", always=True),
    nr.SELECT: _linux("number fd_set fd_set fd_set no_wait", always=True),
    nr.PSELECT6: _linux("number fd_set fd_set fd_set no_wait no_mask", always=True),
}


GUEST_CALLS = frozenset(number for number, call in CALLS.items() if call.guest)

# Of a call with many meanings: the values of its second argument that are mirrored.
_FCNTL = (
    *(abi.F_DUPFD, abi.F_DUPFD_CLOEXEC, abi.F_SETFD),
    *(nr.F_GETFD, nr.F_GETFL, nr.F_SETFL),
)
# Signals that end nothing: none, and those that the tasks of a Linux kernel ignore.
# Any other would end or interrupt the task that stands for the target.
_SIGNALS = 0, signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH
# Of terminals, which no file in the kernel is, and of any file.
_IOCTLS = (
    *(termios.TCGETS, termios.TCSETS, termios.TCSETSW, termios.TCSETSF),
    *(termios.TIOCGPGRP, termios.TIOCSPGRP, termios.TIOCGWINSZ, termios.TIOCSWINSZ),
    *(termios.FIONREAD, termios.FIONCLEX, termios.FIOCLEX),
)
Meanings = Mapping[int, tuple[int, ...]]


def reported(*, linux: bool, lazy: bool) -> tuple[frozenset[int], Meanings]:
    """Return the numbers of the calls that are to be reported, and their meanings.

    linux: for a Linux kernel.  lazy: calls that nobody can see are left out.
    """
    made = frozenset(
        number
        for number, call in CALLS.items()
        if (linux or call.guest) and not (lazy and call.always)
    )
    meanings: dict[int, tuple[int, ...]] = {
        nr.FCNTL: _FCNTL,
        nr.KILL: _SIGNALS if linux else (0,),
    }
    if nr.IOCTL in made:
        meanings[nr.IOCTL] = _IOCTLS
    return made, meanings


def plan_call(host: Host, note: Notification, plan: Plan | None = None) -> Plan | None:
    """Plan a call of the host for the kernel.  plan: what to fill in, else a new one.

    None: it is about a file of the mount, and FUSE has a request for it.
    """
    plan = plan or Plan()
    row, reads, others = _ROWS[note.nr]
    iov = _iov(host, note) if note.nr in VECTORED else []
    count = sum(size for _, size in iov) & (1 << 64) - 1
    host.fill(plan, row, note, reads=reads, count=count)
    if plan.left_to_mount:
        return None
    plan.relocations.clear()
    plan.watched.clear()
    if others:
        carrier = _Carrier(host, note, plan, iov)
        for index, carry in others:
            carry(carrier, index)
    return plan


def _iov(host: Host, note: Notification) -> list[tuple[int, int]]:
    """Return the pieces of a call's struct iovec: address, size."""
    count = note.args[2]
    if count > IOV_MAX:
        return []
    raw = host.read(note.pid, note.args[1], count * _IOV.size)
    return list(_IOV.iter_unpack(raw[: len(raw) & ~15]))


class _Carrier:
    """A pass through the arguments of one call that C leaves to Python.

    A kind of argument is a method, which is told the argument's number.
    """

    def __init__(
        self, host: Host, note: Notification, plan: Plan, iov: list[tuple[int, int]]
    ) -> None:
        """iov: the pieces of the call's struct iovec, if it has some."""
        self.host = host
        self.pid = note.pid
        self.values = note.args
        self.plan = plan
        self.iov = iov

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

    def no_time(self, index: int) -> None:
        """Plan a time to sleep: none, as the caller itself sleeps on the host."""
        if self.values[index]:
            self.plan.point(index, self.plan.place(bytes(16)))

    def no_wait(self, index: int) -> None:
        """Plan that a call which waits for files only looks at them."""
        self.plan.args[index] = 0
        if self.plan.nr != nr.POLL:
            self.plan.point(index, self.plan.place(bytes(16)))

    def no_mask(self, index: int) -> None:
        """Plan that a call leaves the task's signals alone."""
        self.plan.args[index] = 0

    def absent(self, index: int) -> None:
        """Have a call made only without this argument."""
        if self.values[index]:
            self.plan.left_to_mount = True

    def poll_fds(self, index: int) -> None:
        """Plan an array of struct pollfd, which the call changes."""
        count = self.values[1] & 0xFFFFFFFF
        raw = self._changed(index, count * _POLLFD.size)
        self.plan.watched += [fd for fd, _, _ in _POLLFD.iter_unpack(raw)]

    def fd_set(self, index: int) -> None:
        """Plan a set of descriptors, which the call changes."""
        count = signed(self.values[0])
        raw = self._changed(index, (max(count, 0) + 63) // 64 * 8)
        bits = int.from_bytes(raw, "little") & (1 << max(count, 0)) - 1
        self.plan.watched += [n for n in range(len(raw) * 8) if bits >> n & 1]

    def _changed(self, index: int, size: int) -> bytes:
        """Plan memory that a call reads and writes; return what is there, or b""."""
        value = self.values[index]
        if not value:
            return b""
        raw = self.host.read(self.pid, value, size) if size <= WATCHED_MAX else b""
        if len(raw) != size:
            self.plan.args[index] = BAD_ADDRESS
            return b""
        self.plan.point(index, self.plan.place(raw))
        return raw

    def read_iov(self, index: int) -> None:
        plan, iov = self.plan, self.iov
        at = plan.place(
            b"".join(_IOV.pack(abi.USER_BUFFER, size) for _base, size in iov)
        )
        plan.relocations += [at + 16 * i for i in range(len(iov))]
        plan.point(index, at)

    def write_iov(self, index: int) -> None:
        plan, iov, words, left = self.plan, self.iov, b"", DATA_MAX
        for base, size in iov:
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
            if text is None or plan.size + len(text) > VECTOR_BYTES:
                break
            words.append(plan.place(text + b"\0"))
        plan.point(index, plan.add_vector([*words, -1]))


def _row(
    number: int, call: Call
) -> tuple[PlanRow, bool, list[tuple[int, Callable[[_Carrier, int], None]]]]:
    """Return a call's row for C, True if it has a position, and the methods for it."""
    kinds = [getattr(abi, f"PLAN_{kind.upper()}", abi.PLAN_OTHER) for kind in call.args]
    others = [
        (index, getattr(_Carrier, call.args[index]))
        for index, kind in enumerate(kinds)
        if kind == abi.PLAN_OTHER
    ]
    flags, nofollow = call.nofollow
    create = O_CREAT_EXCL if nofollow == O_NOFOLLOW else 0
    row = PlanRow(
        kinds=tuple(kinds),
        nr_args=len(kinds),
        new_fds=call.new_fds,
        tree=call.tree,
        flags=flags,
        nofollow=nofollow,
        create=create,
    )
    return row, not _POSITIONS.isdisjoint(kinds), others


READ_VECTORS = frozenset((nr.READV, nr.PREADV, nr.PREADV2))
VECTORED = READ_VECTORS | {nr.WRITEV, nr.PWRITEV, nr.PWRITEV2}
_POSITIONS = frozenset((abi.PLAN_SEEK_FD, abi.PLAN_READ_FD, abi.PLAN_READV_FD))
_ROWS = {number: _row(number, call) for number, call in CALLS.items()}
