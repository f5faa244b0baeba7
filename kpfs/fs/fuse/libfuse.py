# SPDX-License-Identifier: GPL-2.0-or-later
"""Mount a tree by libfuse, through fusepy: the second transport.

libfuse mounts, takes requests apart, keeps paths for the numbers of entries, and writes
the answers.  So each transport is a test of the other.  Only the requests are received
by the same FuseLoop.  libfuse's own loop does not say whether Linux looks up a name or
asks for attributes, which decides the size of a file (see kpfs.fs.fuse.ops), lets a
close() take effect after what followed it, and has Python make a thread state for each
request.

fusepy works with libfuse 2.  Its heir mfusepy, with libfuse 3 or 2, is used in its
place if it is installed.  Importing this module raises SetupError where both packages,
or the library, are missing.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

from kpfs.base import fuse_wire as wire
from kpfs.base.errors import KernelError, SetupError
from kpfs.base.fuse_wire import Opcode, SetattrRequest
from kpfs.base.log import Log
from kpfs.base.signals import ENDING
from kpfs.base.syscall_numbers import UTIME_OMIT
from kpfs.base.units import NAME_MAX
from kpfs.fs.fuse import splices
from kpfs.fs.fuse.loop import Answer, FuseLoop, Request, current
from kpfs.fs.fuse.openflags import follow_flags, guest_flags
from kpfs.fs.fuse.ops import BLOCK_SIZE, MAX_BACKGROUND, OPEN_SIZE, host_errno
from kpfs.fs.seqfile import MAX_WRITE
from kpfs.fs.tree import E, F, Tree
from kpfs.host.fusemount import SUBTYPE

log = Log(__name__)

LIBFUSE_2 = ("libfuse.so.2",)
LIBFUSE_3 = ("libfuse3.so.4", "libfuse3.so.3")
UTIME_NOW = (1 << 30) - 1


def _load() -> Any:
    """Import mfusepy or fusepy, with a libfuse that it can use."""
    heir = find_spec("mfusepy") is not None
    named = os.environ.get("FUSE_LIBRARY_PATH")
    for name in (named,) if named else LIBFUSE_3 * heir + LIBFUSE_2:
        with contextlib.suppress(OSError):
            if ctypes.CDLL(name).fuse_version() < 30 or heir:
                # without it they ask ldconfig and gcc, which takes 40 ms
                os.environ["FUSE_LIBRARY_PATH"] = name
                break
    else:
        raise SetupError(
            "fusepy needs libfuse 2",
            "apt install libfuse2 (from Debian 13 on libfuse2t64)",
        )
    try:
        if heir:
            import mfusepy as module
        else:
            import fuse as module
    except ImportError:
        module = None
    if not hasattr(module, "_libfuse"):  # another package has a module fuse as well
        raise SetupError("the Python package fusepy is missing", "pip install fusepy")
    return module


fuse: Any = _load()
libfuse = fuse._libfuse
Pointer = ctypes.c_void_p
# functions that return one
POINTERS = "fuse_setup", "fuse_new", "fuse_get_session", "fuse_session_next_chan"
IS_2 = libfuse.fuse_version() < 30


def version() -> str:
    """Return the version of libfuse."""
    number = libfuse.fuse_version()  # from 3.10 on with three digits
    return ".".join(map(str, divmod(number, 10 if number < 100 else 100)))


class Arguments(ctypes.Structure):
    """struct fuse_args"""

    _fields_ = (
        ("argc", ctypes.c_int),
        ("argv", ctypes.POINTER(ctypes.c_char_p)),
        ("allocated", ctypes.c_int),
    )


class FuseBuf(ctypes.Structure):
    """struct fuse_buf"""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("flags", ctypes.c_int),
        ("mem", ctypes.c_char_p),
        ("fd", ctypes.c_int),
        ("pos", ctypes.c_longlong),
        ("mem_size", ctypes.c_size_t),  # since 3.17
    )


class FusepyOperations(fuse.Operations):  # type: ignore[misc]
    """The operations that fusepy calls by name, over a Tree.

    Each attribute with the name of an operation is taken for it.  Those that are None
    are answered ENOSYS, and Linux does not ask again.
    """

    use_ns = True
    # no path is needed where a file is open: else libfuse locks it while a reader waits
    flag_nullpath_ok = flag_nopath = flag_utime_omit_ok = 1
    access = bmap = flush = fsyncdir = lock = None
    getxattr = removexattr = setxattr = None

    def __init__(self, tree: Tree[E, F], notify: Callable[[int, bytes], object]):
        """notify: tells Linux something, by code and contents."""
        self.tree = tree
        self.notify = notify
        self.handles = itertools.count(1)
        self.files: dict[int, tuple[Any, Any]] = {}  # the entry, and the open file
        self.folders: dict[int, Any] = {}
        self.ids = os.getuid(), os.getgid()

    def listxattr(self, _path: str) -> list[str]:
        return []

    # ---- what Linux is told without asking: nothing, as it keeps nothing
    def replaced(self) -> None:
        """See Listener."""

    def directories_changed(self) -> None:
        """See Listener."""

    # ---- names and attributes
    def entry(self, path: str) -> Any:
        """Return the entry at a path, by way of all directories above it."""
        found = self.tree.root
        for name in filter(None, path.split("/")):
            key = self.tree.look_up(found, name)
            found = self.tree.entry(found, name, key)
        return found

    def place(self, path: str) -> tuple[Any, str]:
        """Return the directory of a path, and the name in it."""
        folder, _, name = path.rpartition("/")
        return self.entry(folder), name

    def getattr(self, path: str, fi: Any = None) -> dict[str, int]:
        request = current()
        asks = request.opcode == Opcode.GETATTR
        entry, file = self.files[fi.fh] if fi else (self.entry(path), None)
        if asks and file is not None and not file.constant:  # lseek(SEEK_END) alone
            found = self.tree.seek_end(request.caller, entry, file)
        else:
            found = self.tree.attributes(request.pid, entry)
        size = found.size
        if found.is_file and not found.constant and file is None:
            if asks:  # Linux passes the size on, and does not keep it
                what = wire.INVAL_INODE.pack(request.nodeid, -1, 0)
                self.notify(wire.NOTIFY_INVAL_INODE, what)
            else:
                size = OPEN_SIZE
        return {
            "st_mode": found.mode,
            "st_nlink": found.nlink,
            "st_uid": self.ids[0] if found.uid is None else found.uid,
            "st_gid": self.ids[1] if found.gid is None else found.gid,
            "st_size": size,
            "st_blksize": found.blksize,
            "st_atime": found.atime,
            "st_mtime": found.mtime,
            "st_ctime": found.ctime,
        }

    def change(self, path: str, asked: SetattrRequest) -> None:
        request = current()
        fh = SetattrRequest.parse(request.body).fh  # mfusepy does not pass it on
        entry, file = (self.entry(path), None) if fh is None else self.files[fh]
        self.tree.set_attributes(request.caller, entry, file, asked)

    def chmod(self, path: str, mode: int) -> None:
        self.change(path, SetattrRequest(mode=mode))

    def chown(self, path: str, uid: int, gid: int) -> None:
        ids = (None if number == -1 else number for number in (uid, gid))
        self.change(path, SetattrRequest(None, None, *ids))

    def truncate(self, path: str, size: int, _fi: Any = None) -> None:
        self.change(path, SetattrRequest(size=size))

    def utimens(self, path: str, times: tuple[int, int]) -> None:
        meant = {UTIME_NOW: time.time_ns(), UTIME_OMIT: None}
        atime, mtime = (meant.get(value, value) for value in times)
        self.change(path, SetattrRequest(atime=atime, mtime=mtime))

    def readlink(self, path: str) -> str:
        target = self.tree.read_link(current().pid, self.entry(path))
        return target.decode("latin-1")

    def statfs(self, _path: str) -> dict[str, int]:
        return {"f_bsize": BLOCK_SIZE, "f_frsize": BLOCK_SIZE, "f_namemax": NAME_MAX}

    # ---- directories
    def opendir(self, path: str) -> int:
        fh = next(self.handles)
        self.folders[fh] = self.entry(path)
        return fh

    def readdir(self, _path: str, fh: int) -> list[tuple[str, dict[str, int], int]]:
        found = self.tree.entries(current().pid, self.folders[fh])
        return [(name, {"st_mode": mode}, 0) for name, mode in found]

    def releasedir(self, _path: str, fh: int) -> None:
        del self.folders[fh]

    def mkdir(self, path: str, mode: int) -> None:
        self.tree.mkdir(current().caller, *self.place(path), mode)

    def rmdir(self, path: str) -> None:
        self.tree.rmdir(current().caller, *self.place(path))

    def mknod(self, path: str, mode: int, device: int) -> None:
        self.tree.mknod(current().caller, *self.place(path), mode, device)

    def unlink(self, path: str) -> None:
        self.tree.unlink(current().caller, *self.place(path))

    def symlink(self, path: str, target: str) -> None:
        words = target.encode("latin-1")
        self.tree.symlink(current().caller, *self.place(path), words)

    def link(self, path: str, old: str) -> None:
        self.tree.link(current().caller, *self.place(path), self.entry(old))

    def rename(self, old: str, new: str) -> None:
        self.tree.rename(current().caller, *self.place(old), *self.place(new))

    # ---- files
    def create(self, path: str, mode: int, fi: Any) -> None:
        flags = guest_flags(fi.flags)
        where = self.place(path)
        file = self.tree.create(current().caller, *where, flags, mode & 0o7777)
        self.note_open(fi, self.entry(path), file)

    def open(self, path: str, fi: Any) -> None:
        entry = self.entry(path)
        file = self.tree.open(current().caller, entry, guest_flags(fi.flags))
        self.note_open(fi, entry, file)

    def note_open(self, fi: Any, entry: Any, file: Any) -> None:
        """Give an open file a number."""
        fi.fh = next(self.handles)
        self.files[fi.fh] = entry, file
        fi.direct_io, fi.nonseekable = 1, file.nonseekable
        fi.parallel_direct_writes = file.sleeps  # libfuse before 3.15 has no such field

    def read(self, _path: str, _size: int, _offset: int, fi: Any) -> bytes:
        request, file = current(), self.files[fi.fh][1]
        asked = wire.parse_read(request.body)
        follow_flags(self.tree, request, file, asked)
        return splices.read(self.tree, request, file, asked)

    def write(self, _path: str, _data: bytes, _offset: int, fi: Any) -> int:
        request, file = current(), self.files[fi.fh][1]
        asked = wire.WriteRequest.parse(request.body)
        follow_flags(self.tree, request, file, asked)
        return splices.write(self.tree, request, file, asked)

    def poll(self, _path: str, fi: Any, handle: Any, events: Any) -> None:
        """Answer which events are there; if none is, notify Linux later."""
        if handle:
            libfuse.fuse_pollhandle_destroy(ctypes.c_void_p(handle))
        request = current()
        asked = wire.parse_poll(request.body)

        def wake() -> None:
            self.notify(wire.NOTIFY_POLL, wire.FH.pack(asked.handle))

        later = wake if asked.flags & wire.POLL_SCHEDULE_NOTIFY else None
        file = self.files[fi.fh][1]
        events[0] = self.tree.poll(request.caller, file, asked.events, later)

    def ioctl(self, fi: Any) -> int:
        request, file = current(), self.files[fi.fh][1]
        _, command, argument = wire.parse_ioctl(request.body)
        return self.tree.ioctl(request.caller, file, command, argument)

    def fsync(self, _path: str, _data: int, _fi: Any) -> None:
        raise KernelError(errno.EINVAL, "no fsync here")

    def release(self, _path: str, fi: Any) -> None:
        self.tree.release(self.files.pop(fi.fh)[1])


def answer(operation: Callable[..., Any], *arguments: Any) -> Any:
    """Return what libfuse is told: the result of an operation, or -errno."""
    try:
        return operation(*arguments) or 0
    except BaseException as error:
        name = getattr(operation, "__name__", "an operation")
        # after ENOSYS Linux would not ask again
        if isinstance(error, KernelError) and error.errno != errno.ENOSYS:
            log.debug("%s: %s", name, error)
            return -host_errno(error)
        log.exception("bug in %s", name)
        return -errno.EIO


class Fuse(fuse.FUSE):  # type: ignore[misc]
    """fusepy's mount, with our errors.

    fusepy leaves poll out, and expects a path for ioctl.
    """

    _wrapper = staticmethod(answer)

    def ioctl(
        self, _path: bytes, _command: int, _argument: Any, fip: Any, *_: Any
    ) -> int:
        return int(self.operations.ioctl(fip.contents))

    def poll(self, path: bytes, fip: Any, handle: Any, events: Any) -> None:
        self.operations.poll(path, fip.contents, handle, events)

    def init_fuse_3(self, connection: Any, config: Any) -> None:
        """Set what are options with libfuse 2."""
        super().init_fuse_3(connection, config)
        connection.contents.max_write = MAX_WRITE
        connection.contents.max_background = MAX_BACKGROUND


def _with_poll() -> Any:
    """Return struct fuse_operations of fusepy with one more field."""
    shape = ctypes.CFUNCTYPE(
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.POINTER(fuse.fuse_file_info),
        ctypes.c_void_p,
        ctypes.POINTER(ctypes.c_uint),
    )
    fields = [*fuse.fuse_operations._fields_, ("poll", shape)]
    return type("fuse_operations", (ctypes.Structure,), {"_fields_": fields})


class LibfuseMount:
    """A mount by libfuse, and its service of requests that others receive."""

    def __init__(self, argc: int, argv: Any, operations: Any, size: int) -> None:
        """argv: as of a program, with the mount point last.  SetupError."""
        for name in POINTERS:
            with contextlib.suppress(AttributeError):  # the other version's
                getattr(libfuse, name).restype = Pointer
        methods = operations, ctypes.c_size_t(size)
        with _told_by_libfuse():
            if IS_2:
                unused = ctypes.byref(Pointer()), ctypes.byref(ctypes.c_int())
                made = Pointer(libfuse.fuse_setup(argc, argv, *methods, *unused, None))
            else:
                words = ctypes.cast(argv, ctypes.POINTER(ctypes.c_char_p))
                arguments = ctypes.byref(Arguments(argc - 1, words))
                made = Pointer(libfuse.fuse_new(arguments, *methods, None))
                if made and libfuse.fuse_mount(made, argv[argc - 1]):
                    made = Pointer()
            if not made:
                raise SetupError("libfuse cannot mount")
        self._session = Pointer(libfuse.fuse_get_session(made))
        if IS_2:
            channel = Pointer(libfuse.fuse_session_next_chan(self._session, None))
            self._channel: tuple[Pointer, ...] = (channel,)
            self.device = libfuse.fuse_chan_fd(channel)
        else:
            self._channel = ()
            self.device = libfuse.fuse_session_fd(self._session)

    def serve(self, request: Request) -> None:
        """Have libfuse answer a request."""
        length = wire.HEADER.size + len(request.body)
        what = request.opcode, request.unique, request.nodeid
        ids = request.uid, request.gid, request.pid
        header = wire.HEADER.pack(length, *what, *ids)
        buffer = ctypes.byref(FuseBuf(length, 0, header + request.body, -1))
        libfuse.fuse_session_process_buf(self._session, buffer, *self._channel)


@contextlib.contextmanager
def _told_by_libfuse() -> Iterator[None]:
    """Make the last line that libfuse prints on stderr the reason of a SetupError."""
    said, stderr = os.memfd_create("stderr"), os.dup(2)
    os.dup2(said, 2)
    try:
        yield
    except SetupError:
        lines = os.pread(said, 1 << 16, 0).decode(errors="replace").splitlines()
        raise SetupError(lines[-1] if lines else "libfuse cannot mount") from None
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(said)


def mount(
    tree: Tree[E, F],
    mountpoint: str,
    on_ready: Callable[[], None] = lambda: None,
    *,
    fsname: str = "kpfs",
    allow_other: bool = False,
) -> str:
    """Mount a tree and serve it to its end, as kpfs.fs.fuse.server.mount() does."""
    place = os.path.realpath(mountpoint)
    why = ""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)

    def main(argc: int, argv: Any, methods: Any, size: int, _data: object) -> int:
        nonlocal why
        session = LibfuseMount(argc, argv, methods, size)

        def serve(request: Request) -> Answer | None:
            session.serve(request)
            if request.opcode == Opcode.INIT:
                tree.start(operations)
                on_ready()
            return None

        loop = loops[0] = FuseLoop(session.device, place, serve, tree.lock)
        why = loop.main(mask)
        return 0

    loops: list[FuseLoop] = [None]  # type: ignore[list-item]
    operations = FusepyOperations(tree, lambda *what: loops[0].notify(*what))
    # the functions that fusepy and mfusepy call with what they have prepared
    libfuse.fuse_main_real = fuse.fuse_main_real = main
    options: dict[str, object] = {"allow_other": allow_other}
    if IS_2:
        options |= {"big_writes": True, "atomic_o_trunc": True}
        options |= {"max_write": MAX_WRITE, "max_background": MAX_BACKGROUND}
        options["foreground"] = True
    if not hasattr(fuse.fuse_operations, "poll"):
        fuse.fuse_operations = _with_poll()
    try:
        Fuse(
            operations,
            os.fsencode(place).decode("latin-1"),
            raw_fi=True,
            encoding="latin-1",  # a character is a byte, and no name is wrong
            fsname=fsname,
            subtype=SUBTYPE,
            default_permissions=True,
            hard_remove=True,
            attr_timeout=0,
            entry_timeout=0,
            **options,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return why
