# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes of CMD to files of the mount, made for it and answered in its place.

FUSE cannot do them as Linux does: the host answers an empty write itself and moves the
file position whatever the file says.  So the supervisor takes a duplicate of the
caller's descriptor, which shares its position, and writes to that; the mount finds in
``writers`` whom the thread that writes stands for, and makes the caller's call in the
middle of that request.  Where it cannot, the caller's own call goes on as FUSE has it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import threading
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, TypeVar

from kpfs.base.caller import Caller
from kpfs.base.errors import ERESTART_RESTARTBLOCK, KernelError
from kpfs.fs.seqfile import WHOLE_MAX
from kpfs.fs.write_call import EMPTY_WRITE, WriteCall

if TYPE_CHECKING:
    from kpfs.fs.tree import Writers
    from kpfs.fs.vfs import OpenFile, Vfs
    from kpfs.mirror.host import Host
    from kpfs.mirror.seccomp import Notification
    from kpfs.root.guest_kernel import GuestKernel

NAMES = {1: "write", 18: "pwrite64", 20: "writev"}
SEGMENTS_MAX = 512  # of a writev()
_IOV = struct.Struct("<2Q")

Server = TypeVar("Server")
Opened = TypeVar("Opened")
# Called with the kernel's lock held right before the call is made: from now on it is
# not to go on by itself.  False: there is nobody left to make it for.
Commit = Callable[[], bool]


class TreeWriter:
    """Makes the calls of NAMES.  task(pid) sees to it that the guest has that task."""

    def __init__(
        self,
        kernel: GuestKernel,
        host: Host,
        writers: Writers,
        task: Callable[[int], object],
    ) -> None:
        self.kernel = kernel
        self.host = host
        self.writers = writers
        self.task = task

    def __call__(self, note: Notification, commit: Commit) -> int | None:
        """Make a call; returns its value or -errno, None if it is to go on instead."""
        call = read_call(self.host, note)
        fd = self.host.take_writable(note.pid, note.args[0]) if call else -1
        if call is None or fd < 0:
            return None
        try:
            return self.write(note, fd, call, commit)
        finally:
            os.close(fd)

    def write(
        self, note: Notification, fd: int, call: WriteCall, commit: Commit
    ) -> int | None:
        """Make the call in the middle of a write of ours to fd."""

        def in_place(vfs: Vfs, opened: OpenFile) -> int:
            return self.make(vfs, opened, note.pid, fd, call, commit)

        def may(opened: OpenFile) -> bool:
            return not opened.node.sleeps  # no thread of ours can wait so long

        return take(self.writers, in_place, fd, call, may)

    def make(
        self,
        vfs: Vfs,
        opened: OpenFile,
        pid: int,
        fd: int,
        call: WriteCall,
        commit: Commit,
    ) -> int:
        """Make the call in the guest, and set the position that it leaves.

        Context: a thread of the mount, in the request.  The lock is not held: a reader
        of the same open file has its position locked while he waits for that lock.
        """
        moves = call.name != "pwrite64" and not opened.nonseekable
        before = os.lseek(fd, 0, os.SEEK_CUR) if moves else 0
        caller = Caller(pid, self.host.uid(pid), 0)
        with self.kernel.lock:
            if not commit():
                raise KernelError(errno.ESRCH, f"{pid} is gone")
            if not opened.node.revives:
                self.task(pid)
            taken, after = vfs.write_call(caller, opened, call, before)
        if moves and after != before:
            with contextlib.suppress(OSError):
                os.lseek(fd, after, os.SEEK_SET)
        return taken


def read_call(host: Host, note: Notification) -> WriteCall | None:
    """The call with its data; None if that is too large or not readable."""
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


def take(
    writers: MutableMapping[int, Callable[[Server, Opened], int]],
    made: Callable[[Server, Opened], int],
    fd: int,
    call: WriteCall,
    may: Callable[[Opened], bool] = lambda _opened: True,
) -> int | None:
    """Write to fd, of which the mount makes something else: the value or -errno.

    None: it did not reach the mount, or may not be made there; the caller is to write.
    """
    reached, refused = False, 0

    def in_place(server: Server, opened: Opened) -> int:
        nonlocal reached, refused
        if not may(opened):
            raise KernelError(errno.EAGAIN, "the caller is to write itself")
        reached = True
        try:
            return made(server, opened)
        except KernelError as error:
            refused = error.errno
            raise

    me = threading.get_native_id()
    writers[me] = in_place
    try:
        if call.data:
            try:
                # by write(2), for the sake of those who watch by inotify(7)
                return os.pwrite(fd, call.data, 0)
            except OSError as error:
                if reached or error.errno != errno.ESPIPE:
                    raise
        return fcntl.ioctl(fd, EMPTY_WRITE)
    except OSError as error:
        if refused > ERESTART_RESTARTBLOCK:  # FUSE has made another one of it
            return -refused
        return -(error.errno or errno.EIO) if reached else None
    finally:
        writers.pop(me, None)
