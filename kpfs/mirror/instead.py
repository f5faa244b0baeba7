# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls of CMD that are answered in the host's place.

uname(2) tells what the guest is, as tools decide by it.  And files that
the guest has in /proc and the host has not, which nothing can be mounted over there
(/proc/modules of a kernel without modules), are opened and found nevertheless.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kpfs.base.errors import KernelError
from kpfs.mirror import seccomp
from kpfs.mirror.host import AT_FDCWD

if TYPE_CHECKING:
    from kpfs.mirror.host import Host
    from kpfs.mirror.seccomp import Notification

NR_UNAME, NR_OPENAT2 = 63, 437
UTS_FIELDS, UTS_LENGTH = 6, 65
PROC_FILES = (b"modules", b"config.gz", b"cmdline", b"version", b"kallsyms")
_libc = ctypes.CDLL(None, use_errno=True)


class PathCall(NamedTuple):
    """Where a call that takes a path has its arguments; -1: it has no such."""

    path: int
    dirfd: int = -1
    flags: int = -1  # of an open
    out: int = -1  # a structure that it fills
    size: int = 0


OPENS = {2: PathCall(0, flags=1), 257: PathCall(1, 0, flags=2)}
OPENS[NR_OPENAT2] = PathCall(1, 0, flags=2)
LOOKS = {
    4: PathCall(0, out=1, size=144),  # stat
    6: PathCall(0, out=1, size=144),  # lstat
    21: PathCall(0),  # access
    262: PathCall(1, 0, out=2, size=144),  # newfstatat
    269: PathCall(1, 0),  # faccessat
    332: PathCall(1, 0, out=4, size=256),  # statx
    439: PathCall(1, 0),  # faccessat2
}


class Instead:
    """Answers those calls.  The kernel's lock is not held; the guest has made them."""

    listener = -1

    def __init__(self, names: Mapping[int, bytes], tree: str) -> None:
        """names: what uname() tells of the guest, by field; tree: the whole mount."""
        self.names = names
        self.tree = os.fsencode(tree)
        # paths of /proc that the host has not
        self.absent = {
            b"/proc/" + name: name
            for name in PROC_FILES
            if not os.path.exists(b"/proc/" + name)
        }
        calls = [*OPENS, *LOOKS] if self.absent else []
        self.names_absent = frozenset(self.absent.values())
        self.calls = frozenset([*calls, NR_UNAME] if names else calls)

    def concerns(self, note: Notification, host: Host) -> bool:
        """Whether one of ``calls`` may have to be answered."""
        if note.nr == NR_UNAME:
            return True
        call = OPENS.get(note.nr) or LOOKS[note.nr]
        return self.means(note.nr, host.string(note.pid, note.args[call.path]))

    def means(self, nr: int, path: bytes | None) -> bool:
        """The same of a call with that path, if it has one."""
        if path is None:
            return nr == NR_UNAME
        return path.rpartition(b"/")[2] in self.names_absent

    def __call__(
        self, note: Notification, host: Host, commit: Callable[[], bool]
    ) -> int | None:
        """What the call gives, or -errno; None: it is to go on."""
        if note.nr == NR_UNAME:
            return self.uname(note, host, commit)
        call = OPENS.get(note.nr) or LOOKS[note.nr]
        place = self.place(note, host, call)
        if place is None:
            return None
        return (self.open if note.nr in OPENS else self.look)(note, host, call, place)

    def uname(
        self, note: Notification, host: Host, commit: Callable[[], bool]
    ) -> int | None:
        """The host's names, but for the guest's.  Kernel: newuname()"""
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
        """The file of the tree that the call's path means; None: it means another."""
        path = host.string(note.pid, note.args[call.path])
        if path is None:
            return None
        if not path.startswith(b"/"):
            dirfd = note.args[call.dirfd] & 0xFFFFFFFF if call.dirfd >= 0 else AT_FDCWD
            if dirfd == AT_FDCWD & 0xFFFFFFFF or dirfd == AT_FDCWD:
                base: bytes | None = host.cwd(note.pid)
            else:
                base = host.fd_path(note.pid, dirfd)
            path = (base or b"") + b"/" + path
        name = self.absent.get(os.path.normpath(path))
        if name is None:
            return None
        place = self.tree + b"/" + name
        return place if os.path.exists(place) else None  # see kpfs.config

    def open(
        self, note: Notification, host: Host, call: PathCall, place: bytes
    ) -> int | None:
        flags = note.args[call.flags]
        if note.nr == NR_OPENAT2:
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
        """Make the call ourselves, of the file in the tree."""
        args: list[object] = [ctypes.c_ulong(word) for word in note.args]
        args[call.path] = place
        made = bytearray(call.size)
        if call.size:
            args[call.out] = (ctypes.c_char * call.size).from_buffer(made)
        if _libc.syscall(note.nr, *args):
            return -ctypes.get_errno()
        if made and not host.write(note.pid, note.args[call.out], bytes(made)):
            return -errno.EFAULT
        return 0


def _same_names(pid: int) -> bool:
    """Whether the process has our host name, and not one of a namespace of its own."""
    try:
        return os.readlink(f"/proc/{pid}/ns/uts") == os.readlink("/proc/self/ns/uts")
    except OSError:
        return False
