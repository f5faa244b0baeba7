# SPDX-License-Identifier: GPL-2.0-or-later
"""Build the file system that a command inside a kernel sees.

The host's files come by FUSE at HOST, and the modules of the kernel's package at
PACKAGE. An overlay at NEW lies over both; its upper layer is in the kernel's memory.
The kernel's own file systems (proc, sysfs, ...) are mounted in NEW. ALL is the same
overlay without these. Links in the agent's root lead to ALL, for programs that the
kernel starts by itself.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from kpfs.base import abi
from kpfs.base import fuse_wire as wire
from kpfs.base import syscall_numbers as nr
from kpfs.base.units import PAGE_SIZE
from kpfs.linux.board.board import Space
from kpfs.linux.errors import UnfitError
from kpfs.linux.inside import fuse_order
from kpfs.linux.inside.files import MAX_IO, FuseFiles
from kpfs.linux.inside.hostfiles import HostFiles
from kpfs.linux.inside.loop import CallError, Loop, Worker
from kpfs.linux.inside.packagefiles import PackageFiles
from kpfs.linux.inside.texts import read_text
from kpfs.linux.running.machine import MachineDiedError, Op, Result

HOST, PACKAGE = "/host", "/package"
OUTSIDE = "/outside"  # the host's files, if HOST has those of another root
UPPER, NEW, ALL, ALL_OUTSIDE = "/upper", "/new", "/all", "/all-outside"
_PLAIN = nr.MS_NOSUID | nr.MS_NODEV | nr.MS_NOEXEC
# type, path below NEW, flags, options; types that the kernel lacks are left out
MOUNTS = (
    ("proc", "/proc", _PLAIN, ""),
    ("sysfs", "/sys", _PLAIN, ""),
    ("devtmpfs", "/dev", nr.MS_NOSUID, ""),
    ("devpts", "/dev/pts", nr.MS_NOSUID | nr.MS_NOEXEC, "mode=620,ptmxmode=666"),
    ("tmpfs", "/dev/shm", nr.MS_NOSUID | nr.MS_NODEV, "mode=1777"),
    ("mqueue", "/dev/mqueue", _PLAIN, ""),
    ("debugfs", "/sys/kernel/debug", _PLAIN, "mode=700"),
    ("tracefs", "/sys/kernel/tracing", _PLAIN, "mode=700"),
    ("securityfs", "/sys/kernel/security", _PLAIN, ""),
    ("bpf", "/sys/fs/bpf", _PLAIN, "mode=700"),
    ("cgroup2", "/sys/fs/cgroup", _PLAIN, ""),
)
LINKS = (
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
)
# what /sbin/modprobe needs, which the kernel starts with the agent's root as its own
FOR_HELPERS = "bin", "etc", "lib", "lib64", "sbin", "usr"
MODULES = ["fuse", "overlay"]
BUFFER = MAX_IO + PAGE_SIZE  # bytes of the longest request and reply
MAX_MESSAGES = 1000  # that wait until a kernel has forgotten contents
_MAP_LOCKED = 0x2000


class SharedBuffer:
    """Memory that workers share and the kernel can pin, as it cannot the region."""

    def __init__(self, worker: Worker, address: int) -> None:
        self.address = address
        self._board = worker.board
        self._ram = memoryview(self._board.ram)

    def views(self, at: int, size: int) -> list[memoryview]:
        """Return a range by pages.  Context: an agent's task is current.

        Raises EFAULT if the kernel has taken the memory away, or it is not so large.
        """
        views = []
        if not 0 <= size <= BUFFER - at:
            raise OSError(errno.EFAULT, f"{size} bytes")
        while size:
            start = self._board.translate(self.address + at, Space.AGENT)
            if start >= len(self._ram):
                raise OSError(errno.EFAULT, "it is not mapped")
            length = min(size, PAGE_SIZE - start % PAGE_SIZE)
            views.append(self._ram[start : start + length])
            at, size = at + length, size - length
        return views

    def put(self, at: int, data: bytes) -> None:
        for view in self.views(at, len(data)):
            view[:] = data[: len(view)]
            data = data[len(view) :]


def allocate(worker: Worker, size: int) -> int:
    """Return the address of memory that no other worker uses."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_LOCKED
    access = mmap.PROT_READ | mmap.PROT_WRITE
    return worker.call(Op(nr.MMAP, (0, size, access, flags, -1, 0)))[0]


class Ends(NamedTuple):
    """A file server's resources in the kernel."""

    device: int  # a descriptor of /dev/fuse
    buffer: int  # the address of BUFFER bytes


@contextlib.contextmanager
def _damage_is_death() -> Iterator[None]:
    """Turn an OSError into MachineDiedError: a kernel has damaged its file server."""
    try:
        yield
    except OSError as error:
        why = f"it has damaged a file server of kpfs: {error.strerror}"
        raise MachineDiedError(why) from None


class _Forgetter(NamedTuple):
    """A worker that has the kernel forget contents, and its memory for messages."""

    worker: Worker
    buffer: SharedBuffer


class FileServer:
    """A worker that reads requests from /dev/fuse and writes the replies of a Files."""

    def __init__(self, worker: Worker, files: FuseFiles[Any], ends: Ends) -> None:
        self._worker = worker
        self._files = files
        self._ends = ends
        self._buffer = SharedBuffer(worker, ends.buffer)
        self._read = Op(nr.READ, (ends.device, ends.buffer, BUFFER))
        self._asked = 0  # operations of the request that is under way
        self._forgetter: _Forgetter | None = None  # made when it is first needed
        self._messages: deque[bytes] = deque()  # for it to write

    @classmethod
    def mounted(
        cls, worker: Worker, files: FuseFiles[Any], path: str, flags: int = 0
    ) -> FileServer:
        """Mount files at a directory, which is made, and start to serve them."""
        make_directories(worker, path)
        device = worker.call(Op(nr.OPEN, (b"/dev/fuse\0", os.O_RDWR | os.O_CLOEXEC)))[0]
        options = (
            f"fd={device},rootmode=40000,user_id=0,group_id=0,"
            "allow_other,default_permissions"
        )
        mount(worker, "kpfs", path, "fuse", nr.MS_NODEV | flags, options)
        files.serve(worker.arch)
        server = cls(worker, files, Ends(device, allocate(worker, BUFFER)))
        server._next(0)
        return server

    @classmethod
    def adopted(
        cls, loop: Loop, files: FuseFiles[Any], facts: dict[str, int]
    ) -> FileServer:
        """Return a server that goes on from what packed() told."""
        worker = loop.adopt(facts["slot"], facts["pid"])
        files.serve(worker.arch)
        server = cls(worker, files, Ends(facts["device"], facts["buffer"]))
        server._asked = facts["asked"]
        loop.expect(worker.slot, server._serve)
        return server

    def packed(self) -> dict[str, int]:
        """Return its state for JSON. Context: a request is under way."""
        own = {"slot": self._worker.slot, "pid": self._worker.pid}
        return own | self._ends._asdict() | {"asked": self._asked}

    def _next(self, size: int) -> None:
        """Write a reply of that many bytes, if any, and wait for the next request."""
        ops = [self._read]
        if size:
            ends = self._ends
            ops.insert(0, Op(nr.WRITE, (ends.device, ends.buffer, size)))
        self._asked = self._worker.restart(ops, self._serve)

    def _serve(self) -> None:
        size = self._worker.results(self._asked)[-1]
        if size == -errno.ENODEV:
            return  # unmounted
        if size < 0:
            self._next(0)
            return
        with _damage_is_death():
            request = b"".join(self._buffer.views(0, size))
            reply = self._files.answer(request, self._buffer)
            if self._files.stale:
                self._forget_first(reply)
                reply = 0
        self._next(reply)

    def _forget_first(self, reply: int) -> None:
        """Have the kernel forget contents before it gets a reply of so many bytes.

        That waits for reads of these contents, which this server is to answer. So
        another worker tells the kernel, and then writes the reply.
        """
        stale, self._files.stale = self._files.stale, set()
        for node in sorted(stale):
            whole = self._worker.model.struct("Qqq").pack(node, 0, 0)
            message = wire.notification(wire.NOTIFY_INVAL_INODE, whole)
            self._messages.append(fuse_order.head(message, self._worker.model))
        self._messages.append(b"".join(self._buffer.views(0, reply)))
        if len(self._messages) > MAX_MESSAGES:
            raise OSError(errno.ENOBUFS, "it takes no messages")
        if self._forgetter is None:
            buffer = SharedBuffer(self._worker, allocate(self._worker, BUFFER))
            self._forgetter = _Forgetter(self._worker.fork("kpfs-forget"), buffer)
        if not self._forgetter.worker.busy:
            self._write_messages()

    def _write_messages(self) -> None:
        """Write the messages that wait, as many as one request takes, then the rest."""
        assert self._forgetter
        worker, buffer = self._forgetter
        ops: list[Op] = []
        at = 0
        while self._messages and len(ops) < abi.NR_OPS:
            size = len(self._messages[0])
            if at + size > BUFFER:
                break
            with _damage_is_death():
                buffer.put(at, self._messages.popleft())
            ops.append(Op(nr.WRITE, (self._ends.device, buffer.address + at, size)))
            at += size
        if ops:
            worker.start(ops, self._write_messages)


def forget_names(overlay: str, at: int = 0) -> list[Op]:
    """Return operations that have an overlay forget the names that no task uses.

    It expects that nothing changes what lies below it. A name that was absent stays so
    for it, and one that it knows and that is gone is ESTALE. This changes no option.
    at: how many operations come before these.
    """
    path, of_it = os.fsencode(overlay) + b"\0", Result(at)
    return [
        Op(nr.FSPICK, (nr.AT_FDCWD, path, nr.FSPICK_CLOEXEC)),
        Op(nr.FSCONFIG, (of_it, nr.FSCONFIG_CMD_RECONFIGURE, 0, 0, 0)),
        Op(nr.CLOSE, (of_it,)),
    ]


def mount(
    worker: Worker, source: str, target: str, kind: str, flags: int = 0, data: str = ""
) -> None:
    """Call mount(2). Raises CallError."""
    strings = [os.fsencode(text) + b"\0" for text in (source, target, kind, data)]
    worker.call(Op(nr.MOUNT, (*strings[:3], flags, strings[3])))


def bind(worker: Worker, source: str, target: str) -> None:
    """Bind-mount the directory source at target, which is made if it is missing."""
    make_directories(worker, target)
    mount(worker, source, target, "none", nr.MS_BIND)


def make_directories(worker: Worker, path: str) -> None:
    """Make a directory and those above it, as ``mkdir -p``."""
    parts = path.strip("/").split("/")
    for count in range(1, len(parts) + 1):
        name = "/" + "/".join(parts[:count])
        worker.attempt(Op(nr.MKDIR, (os.fsencode(name) + b"\0", 0o755)))


class FileSources(NamedTuple):
    """The sources of a kernel's file servers."""

    host: HostFiles
    package: PackageFiles


class MountedTree(NamedTuple):
    """A mounted tree: the worker and the servers behind it."""

    worker: Worker  # commands are forked from it
    host: FileServer
    package: FileServer

    def packed(self) -> dict[str, Any]:
        """Return its state for JSON."""
        own = {"slot": self.worker.slot, "pid": self.worker.pid}
        servers = {"host": self.host.packed(), "package": self.package.packed()}
        return {"worker": own, **servers}


def adopt(loop: Loop, served: FileSources, facts: dict[str, Any]) -> MountedTree:
    """Return a mounted tree that goes on from what packed() told."""
    host = FileServer.adopted(loop, served.host, facts["host"])
    package = FileServer.adopted(loop, served.package, facts["package"])
    return MountedTree(loop.adopt(**facts["worker"]), host, package)


def build(loop: Loop, served: FileSources, folder: str) -> MountedTree:
    """Load the modules of a kernel's folder and mount everything."""
    from kpfs.linux.running.loading import load_at_start

    load_at_start(folder, lambda ops: loop.agent.request(*ops), MODULES)
    kinds = read_text(loop.agent, "/proc/filesystems")
    lacks = [kind for kind in MODULES if f"\t{kind}\n" not in kinds]
    if lacks:
        raise UnfitError(
            f"this kernel has no {' and no '.join(lacks)}, and no module of that name: "
            "commands cannot run inside it"
        )
    for path in (UPPER, NEW, ALL):
        make_directories(loop.agent, path)
    host = FileServer.mounted(loop.agent.fork("kpfs-files"), served.host, HOST)
    package = loop.agent.fork("kpfs-package")
    # otherwise the kernel asks for a directory's time after each look into it
    package_server = FileServer.mounted(package, served.package, PACKAGE, nr.MS_RDONLY)
    worker = loop.agent.fork("kpfs")
    mount(worker, "tmpfs", UPPER, "tmpfs")
    for path in ("/changes", "/work"):
        make_directories(worker, UPPER + path)
    layers = f"lowerdir={HOST}:{PACKAGE},upperdir={UPPER}/changes,workdir={UPPER}/work"
    mount(worker, "host", NEW, "overlay", 0, layers)
    bind(worker, NEW, ALL)
    for kind, target, flags, data in MOUNTS:
        make_directories(worker, NEW + target)
        try:
            mount(worker, kind, NEW + target, kind, flags, data)
        except CallError as error:
            if error.errno not in (errno.ENODEV, errno.ENOENT):
                raise
    for source, target in LINKS:
        names = source.encode() + b"\0", (NEW + target).encode() + b"\0"
        worker.attempt(Op(nr.SYMLINK, names))
    worker.call(Op(nr.RMDIR, (b"/bin\0",)))  # it came empty with the agent
    for name in FOR_HELPERS:
        names = f"{ALL}/{name}\0".encode(), f"/{name}\0".encode()
        worker.call(Op(nr.SYMLINK, names))
    return MountedTree(worker, host, package_server)


def serve_outside(worker: Worker, files: HostFiles) -> None:
    """Mount the host's files beside those of another root."""
    FileServer.mounted(worker.fork("kpfs-outside"), files, OUTSIDE)


def show_outside(worker: Worker, path: str, *, writable: bool = False) -> None:
    """Show a directory of OUTSIDE at its own path in another root.

    writable: changes below it change the host, else they stay in the kernel.
    """
    if writable:
        bind(worker, OUTSIDE + path, NEW + path)
        return
    upper, work = f"{UPPER}/outside", f"{UPPER}/outside-work"
    for folder in (upper, work, ALL_OUTSIDE):
        make_directories(worker, folder)
    # from there, as its path may contain what options cannot
    worker.call(Op(nr.CHDIR, (os.fsencode(OUTSIDE + path) + b"\0",)))
    layers = f"lowerdir=.,upperdir={upper},workdir={work}"
    mount(worker, "host", ALL_OUTSIDE, "overlay", 0, layers)
    worker.call(Op(nr.CHDIR, (b"/\0",)))
    bind(worker, ALL_OUTSIDE, NEW + path)


def enter(worker: Worker) -> None:
    """Make NEW the root of a worker, and so of all that it forks.

    Mounts are shared, as systemd has them: tools look for that in mountinfo.
    """
    worker.call(Op(nr.CHDIR, (NEW.encode() + b"\0",)))
    mount(worker, ".", "/", "none", nr.MS_MOVE)
    worker.call(Op(nr.CHROOT, (b".\0",)), Op(nr.CHDIR, (b"/\0",)))
    mount(worker, "none", "/", "none", nr.MS_REC | nr.MS_SHARED)
