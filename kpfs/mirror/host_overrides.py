# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls of a command that are answered in the host's place.

uname(2) tells of the emulated kernel, as tools decide by it.  And some files of /proc
may be missing on the host, such as /proc/modules of a kernel without modules.  Nothing
can be mounted there, so calls that open or look at them are answered from the mount.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable, Iterable, Mapping

from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError
from kpfs.base.syscall_numbers import AT_FDCWD
from kpfs.base.typed import TYPE_CHECKING, NamedTuple
from kpfs.base.units import UTS_LENGTH
from kpfs.mirror import seccomp

if TYPE_CHECKING:
    from kpfs.mirror.host import Host
    from kpfs.mirror.seccomp import Notification

UTS_FIELDS = 6
PROC_FILES = (b"modules", b"config.gz", b"cmdline", b"version", b"kallsyms")
XATTR_MAX = 65536  # bytes of a value, or of a list of names
_libc = ctypes.CDLL(None, use_errno=True)


class PathCall(NamedTuple):
    """The numbers of a path call's arguments; -1: it has none of that kind."""

    path: int
    dirfd: int = -1
    flags: int = -1  # flags of an open
    out: int = -1  # memory that it fills
    size: int = 0  # bytes of a structure that it fills
    limit: int = -1  # how many bytes it may fill; it returns how many it did
    name: int = -1  # a string besides the path


PATH_CALLS = {
    nr.OPEN: PathCall(0, flags=1),
    nr.OPENAT: PathCall(1, 0, flags=2),
    nr.OPENAT2: PathCall(1, 0, flags=2),
    nr.STAT: PathCall(0, out=1, size=144),
    nr.LSTAT: PathCall(0, out=1, size=144),
    nr.ACCESS: PathCall(0),
    nr.NEWFSTATAT: PathCall(1, 0, out=2, size=144),
    nr.FACCESSAT: PathCall(1, 0),
    nr.STATX: PathCall(1, 0, out=4, size=256),
    nr.FACCESSAT2: PathCall(1, 0),
    nr.STATFS: PathCall(0, out=1, size=120),
    nr.READLINK: PathCall(0, out=1, limit=2),
    nr.READLINKAT: PathCall(1, 0, out=2, limit=3),
    nr.GETXATTR: PathCall(0, out=2, limit=3, name=1),
    nr.LGETXATTR: PathCall(0, out=2, limit=3, name=1),
    nr.LISTXATTR: PathCall(0, out=1, limit=2),
    nr.LLISTXATTR: PathCall(0, out=1, limit=2),
}


def absent_files() -> dict[bytes, bytes]:
    """Return the names in the tree of files of /proc that the host lacks, by path."""
    paths = {b"/proc/" + name: name for name in PROC_FILES}
    return {path: name for path, name in paths.items() if not os.path.exists(path)}


def reported() -> Iterable[int]:
    """Return the numbers of the calls that the absent files need to be reported."""
    return PATH_CALLS if absent_files() else ()


class HostOverrides:
    """The answers to those calls.  Context: the kernel's lock is not held."""

    def __init__(
        self, names: Mapping[int, bytes], tree: str, listener: int = -1
    ) -> None:
        """names: of the emulated kernel, by field of uname(2).

        tree: the mount.  listener: the supervisor's.
        """
        self.listener = listener
        self.names = names
        self.tree = os.fsencode(tree)
        self.absent = absent_files()
        calls = list(PATH_CALLS) if self.absent else []
        self.names_absent = frozenset(self.absent.values())
        self.calls = frozenset([*calls, nr.UNAME] if names else calls)

    def concerns(self, note: Notification, host: Host) -> bool:
        """Return True if one of ``calls`` may have to be answered."""
        if note.nr == nr.UNAME:
            return True
        path = note.args[PATH_CALLS[note.nr].path]
        return self.means(note.nr, host.string(note.pid, path))

    def means(self, number: int, path: bytes | None) -> bool:
        """Return True if a call with that path may have to be answered."""
        if path is None:
            return number == nr.UNAME
        return path.rpartition(b"/")[2] in self.names_absent

    def __call__(
        self, note: Notification, host: Host, commit: Callable[[], bool]
    ) -> int | None:
        """Return the value of a call, or -errno; None: the caller's own goes on."""
        if note.nr == nr.UNAME:
            return self.uname(note, host, commit)
        call = PATH_CALLS[note.nr]
        place = self.place(note, host, call)
        if place is None:
            return None
        return (self.open if call.flags >= 0 else self.look)(note, host, call, place)

    def uname(
        self, note: Notification, host: Host, commit: Callable[[], bool]
    ) -> int | None:
        """Give the host's names with those of the kernel put in.  Kernel: newuname()"""
        names = bytearray(UTS_FIELDS * UTS_LENGTH)
        if not _same_names(note.pid) or _libc.uname(
            (ctypes.c_char * len(names)).from_buffer(names)
        ):
            return None
        for field, name in self.names.items():
            at = field * UTS_LENGTH
            names[at : at + UTS_LENGTH] = name.ljust(UTS_LENGTH, b"\0")
        if not commit():
            raise KernelError(errno.ESRCH, f"{note.pid} is gone")
        return 0 if host.write(note.pid, note.args[0], bytes(names)) else -errno.EFAULT

    def place(self, note: Notification, host: Host, call: PathCall) -> bytes | None:
        """Return the file of the tree that a path means; None: another one."""
        path = host.string(note.pid, note.args[call.path])
        if path is None:
            return None
        dirfd = note.args[call.dirfd] if call.dirfd >= 0 else AT_FDCWD
        path = host.absolute(note.pid, dirfd, path)
        name = self.absent.get(os.path.normpath(path))
        if name is None:
            return None
        place = self.tree + b"/" + name
        return place if os.path.exists(place) else None  # see kpfs.config

    def open(
        self, note: Notification, host: Host, call: PathCall, place: bytes
    ) -> int | None:
        flags = note.args[call.flags]
        if note.nr == nr.OPENAT2:
            flags = struct.unpack("<Q", host.read(note.pid, flags, 8) or bytes(8))[0]
        try:
            fd = os.open(place, flags & ~os.O_CREAT | os.O_CLOEXEC)
        except OSError as error:
            return -(error.errno or errno.EIO)
        try:
            return seccomp.give_file(self.listener, note.id, fd, flags & os.O_CLOEXEC)
        except OSError:
            return None
        finally:
            os.close(fd)

    def look(
        self, note: Notification, host: Host, call: PathCall, place: bytes
    ) -> int | None:
        """Make the call on the file of the tree."""
        args: list[object] = [ctypes.c_ulong(word) for word in note.args]
        args[call.path] = place
        if call.name >= 0:
            args[call.name] = host.string(note.pid, note.args[call.name])
        size = call.size
        if call.limit >= 0:
            size = min(note.args[call.limit], XATTR_MAX)
            args[call.limit] = ctypes.c_ulong(size)
        made = bytearray(size)
        if size:
            args[call.out] = (ctypes.c_char * size).from_buffer(made)
        result = int(_libc.syscall(note.nr, *args))
        if result < 0:
            return -ctypes.get_errno()
        filled = bytes(made if call.size else made[:result])
        if filled and not host.write(note.pid, note.args[call.out], filled):
            return -errno.EFAULT
        return result


def _same_names(pid: int) -> bool:
    """Return True if a process is in the same UTS namespace as this one."""
    try:
        return os.readlink(f"/proc/{pid}/ns/uts") == os.readlink("/proc/self/ns/uts")
    except OSError:
        return False
