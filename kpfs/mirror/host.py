# SPDX-License-Identifier: GPL-2.0-or-later
"""Read a process's memory, descriptors and files by way of the host's /proc.

All of it is for a process that waits in a system call.  Nothing here takes the kernel's
lock: a look at a path may lead into the mount, which is served under it.  What may be
asked while a caller has that lock is said there (kpfs.base.lock).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import stat
import struct
from collections.abc import Iterable
from itertools import islice

from kpfs.base import abi, host_process
from kpfs.base.host_process import PARENT, STATE
from kpfs.base.syscall_numbers import AT_EMPTY_PATH, AT_FDCWD
from kpfs.base.typed import TYPE_CHECKING, NamedTuple
from kpfs.base.units import PAGE_SIZE, PATH_MAX
from kpfs.host import mounts
from kpfs.host.process import EPOLL, EPOLL_FLAGS, descriptor_flags, flags_of_info
from kpfs.mirror import library
from kpfs.mirror.proc_fd_cache import MOST, ProcFdCache

if TYPE_CHECKING:
    from kpfs.mirror.plan import Plan, PlanRow
    from kpfs.mirror.seccomp import Notification

STRING_CHUNK = 256
_SIGCATCH = 34 - 3  # index among the fields of /proc/PID/stat behind the name
FEW = 8  # files that are kept open for a look beside the first one
SYS_KCMP, SYS_STATX, SYS_PIDFD_GETFD = 312, 332, 438
KCMP_FILE, KCMP_FILES = 0, 2
PIDFD_THREAD = os.O_EXCL  # Linux 6.9
AT_STATX_DONT_SYNC = 0x4000
STATX_TYPE, STATX_MODE, STATX_INO, STATX_SIZE = 1, 2, 0x100, 0x200
_STATX = struct.Struct("=28xH2xQQ88x2I112x")  # mode, ino, size, dev_major, dev_minor
_ASK = abi.PlanQuestion.STRUCT.pack_into
_libc = ctypes.CDLL(None)


class Descriptor(NamedTuple):
    """A descriptor of a process, as /proc shows it."""

    number: int
    link: bytes  # a path, or as "pipe:[1]"
    flags: int  # its open file's and, O_CLOEXEC, its own
    mode: int  # mode of the file that the path leads to
    name: bytes = b""  # the path of a file outside the mount
    size: int = 0  # size of that file

    @property
    def in_tree(self) -> bool:
        """True if it is a file of the mount."""
        return self.link.startswith(b"/") and not self.name

    @property
    def is_pipe(self) -> bool:
        return self.link.startswith(b"pipe:")

    def shares_with(self, other: Descriptor) -> bool:
        """Return True if both may lead to one open file."""
        return (
            self.link == other.link and (self.flags ^ other.flags) & ~os.O_CLOEXEC == 0
        )


class Standing(NamedTuple):
    """The state of a process; the defaults are those of one that is gone."""

    pid: int
    state: bytes = b"X"
    parent: int = 0
    caught: int = 0  # signals below 32, as bits

    def catches(self, number: int) -> bool:
        """Return True if it has a handler for a signal."""
        return bool(self.caught >> (number - 1) & 1)

    @property
    def sleeps(self) -> bool:
        """True if it is not running."""
        return self.state != b"R"


class MountPlace(NamedTuple):
    """A place where the mount's files lie, and the st_dev that they have."""

    path: str
    device: int


class _Tools:
    """The tools of a thread that looks: files of /proc that are kept open, a question.

    Context: one thread at a time, but for forget().
    """

    def __init__(self, most: int) -> None:
        """most: files of each kind that are kept open."""
        self.memory = ProcFdCache[int]("/proc/{}/mem".format, most=most)
        self.pages = ProcFdCache[int]("/proc/{}/pagemap".format, most=most)
        self.fds = ProcFdCache[int]("/proc/{}/fd".format, os.O_DIRECTORY, most)
        # a file about a number says what is open at it by the time it is read
        self.info = ProcFdCache[tuple[int, int]](
            "/proc/{0[0]}/fdinfo/{0[1]}".format, most=most
        )
        self.question = ctypes.create_string_buffer(abi.PlanQuestion.SIZE)
        self.question_at = ctypes.byref(self.question)

    def forget(self, pid: int) -> None:
        """See Host.forget()."""
        self.memory.forget(pid)
        self.pages.forget(pid)
        self.fds.forget(pid)

    def close(self) -> None:
        """Close the files that are held open."""
        for held in (self.memory, self.pages, self.fds, self.info):
            held.close()


class Host:
    """A reader of /proc.  ``trees`` are the places at which the mount's files lie.

    Context: any thread; several may look at once, as each look may wait.
    """

    def __init__(self, trees: Iterable[MountPlace]) -> None:
        trees = list(trees)
        self._trees = tuple(os.fsencode(tree.path.rstrip("/") + "/") for tree in trees)
        self._devices = {tree.device for tree in trees}
        self._facts = library.HostFacts(self._trees, self._devices)
        self._facts_at = ctypes.addressof(self._facts)
        self._plan_call = library.load().plan_call
        self._tools: list[_Tools] = []
        # those that no look uses; the last is the next, so that few are used mostly
        self._unused: list[_Tools] = []

    def _take(self) -> _Tools:
        """Return tools that no other look uses; they go to _unused afterwards."""
        try:
            return self._unused.pop()
        except IndexError:
            tools = _Tools(FEW if self._tools else MOST)
            self._tools.append(tools)
            return tools

    def await_mount(self) -> None:
        """Wait until the mount has served what it was asked for before.

        It serves requests in their order if none takes long, so a file that nobody has
        open any more is closed then.
        """
        for tree in self._trees[:1]:
            with contextlib.suppress(OSError):  # it is gone
                os.statvfs(tree)

    def forget(self, pid: int) -> None:
        """Note that a process has other memory from now on, or none."""
        for tools in self._tools:
            tools.forget(pid)

    def close(self) -> None:
        """Close the files that are held open."""
        for tools in self._tools:
            tools.close()

    # ---- memory
    def _pread(self, pid: int, size: int, addr: int) -> bytes:
        tools = self._take()
        try:
            for _ in range(2):  # see ProcFdCache; it may be the memory before an exec
                try:
                    data = os.pread(tools.memory[pid], size, addr)
                    if data:
                        return data
                except (OSError, OverflowError):
                    pass
                tools.memory.forget(pid)
        finally:
            self._unused.append(tools)
        return b""

    def read(self, pid: int, addr: int, size: int) -> bytes:
        """Read memory of the process: as many of the bytes as can be read."""
        data = bytearray()
        while len(data) < size:
            got = self._pread(pid, size - len(data), addr + len(data))
            if not got:  # up to there one read had it
                break
            data += got
        return bytes(data)

    def write(self, pid: int, addr: int, data: bytes) -> bool:
        """Write to memory of the process; return False if it cannot be."""
        try:
            fd = os.open(f"/proc/{pid}/mem", os.O_WRONLY | os.O_CLOEXEC)
            try:
                return os.pwrite(fd, data, addr) == len(data)
            finally:
                os.close(fd)
        except (OSError, OverflowError):
            return False

    def string(self, pid: int, addr: int, limit: int = PATH_MAX) -> bytes | None:
        """Read a string without its NUL; None if there is no memory, or no end."""
        data = b""
        while len(data) < limit:
            start = addr + len(data)
            size = min(STRING_CHUNK, PAGE_SIZE - start % PAGE_SIZE)
            got = self._pread(pid, size, start)
            text, end, _ = got.partition(b"\0")
            data += text
            if end:
                return data
            if not got:
                return None
        return None

    def pointers(self, pid: int, addr: int, limit: int) -> list[int]:
        """Read an array of pointers up to its NULL."""
        found: list[int] = []
        while len(found) < limit:
            raw = self.read(pid, addr + 8 * len(found), 128)
            if len(raw) < 8:
                break
            for (word,) in struct.iter_unpack("<Q", raw[: len(raw) & ~7]):
                if not word:
                    return found
                found.append(word)
        return found[:limit]

    # ---- paths
    def in_tree(self, path: bytes) -> bool:
        """Return True if an absolute path is one of the mount's."""
        if b"/." in path or b"//" in path:
            path = os.path.normpath(path)
        return (path + b"/").startswith(self._trees)

    def cwd(self, pid: int) -> bytes:
        """Return the working directory."""
        return _readlink(f"/proc/{pid}/cwd") or b"/"

    def absolute(self, pid: int, dirfd: int, path: bytes) -> bytes:
        """Return the absolute path of one that a process gives a system call.

        dirfd: the word for the directory that it may begin at.
        """
        if path.startswith(b"/"):
            return path
        number = signed(dirfd)
        base = self.cwd(pid) if number == AT_FDCWD else self.fd_path(pid, number)
        return os.path.join(base or b"/", path)

    # ---- descriptors
    def fd_path(self, pid: int, fd: int) -> bytes | None:
        """Return the path that a descriptor leads to; None if it is not open."""
        tools = self._take()
        try:
            for _ in range(2):
                try:
                    return os.readlink(b"%d" % fd, dir_fd=tools.fds[pid])
                except OSError:
                    tools.fds.forget(pid)
        finally:
            self._unused.append(tools)
        return None

    def can_read(self, pid: int, fd: int) -> bool:
        """Return True if a descriptor is open for reading."""
        flags = descriptor_flags(pid, fd)
        return flags & os.O_ACCMODE != os.O_WRONLY and not flags & os.O_PATH

    def fd_type(self, pid: int, fd: int) -> int:
        """Return the type bits of a descriptor's mode; 0 if it is not open."""
        try:
            return stat.S_IFMT(os.stat(f"/proc/{pid}/fd/{fd}").st_mode)
        except OSError:
            return 0

    def take_writable(self, pid: int, fd: int) -> int:
        """Duplicate a descriptor that can write to a file of the mount.

        Return -1 if it is none, and where the host does not allow it.
        """
        copy = _duplicate(pid, fd & 0xFFFFFFFF)
        if copy < 0:
            return -1
        flags = fcntl.fcntl(copy, fcntl.F_GETFL)
        if (
            flags & os.O_ACCMODE == os.O_RDONLY
            or flags & os.O_PATH
            or inode_of(copy)[0] not in self._devices
        ):
            os.close(copy)
            return -1
        return copy

    def make_direct(self, pid: int, fd: int) -> None:
        """Set O_DIRECT of an open file of the mount; leave any other as it is."""
        copy = _duplicate(pid, fd & 0xFFFFFFFF)
        if copy < 0:
            return
        try:
            flags = fcntl.fcntl(copy, fcntl.F_GETFL)
            if not flags & os.O_DIRECT and inode_of(copy)[0] in self._devices:
                with contextlib.suppress(OSError):  # O_PATH
                    fcntl.fcntl(copy, fcntl.F_SETFL, flags | os.O_DIRECT)
        finally:
            os.close(copy)

    def descriptors(self, pid: int) -> list[Descriptor]:
        """Return all descriptors of a process; [] if it is gone."""
        found: list[Descriptor] = []
        try:
            folder = os.open(f"/proc/{pid}", os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return found
        try:
            numbers = sorted(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
            for number in numbers:
                with contextlib.suppress(OSError, ValueError, IndexError):
                    found.append(self._descriptor(folder, number))
        except OSError:
            pass
        finally:
            os.close(folder)
        return found

    def same_descriptors(self, pid: int, other: int) -> bool:
        """Return True if two processes have the same descriptors of the same files.

        This is asked at each fork.
        """
        try:
            numbers = os.listdir(f"/proc/{pid}/fd")
            return numbers == os.listdir(f"/proc/{other}/fd") and all(
                same_open_file(pid, fd, other, fd)
                and (
                    os.readlink(b"/proc/%d/fd/%d" % (pid, fd)) == EPOLL
                    or flags_of_info(b"/proc/%d/fdinfo/%d" % (pid, fd))
                    == flags_of_info(b"/proc/%d/fdinfo/%d" % (other, fd))
                )
                for fd in map(int, numbers)
            )
        except (OSError, IndexError, ValueError):
            return False

    def _descriptor(self, folder: int, number: int) -> Descriptor:
        """Read one descriptor of a folder of /proc; OSError, ValueError: it is gone.

        The flags of an epoll instance are not read: see descriptor_flags().
        """
        place = b"fd/%d" % number
        link = os.readlink(place, dir_fd=folder)
        if link == EPOLL:
            return Descriptor(number, link, EPOLL_FLAGS, stat.S_IFREG | 0o600)
        flags = flags_of_info(b"fdinfo/%d" % number, folder)
        if link.startswith(b"/"):
            mode, _, size, *_ = _statx(folder, place, 0)
            if self.in_tree(link):
                return Descriptor(number, link, flags, mode)
            return Descriptor(number, link, flags, mode, link, size)
        kind = stat.S_IFIFO if link.startswith(b"pipe:") else stat.S_IFREG
        return Descriptor(number, link, flags, kind | 0o600)

    def fd_in_tree(self, pid: int, fd: int) -> bool:
        """Return True if a descriptor leads to a file of the mount."""
        path = self.fd_path(pid, fd & 0xFFFFFFFF)
        return path is not None and path.startswith(b"/") and self.in_tree(path)

    def list_free(self, pid: int, count: int, start: int) -> list[int]:
        """Return the numbers from start on that the next descriptors will have.

        It is for a host without kcmp(2).  They are fewer if no more are free.
        """
        try:
            used = set(map(int, os.listdir(f"/proc/{pid}/fd")))
        except OSError:
            return []
        free = (fd for fd in range(start, abi.MIRROR_MAX_FD) if fd not in used)
        return [*islice(free, count)]

    # ---- plans
    def fill(
        self, plan: Plan, row: PlanRow, note: Notification, *, reads: bool, count: int
    ) -> None:
        """Find out what a call needs.

        row: its own.  reads: it asks for the position of its first argument.  count:
        the plan's, at first.
        """
        pid, tools = note.pid, self._take()
        key = pid, note.args[0] & 0xFFFFFFFF
        words = row.at, count, note.nr, *note.args, abi.USER_BUFFER, self._facts_at
        try:
            for again in range(2):  # see ProcFdCache
                memory = fds = info = pages = -1
                try:
                    fds = tools.fds[pid]
                    if reads:
                        info = tools.info[key]
                    memory = tools.memory[pid]  # which some hosts refuse
                    pages = tools.pages[pid]
                except OSError:  # it is gone, or has no such descriptor
                    pass
                files = memory, fds, info, pages
                _ASK(tools.question, 0, pid, *files, again, *words)
                self._plan_call(tools.question_at, plan.at)
                if not plan.failed:
                    break
                tools.forget(pid)
                tools.info.forget(key)
        finally:
            self._unused.append(tools)
        if plan.unknown:
            wanted, start = (row.new_fds, 0) if row.new_fds else (1, note.args[2])
            plan.set_new_fds(self.list_free(pid, wanted, start))

    # ---- processes
    def uid(self, pid: int) -> int:
        """Return the effective uid; 0 if the process is gone."""
        return host_process.uid(pid)

    def has_signal(self, pid: int) -> bool:
        """Return True if a signal waits for the end of a call, or the caller is gone.

        Kernel: signal_pending()
        """
        status = host_process.status(pid)
        if not status:
            return True
        sets = {name: int(status[name], 16) for name in _SIGNAL_SETS}
        pending = sets[b"SigPnd"] | sets[b"ShdPnd"]
        return bool(pending & ~(sets[b"SigBlk"] | sets[b"SigIgn"]))

    def creator(self, pid: int) -> int:
        """Return the process that made this thread or process; 0 if it is gone."""
        leader, parent = host_process.relatives(pid)
        return leader if leader != pid else parent

    def is_below(self, pid: int, ancestor: int) -> bool:
        """Return True if a thread or process is one of a process, or was made by it."""
        while pid and pid != ancestor:
            pid = self.creator(pid)
        return pid == ancestor

    def children(self, pid: int) -> list[int]:
        """Return the living processes that a process has made, and its threads."""
        found: list[int] = []
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                found.append(int(thread))
                with open(f"/proc/{pid}/task/{thread}/children", "rb") as children:
                    found += map(int, children.read().split())
        return [child for child in found if child != pid and self.lives(child)]

    def lives(self, pid: int) -> bool:
        """Return True if it has not ended, even if nobody has waited for it yet."""
        return standing(pid).state not in b"ZX"


def trees_of(source: str, pid: int) -> list[MountPlace]:
    """Return the places where a process sees file systems of that source."""
    entries = (entry for entry in mounts.table(pid) if entry.source == source)
    return [MountPlace(entry.target, entry.device) for entry in entries]


_SIGNAL_SETS = b"SigPnd", b"ShdPnd", b"SigBlk", b"SigIgn"


def signed(value: int, bits: int = 32) -> int:
    """Return the signed number in the low bits of a word."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _readlink(path: str) -> bytes | None:
    try:
        return os.readlink(path.encode())
    except OSError:
        return None


def _duplicate(pid: int, fd: int) -> int:
    """Duplicate a descriptor of a thread; -1: it is not to be had."""
    copy = -1
    for flags in (0, PIDFD_THREAD):
        try:
            process = os.pidfd_open(pid, flags)
        except OSError:
            continue
        copy = _libc.syscall(SYS_PIDFD_GETFD, process, fd, 0)
        os.close(process)
        break
    return copy


def inode_of(fd: int) -> tuple[int, int]:
    """Return st_dev and st_ino of an open file, without asking its file system."""
    try:
        _, number, _, *device = _statx(fd, b"", AT_EMPTY_PATH)
    except OSError:
        return -1, -1
    return os.makedev(*device), number


def _statx(folder: int, place: bytes, flags: int) -> tuple[int, ...]:
    """Return the fields of _STATX of an open file, without asking its file system."""
    buffer, flags = ctypes.create_string_buffer(_STATX.size), flags | AT_STATX_DONT_SYNC
    mask = STATX_TYPE | STATX_MODE | STATX_INO | STATX_SIZE
    if _libc.syscall(SYS_STATX, folder, place, flags, mask, buffer):
        raise OSError(errno.ENOENT, "statx", place)
    return _STATX.unpack(buffer)


def same_open_file(pid: int, fd: int, other_pid: int, other_fd: int) -> bool:
    """Return True if descriptors of two processes surely lead to one open file."""
    return not _libc.syscall(SYS_KCMP, pid, other_pid, KCMP_FILE, fd, other_fd)


def same_table(pid: int, other_pid: int) -> bool:
    """Return True if two processes surely share their table of descriptors."""
    return not _libc.syscall(SYS_KCMP, pid, other_pid, KCMP_FILES, 0, 0)


def standing(pid: int) -> Standing:
    """Read a process's state from /proc/PID/stat, its cheapest file."""
    words = host_process.stat_words(pid)
    if not words:
        return Standing(pid)
    return Standing(pid, words[STATE], int(words[PARENT]), int(words[_SIGCATCH]))
