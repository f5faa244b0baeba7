# SPDX-License-Identifier: GPL-2.0-or-later
"""What every mount answers in the same way, whatever the tree behind it is.

A KernelError becomes its errno; any other exception is a bug, logged and answered EIO.
"""

from __future__ import annotations

import bisect
import errno
import itertools
import os
import signal
from collections.abc import Callable
from typing import Protocol

from kpfs.base.errors import (
    ENOTSUPP,
    ERESTART_RESTARTBLOCK,
    ERESTARTSYS,
    KernelError,
)
from kpfs.base.lock import FairLock
from kpfs.base.log import Log
from kpfs.fs.fuse import proto
from kpfs.fs.fuse.loop import Answer, Loop, Request
from kpfs.fs.node import NAME_MAX
from kpfs.host import fusemount
from kpfs.host.guard import ENDING

log = Log(__name__)

MAX_BACKGROUND = 0xFFFF  # so that a release is never sent after what followed it
UNKNOWN_INO = 0xFFFFFFFF
# What Linux is told of the size of a file that is open; stat() shows the true one,
# which is 0.  A sendfile() or splice(), which busybox's cat begins with, would take a
# file of size 0 for empty.  So it asks for a page, is refused, and the caller goes back
# to read(), as on debugfs.
OPEN_SIZE = 1 << 20
FOREVER = 1 << 30  # s that Linux keeps an entry, or attributes
Notify = Callable[[int, bytes], object]
Method = Callable[[Request], "Answer | bytes | None"]


class OpenDir:
    """An open directory: its entries as of the time when its reading began."""

    def __init__(self) -> None:
        self.data = b""
        self.ends = [0]  # where an entry may begin

    def fill(self, entries: list[tuple[str, int]]) -> None:
        """entries: names and modes."""
        self.ends, pieces = [0], []
        for name, mode in entries:
            raw = name.encode("latin-1")
            end = self.ends[-1] + proto.DIRENT.size + len(raw) + -len(raw) % 8
            pieces.append(proto.dirent(UNKNOWN_INO, end, raw, mode))
            self.ends.append(end)
        self.data = b"".join(pieces)

    def read(self, offset: int, size: int) -> bytes:
        """The whole entries from offset on that fit into size bytes."""
        last = self.ends[bisect.bisect_right(self.ends, offset + size) - 1]
        return self.data[offset:last]


class Server:
    """Serves the requests of a mount, each by the method for its opcode."""

    def __init__(self, notify: Notify, on_ready: Callable[[], None]) -> None:
        """notify: tells Linux something, by code and contents."""
        self.notify = notify
        self.on_ready = on_ready
        self.handles = itertools.count(1)
        self.keeping = False  # Linux may keep attributes of files
        self.dirs: dict[int, OpenDir] = {}
        self.ids = os.getuid(), os.getgid()
        self.methods: dict[int, Method] = {
            proto.STATFS: self.statfs,
            proto.INIT: self.init,
            proto.OPENDIR: self.opendir,
            proto.READDIR: self.readdir,
            proto.RELEASEDIR: self.releasedir,
            proto.DESTROY: self.destroy,
            proto.FORGET: self.forget,
            proto.BATCH_FORGET: self.batch_forget,
            proto.RELEASE: self.release,
            proto.FSYNC: self.fsync,
        }

    def serve(self, request: Request) -> Answer | None:
        """Make the answer to a request; None if there is to be none."""
        method = self.methods.get(request.opcode)
        if method is None:  # Linux then does without
            return Answer(errno.ENOSYS)
        try:
            made = method(request)
            return Answer(0, made) if isinstance(made, bytes) else made
        except KernelError as e:
            log.debug("%s: %s", method.__name__, e)
            return Answer(_errno(e))
        except BaseException:
            log.exception("bug in %s", method.__name__)
            return Answer(errno.EIO)

    # ---- life
    def init(self, request: Request) -> Answer:
        major, minor, readahead, offered = proto.INIT_REQUEST.unpack_from(request.body)
        if (major, minor) < (proto.MAJOR, proto.OLDEST_MINOR):
            raise KernelError(errno.EPROTO, f"FUSE {major}.{minor} is too old")
        wanted = proto.ATOMIC_O_TRUNC | proto.BIG_WRITES | proto.PARALLEL_DIROPS
        flags = offered & wanted
        self.keeping = minor >= proto.STORE_INVALIDATES
        limits = MAX_BACKGROUND, MAX_BACKGROUND * 3 // 4, proto.MAX_WRITE, 1
        return Answer(
            payload=proto.INIT_ANSWER.pack(
                proto.MAJOR, min(minor, proto.MINOR), readahead, flags, *limits
            ),
            then=self.started,
        )

    def started(self) -> None:
        """Linux sends requests from now on."""
        self.on_ready()

    def destroy(self, _request: Request) -> bytes:
        return b""

    def end(self) -> None:
        """Called when the mount is about to be unmounted, by umount or a signal."""

    def statfs(self, _request: Request) -> bytes:
        return proto.STATFS_ANSWER.pack(0, 0, 0, 0, 0, 4096, NAME_MAX, 4096)

    # ---- the two sizes of a file
    def forget_attributes(self, number: int) -> None:
        """Have Linux ask for the attributes of an inode again.

        In the middle of its asking: it passes the answer on, but does not take it over.
        """
        what = proto.INVAL_INODE.pack(number, -1, 0)
        self.notify(proto.NOTIFY_INVAL_INODE, what)

    def restore_size(self, number: int) -> None:
        """Let Linux have OPEN_SIZE: there is a byte in its last place.

        It then asks for the size when somebody wants to know.
        """
        what = proto.STORE.pack(number, OPEN_SIZE - 1, 1)
        self.notify(proto.NOTIFY_STORE, what + b"\0")

    # ---- what is given back
    def forget(self, request: Request) -> None:
        self.forget_one(request.nodeid, *proto.FH.unpack_from(request.body))

    def batch_forget(self, request: Request) -> None:
        count, body = proto.FH.unpack_from(request.body)[0] & 0xFFFFFFFF, request.body
        for at in range(8, 8 + count * proto.FORGET_ONE.size, proto.FORGET_ONE.size):
            self.forget_one(*proto.FORGET_ONE.unpack_from(body, at))

    def forget_one(self, number: int, lookups: int) -> None:
        """Linux knows an inode so many times less."""
        raise NotImplementedError

    def release(self, request: Request) -> bytes:
        self.close(*proto.FH.unpack_from(request.body))
        return b""

    def close(self, fh: int) -> None:
        """Give an open file back."""
        raise NotImplementedError

    def fsync(self, _request: Request) -> None:
        raise KernelError(errno.EINVAL, "no fsync here")

    # ---- directories
    def opendir(self, request: Request) -> Answer:
        fh = next(self.handles)
        self.dirs[fh] = OpenDir()
        return Answer(
            payload=proto.OPEN_ANSWER.pack(fh, 0, 0), undo=lambda: self.dirs.pop(fh)
        )

    def readdir(self, request: Request) -> bytes:
        fh, offset, size, *_ = proto.READ_REQUEST.unpack_from(request.body)
        opened = self.dirs[fh]
        if not offset:
            opened.fill(self.entries(request))
        return opened.read(offset, size)

    def entries(self, request: Request) -> list[tuple[str, int]]:
        """Names and types of all that is in the directory."""
        raise NotImplementedError

    def releasedir(self, request: Request) -> bytes:
        del self.dirs[proto.FH.unpack_from(request.body)[0]]
        return b""


def _errno(error: KernelError) -> int:
    """What Linux is told: it takes none of those that the kernel uses inside."""
    if 0 < error.errno < ERESTARTSYS:
        return error.errno
    if error.errno <= ERESTART_RESTARTBLOCK:
        return errno.EINTR
    # with EINTR programs would try again for ever
    return errno.EOPNOTSUPP if error.errno == ENOTSUPP else errno.EINVAL


class MakeServer(Protocol):
    """Makes the server of a mount that is being made."""

    def __call__(self, notify: Notify) -> Server: ...


def mount(
    make: MakeServer,
    lock: FairLock,
    mountpoint: str,
    *,
    fsname: str = "kpfs",
    allow_other: bool = False,
) -> None:
    """Mount and serve until it is unmounted or a signal ends it.

    lock: what requests wait for.

    To be called in the main thread, with the default actions of SIGTERM, SIGINT and
    SIGHUP.  SetupError: it cannot be mounted.
    """
    place = os.path.realpath(mountpoint)
    # one that comes from now on would leave a mount that nobody serves
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        device = fusemount.mount(place, fsname, allow_other=allow_other)
        server = make(lambda *what: loop.notify(*what))
        loop = Loop(device, place, server.serve, lock)
        loop.main(server.end, mask)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
