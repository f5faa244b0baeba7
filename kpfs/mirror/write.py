# SPDX-License-Identifier: GPL-2.0-or-later
"""Make a command's writes to files of the mount, and answer them in its place.

FUSE cannot do them as Linux does: the host answers an empty write itself, and moves the
file position whatever the file says.  So the supervisor duplicates the caller's
descriptor, which shares its position, and writes to that.  This write comes to the
mount as a request, which alone tells which open file is meant:

    caller      write(fd, data)                   waits for the supervisor
    supervisor    writers[me] = in_place
                  pwrite(duplicate of fd, data) ----.
    host's kernel                                   | FUSE request: open file, our tid
    mount         in_place = writers.pop(tid)  <----'
                  in_place(files, opened)         makes the caller's call in the kernel
    supervisor  answers the caller with the value that its pwrite() returned

/proc shows neither the number by which the mount knows an open file, nor may two calls
to open() of one path be told apart otherwise; so the way through the host's kernel is
the shortest one.  If the mount cannot make the call, the caller's own goes on as FUSE
does it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import threading
from collections import defaultdict

from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import ERESTART_RESTARTBLOCK, KernelError
from kpfs.base.typed import TYPE_CHECKING, Any
from kpfs.fs.seqfile import WHOLE_MAX
from kpfs.fs.tree import EMPTY_WRITE, WriteCall
from kpfs.mirror.host import inode_of

if TYPE_CHECKING:
    from kpfs.fs.tree import InPlace, OpenFile, Writers
    from kpfs.mirror.host import Host
    from kpfs.mirror.kernel import Commit, MirroredKernel
    from kpfs.mirror.seccomp import Notification

NAMES = {nr.WRITE: "write", nr.PWRITE64: "pwrite64", nr.WRITEV: "writev"}
SEGMENTS_MAX = 512  # segments of a writev()
_IOV = struct.Struct("<2Q")


class TreeWriter:
    """The maker of the calls of NAMES to files of the mount."""

    def __init__(
        self, kernel: MirroredKernel[Any, Any], host: Host, writers: Writers
    ) -> None:
        self.kernel = kernel
        self.host = host
        self.writers = writers
        # for the position of a file's open files, by inode; each is taken before any
        # lock of the host's
        self._positions = defaultdict[tuple[int, int], threading.Lock](threading.Lock)

    def __call__(self, note: Notification, commit: Commit) -> int | None:
        """Make a call; return its value or -errno, or None if the caller's goes on."""
        call = read_call(self.host, note)
        fd = self.host.take_writable(note.pid, note.args[0]) if call else -1
        if call is None or fd < 0:
            return None
        try:
            if call.name == "pwrite64" or not _has_position(fd):
                return self._make(note, commit, fd, call)
            # of writers who share the open file, each begins where another ended
            with self._positions[inode_of(fd)]:
                before = os.lseek(fd, 0, os.SEEK_CUR)
                return self._make(note, commit, fd, call, before)
        finally:
            os.close(fd)

    def _make(
        self,
        note: Notification,
        commit: Commit,
        fd: int,
        call: WriteCall,
        before: int | None = None,
    ) -> int | None:
        """Make a call as its caller, and move the file position.

        before: the position, if the file has one that the call moves.
        """
        after = start = before or 0

        def in_place(files: object, opened: OpenFile) -> int:
            # The host holds the file's inode for this request, so nothing is asked of
            # it here: a process may have the position locked, and wait for the inode.
            nonlocal after
            with self.kernel.lock:
                if not commit():
                    raise KernelError(errno.ESRCH, f"{note.pid} is gone")
                made = self.kernel.write(files, opened, note.pid, call, start)
            taken, after = made
            return taken

        value = self._take(in_place, fd, call)
        if before is not None and after != before:
            with contextlib.suppress(OSError):
                os.lseek(fd, after, os.SEEK_SET)
        return value

    def _take(self, made: InPlace, fd: int, call: WriteCall) -> int | None:
        """Write to fd, for which the mount makes the caller's call.

        Return its value or -errno, or None if it did not reach the mount, or may not be
        made there.
        """
        reached, refused = False, 0
        stepping, ident = self.kernel.lock.stepping, threading.get_ident()

        def in_place(files: object, opened: object) -> int:
            nonlocal reached, refused
            if not self.kernel.may_write(opened):
                raise KernelError(errno.EAGAIN, "the caller must write itself")
            reached = True
            here = threading.get_ident()
            if ident in stepping:  # the mount's thread steps aside for this one
                stepping[here] = stepping[ident]
            try:
                return made(files, opened)
            except KernelError as error:
                refused = error.errno
                raise
            finally:
                stepping.pop(here, None)

        me = threading.get_native_id()
        self.writers[me] = in_place
        try:
            if call.data:
                try:
                    # by write(2), for programs that watch by inotify(7)
                    return os.pwrite(fd, call.data, 0)
                except OSError as error:
                    if reached or error.errno != errno.ESPIPE:
                        raise
            return fcntl.ioctl(fd, EMPTY_WRITE)
        except OSError as error:
            if refused > ERESTART_RESTARTBLOCK:  # FUSE has changed it to another errno
                return -refused
            return -(error.errno or errno.EIO) if reached else None
        finally:
            self.writers.pop(me, None)


def _has_position(fd: int) -> bool:
    """Return False if a file cannot be sought; its position is not waited for."""
    try:
        os.pread(fd, 0, 0)
    except OSError as error:
        return error.errno != errno.ESPIPE
    return True


def read_call(host: Host, note: Notification) -> WriteCall | None:
    """Return the call with its data; None if that is too large or not readable."""
    name, (_, address, size, pos, *_) = NAMES[note.nr], note.args
    parts = [(address, size)]
    if name == "writev":
        if size > SEGMENTS_MAX:
            return None
        raw = host.read(note.pid, address, size * _IOV.size)
        if len(raw) < size * _IOV.size:
            return None
        parts = list(_IOV.iter_unpack(raw))
    total = sum(length for _, length in parts)
    if total > WHOLE_MAX:
        return None
    data = b"".join(host.read(note.pid, *part) for part in parts)
    if len(data) < total:
        return None
    pos -= (pos >> 63) << 64
    return WriteCall(name, data, [length for _, length in parts], pos)
