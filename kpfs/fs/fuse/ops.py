# SPDX-License-Identifier: GPL-2.0-or-later
"""The mount: operations of FUSE to nodes and system calls of the guest.

The only module that uses fusepy.  A KernelError becomes its errno; any other exception
is a bug, logged and answered EIO.  None of it may reach fusepy, which would turn it
into an errno that looks as if it were meant.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, MutableMapping
from functools import partial
from typing import Any, TypeVar

from kpfs.engine.errors import KernelError
from kpfs.fs.booted import Booted
from kpfs.fs.fuse.loop import Loop
from kpfs.fs.node import NAME_MAX, Dir, DynDir, File, Node, walk
from kpfs.fs.vfs import EMPTY_WRITE, InPlace, OpenFile, Vfs
from kpfs.kernel.host_calls import Caller
from kpfs.kernel.root import Kernel

log = logging.getLogger(__name__)
T = TypeVar("T")

LOOKUP, GETATTR = 1, 3  # opcodes
# What Linux is told of a file's size when it looks up the path, and keeps; stat() shows
# the true one, which is 0.  A sendfile() or splice(), which busybox's cat begins with,
# would take a file of size 0 for empty.  So it asks for a page, is refused, and the
# caller goes back to read(), as on debugfs.
LOOKUP_SIZE = 1 << 20
MAX_ERRNO = 512
RELEASE_DELAY = 0.02  # s, that a close() at most takes to become known
POLLIN, POLLOUT = 0x41, 0x104  # with RDNORM and WRNORM


class FuseUnavailable(Exception):  # noqa: N818 (it is no error of ours)
    """FUSE cannot be used here: the text says why, for the user."""


def _import_fuse() -> Any:
    """Import fusepy, and check that it uses a libfuse of version 2.

    With version 3 it would mount, and then answer with garbage.
    """
    # else fusepy asks ldconfig and gcc for it, which takes 40 ms
    os.environ.setdefault("FUSE_LIBRARY_PATH", "libfuse.so.2")
    try:
        import fuse
    except OSError as e:
        raise FuseUnavailable(
            "needs libfuse 2 (Debian: apt install libfuse2, newer ones libfuse2t64)"
        ) from e
    except ImportError as e:
        raise FuseUnavailable("the Python package fusepy is not installed") from e
    if not hasattr(fuse, "FUSE") or not hasattr(fuse, "_libfuse"):
        raise FuseUnavailable(f"{fuse.__file__} is not fusepy")
    version = fuse._libfuse.fuse_version()
    if version >= 30:
        raise FuseUnavailable(f"libfuse {version // 10} is loaded, version 2 is needed")
    return fuse


class Operations:
    """What fusepy calls, by name, in libfuse's threads.

    No attribute may bear the name of another FUSE operation: it would be taken as one.
    Those that are None are answered ENOSYS once, and the kernel stops asking.
    """

    use_ns = True
    getxattr = setxattr = listxattr = removexattr = None
    access = flush = opendir = releasedir = fsyncdir = None
    bmap = lock = readlink = None

    def __init__(
        self,
        kernel: Kernel,
        root: Dir,
        libfuse: Any,
        loop: Loop,
        on_ready: Callable[[], None],
        writers: MutableMapping[int, InPlace] | None = None,
    ) -> None:
        """writers: threads of ours that write for somebody else, and what they do."""
        self.kernel = kernel
        self.writers = {} if writers is None else writers
        self.root = root
        self.vfs = Vfs(kernel, root)
        self.libfuse = libfuse
        self.on_ready = on_ready
        self.files: dict[int, OpenFile] = {}
        self.next_fh = 1
        self.fh_guard = threading.Lock()
        self.loop = loop
        self.times = time.time_ns()
        self.ids = os.getuid(), os.getgid()
        self.pollers: list[tuple[OpenFile, int]] = []

    def __call__(self, op: str, *args: Any) -> Any:
        return getattr(self, op)(*args)

    # ---- life
    def follow(self, kernel: Kernel, root: Dir) -> None:
        """Serve another kernel from now on.  Called under their lock."""
        self.kernel, self.root = kernel, root
        self.vfs = Vfs(kernel, root)
        self.notify_pollers()
        kernel.background.start(self.notify_pollers)

    def init(self, _path: str) -> int:
        self.kernel.background.start(self.notify_pollers)
        self.on_ready()
        return 0

    def end(self) -> None:
        """Called when the mount is about to be unmounted, by umount or a signal."""
        with self.kernel.lock:
            self.pollers.clear()

    # ---- who asks
    def caller(self) -> Caller:
        context = self.libfuse.fuse_get_context().contents
        return Caller(context.pid, context.uid, context.gid)

    def interrupted(self) -> bool:
        """Whether the caller got a signal, or the mount is going away."""
        context = self.libfuse.fuse_get_context().contents
        return bool(
            self.libfuse.fuse_interrupted() or self.libfuse.fuse_exited(context.fuse)
        )

    # ---- attributes
    def getattr(self, path: str, fi: Any = None) -> dict[str, int]:
        opcode = self.loop.request.opcode
        if fi is not None:
            opened = self.files[fi.fh]
            if opcode == GETATTR:  # with a file: the only reason is SEEK_END
                with self.kernel.lock:
                    opened.handle.seek_end()
            return self.attributes(opened.node)
        node = walk(self.root, path)
        attributes = self.attributes(node)
        if isinstance(node, File):
            if opcode == LOOKUP:
                attributes["st_size"] = LOOKUP_SIZE
            elif opcode == GETATTR:
                self.loop.keep_size()
        return attributes

    def attributes(self, node: Node) -> dict[str, int]:
        is_dir = isinstance(node, Dir)
        return {
            "st_mode": node.mode,
            "st_nlink": 2 if is_dir else 1,
            "st_uid": self.ids[0] if node.uid is None else node.uid,
            "st_gid": self.ids[1] if node.gid is None else node.gid,
            "st_size": node.size,
            "st_blksize": node.blksize,
            "st_atime": self.times if node.atime is None else node.atime,
            "st_mtime": self.times if node.mtime is None else node.mtime,
            "st_ctime": self.times if node.mtime is None else node.mtime,
        }

    def chmod(self, path: str, mode: int) -> int:
        walk(self.root, path).chmod(mode)
        return 0

    def chown(self, path: str, uid: int, gid: int) -> int:
        walk(self.root, path).chown(uid, gid)
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None) -> int:
        node = walk(self.root, path)
        node.atime, node.mtime = times or (time.time_ns(),) * 2
        return 0

    def truncate(self, path: str, size: int, fi: Any = None) -> int:
        node = self.files[fi.fh].node if fi is not None else walk(self.root, path)
        node.truncate(size)
        return 0

    def statfs(self, _path: str) -> dict[str, int]:
        return {"f_bsize": 4096, "f_frsize": 4096, "f_namemax": NAME_MAX}

    # ---- directories
    def readdir(self, path: str, _fh: int) -> Iterator[tuple[str, dict[str, int], int]]:
        node = walk(self.root, path)
        if not isinstance(node, Dir):
            raise KernelError(errno.ENOTDIR, path)
        for name in (".", ".."):
            yield name, {"st_mode": node.mode}, 0
        for name in node.names():
            yield name, {"st_mode": self.type_of(node, name)}, 0

    def type_of(self, node: Dir, name: str) -> int:
        if isinstance(node, DynDir) and name not in node.children:
            return node.entry_type
        return node.children[name].mode

    def parent(self, path: str) -> tuple[Dir, str]:
        head, _, name = path.rpartition("/")
        node = walk(self.root, head)
        if not isinstance(node, Dir):
            raise KernelError(errno.ENOTDIR, path)
        return node, name

    def refuse(self, operation: str, path: str) -> KernelError:
        return self.parent(path)[0].refuse(operation)

    def mkdir(self, path: str, _mode: int) -> int:
        with self.kernel.lock:
            node, name = self.parent(path)
            node.mkdir(name)
        return 0

    def rmdir(self, path: str) -> int:
        with self.kernel.lock:
            node, name = self.parent(path)
            node.rmdir(name)
        return 0

    def mknod(self, path: str, _mode: int, _dev: int) -> int:
        raise self.refuse("mknod", path)

    def unlink(self, path: str) -> int:
        raise self.refuse("unlink", path)

    def symlink(self, path: str, _target: str) -> int:
        raise self.refuse("symlink", path)

    def link(self, path: str, _source: str) -> int:
        raise self.refuse("link", path)

    def rename(self, old: str, _new: str) -> int:
        raise self.refuse("rename", old)

    def create(self, path: str, _mode: int, _fi: Any = None) -> int:
        raise self.refuse("create", path)

    # ---- files
    def open(self, path: str, fi: Any) -> int:
        try:
            self.await_release(path)
            opened = self.vfs.open(self.caller(), path, fi.flags)
        except KernelError as e:
            if e.errno == errno.ENOSYS:  # Linux would stop asking, and succeed
                raise AssertionError("the guest cannot open files") from e
            raise
        with self.fh_guard:
            fi.fh = self.next_fh
            self.next_fh += 1
        self.files[fi.fh] = opened
        fi.nonseekable = opened.node.nonseekable
        return 0

    def await_release(self, path: str) -> None:
        """Let another thread finish with a file that was closed a moment ago."""
        node = walk(self.root, path)
        if isinstance(node, File) and node.exclusive:
            deadline = time.monotonic() + RELEASE_DELAY
            while node.busy() and time.monotonic() < deadline:
                time.sleep(RELEASE_DELAY / 10)

    def read(self, _path: str, size: int, offset: int, fi: Any) -> bytes:
        if not fi.lock_owner:  # for the page cache: see LOOKUP_SIZE
            raise KernelError(errno.EINVAL, "no splice here")
        opened = self.files[fi.fh]
        data = opened.vfs.read(self.caller(), opened, size, offset, self.interrupted)
        if len(data) > size:
            raise AssertionError(f"{len(data)} bytes for a read of {size}")
        return data

    def write(self, _path: str, data: bytes, offset: int, fi: Any) -> int:
        caller, opened = self.caller(), self.files[fi.fh]
        in_place = self.writers.pop(caller.pid, None)
        if in_place is not None:
            return in_place(opened.vfs, opened)
        return opened.vfs.write(caller, opened, data, offset, self.interrupted)

    def ioctl(
        self, _path: str, cmd: int, _arg: Any, fi: Any, _flags: int, _data: Any
    ) -> int:
        """EMPTY_WRITE stands for a write that Linux would not pass on; no other."""
        in_place = None
        if cmd == EMPTY_WRITE:
            in_place = self.writers.pop(self.caller().pid, None)
        if in_place is None:
            raise KernelError(errno.ENOTTY, "no such ioctl")
        opened = self.files[fi.fh]
        return in_place(opened.vfs, opened)

    def fsync(self, _path: str, _datasync: int, _fi: Any) -> int:
        raise KernelError(errno.EINVAL, "no fsync here")

    def release(self, _path: str, fi: Any) -> int:
        opened = self.files.pop(fi.fh)
        with self.kernel.lock:
            for poller in [p for p in self.pollers if p[0] is opened]:
                self.pollers.remove(poller)
                self.libfuse.fuse_pollhandle_destroy(ctypes.c_void_p(poller[1]))
        opened.vfs.release(opened)
        return 0

    # ---- poll, which fusepy does not know
    def poll(self, fh: int, pollhandle: int) -> int:
        """The events that are there; wakes pollhandle later if a read would block."""
        opened, waits = self.files[fh], False
        try:
            with self.kernel.lock:
                ready = opened.vfs.poll(opened)
                if not ready and pollhandle:
                    self.pollers.append((opened, pollhandle))
                    waits = True
        finally:
            if pollhandle and not waits:
                self.libfuse.fuse_pollhandle_destroy(ctypes.c_void_p(pollhandle))
        return POLLIN | POLLOUT if ready else 0

    def notify_pollers(self) -> None:
        """Wake those whose file can be read now.  Called under the kernel's lock."""
        waiting = []
        for opened, pollhandle in self.pollers:
            if self.is_over(opened):
                handle = ctypes.c_void_p(pollhandle)
                self.libfuse.fuse_notify_poll(handle)
                self.libfuse.fuse_pollhandle_destroy(handle)
            else:
                waiting.append((opened, pollhandle))
        self.pollers = waiting

    def is_over(self, opened: OpenFile) -> bool:
        """Whether who polls a file need not wait: it can be read, or never will be."""
        try:
            return opened.vfs.poll(opened)
        except KernelError:
            return True


def answer(operation: Callable[..., T], *args: Any) -> T | int:
    """The result of a callback, or its negative errno."""
    try:
        return operation(*args) or 0
    except KernelError as e:
        log.debug("%s: %s", getattr(operation, "__name__", operation), e)
        # Linux drops an answer with an errno of its own (ERESTARTSYS and above)
        return -e.errno if 0 < e.errno < MAX_ERRNO else -errno.EINTR
    except BaseException:
        log.exception("bug in %s", getattr(operation, "__name__", operation))
        return -errno.EIO


class _Libfuse:
    """libfuse as fusepy is to see it: with our loop for its own."""

    def __init__(self, libfuse: Any, loop: Loop, on_end: Callable[[], object]) -> None:
        self._libfuse = libfuse
        self.fuse_main_real = partial(loop.main, on_end)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._libfuse, name)


def _fuse_class(fuse: Any, loop: Loop, on_end: Callable[[], object]) -> Any:
    """fusepy's FUSE with our error handling, our loop and with poll."""
    poll_type = ctypes.CFUNCTYPE(
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.POINTER(fuse.fuse_file_info),
        ctypes.c_void_p,
        ctypes.POINTER(ctypes.c_uint),
    )
    fields = [*fuse.fuse_operations._fields_, ("poll", poll_type)]

    class FuseOperations(ctypes.Structure):
        _fields_ = fields

    class Fuse(fuse.FUSE):  # type: ignore[misc]
        _wrapper = staticmethod(answer)

        def poll(self, _path: bytes, fip: Any, pollhandle: Any, events: Any) -> int:
            events[0] = self.operations("poll", fip.contents.fh, pollhandle or 0)
            return 0

    if not any(name == "poll" for name, *_ in fuse.fuse_operations._fields_):
        fuse.fuse_operations = FuseOperations
    fuse._libfuse = _Libfuse(loop.libfuse, loop, on_end)
    return Fuse


def mount(
    kernel: Kernel,
    root: Dir,
    mountpoint: str,
    on_ready: Callable[[], None] = lambda: None,
    *,
    fsname: str = "kpfs",
    allow_other: bool = False,
    in_order: bool = False,
    writers: MutableMapping[int, InPlace] | None = None,
    booted: Booted | None = None,
) -> None:
    """Mount root and serve it until it is unmounted or a signal ends it.

    in_order: see Loop; writers: see Operations; booted: who has the kernel, if it can
    be started anew.

    To be called in the main thread, with the default actions of SIGTERM, SIGINT and
    SIGHUP: libfuse then takes them and unmounts.  on_ready runs once the mount answers.
    FuseUnavailable: no usable libfuse; RuntimeError: libfuse has said why on stderr.
    """
    fuse = _import_fuse()
    libfuse = getattr(fuse._libfuse, "_libfuse", fuse._libfuse)
    libfuse.fuse_exited.argtypes = [ctypes.c_void_p]
    loop = Loop(libfuse, in_order=in_order)
    operations = Operations(kernel, root, libfuse, loop, on_ready, writers)
    if booted is not None:
        booted.follow(operations.follow)
    _fuse_class(fuse, loop, operations.end)(
        operations,
        os.fsencode(mountpoint).decode("latin-1"),
        raw_fi=True,
        encoding="latin-1",  # a character is a byte, and no path is wrong
        foreground=True,
        fsname=fsname,
        subtype="kpfs",
        direct_io=True,
        atomic_o_trunc=True,
        default_permissions=True,
        hard_remove=True,
        attr_timeout=0,
        entry_timeout=0,
        allow_other=allow_other,
    )
