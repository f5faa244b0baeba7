# SPDX-License-Identifier: GPL-2.0-or-later
"""What a command inside a guest finds as its files.

The host's files come by FUSE at HOST, and the modules of the kernel's package at
PACKAGE; an overlay whose upper layer is in the guest's memory lies over them at NEW,
and in that what the guest has of its own.  ALL is the overlay once more, without those.
"""

from __future__ import annotations

import errno
import mmap
import os
from typing import Any, NamedTuple

from kpfs.linux.board.board import PAGE_SIZE
from kpfs.linux.inside import wire
from kpfs.linux.inside.files import Files
from kpfs.linux.inside.hostfiles import HostFiles
from kpfs.linux.inside.loop import CallError, Loop, Worker
from kpfs.linux.inside.packagefiles import PackageFiles
from kpfs.linux.running import syscalls as nr
from kpfs.linux.running.machine import Batch, Op

HOST, PACKAGE = "/host", "/package"
UPPER, NEW, ALL = "/upper", "/new", "/all"
_PLAIN = nr.MS_NOSUID | nr.MS_NODEV | nr.MS_NOEXEC
# type, where below NEW, flags, options; what the kernel lacks is left out
MOUNTS = (
    ("proc", "/proc", _PLAIN, ""),
    ("sysfs", "/sys", _PLAIN, ""),
    ("devtmpfs", "/dev", nr.MS_NOSUID, ""),
    ("devpts", "/dev/pts", nr.MS_NOSUID | nr.MS_NOEXEC, "mode=620,ptmxmode=666"),
    ("tmpfs", "/dev/shm", nr.MS_NOSUID | nr.MS_NODEV, "mode=1777"),
    ("mqueue", "/dev/mqueue", _PLAIN, ""),
    ("tmpfs", "/tmp", nr.MS_NOSUID | nr.MS_NODEV, "mode=1777"),
    ("debugfs", "/sys/kernel/debug", _PLAIN, "mode=700"),
    ("tracefs", "/sys/kernel/tracing", _PLAIN, "mode=700"),
    ("bpf", "/sys/fs/bpf", _PLAIN, "mode=700"),
    ("cgroup2", "/sys/fs/cgroup", _PLAIN, ""),
)
OWN = ("/proc", "/sys", "/dev", "/tmp")  # nothing of the host's is there
LINKS = (
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
)
MODULES = ["fuse", "overlay"]
BUFFER = wire.MAX_IO + PAGE_SIZE  # bytes of the longest request and reply
_MAP_LOCKED = 0x2000


class Buffer:
    """Memory of all workers that the kernel can pin, which the region is not."""

    def __init__(self, worker: Worker, address: int) -> None:
        self.address = address
        self._board = worker.board
        self._ram = memoryview(self._board.ram)

    def views(self, at: int, size: int) -> list[memoryview]:
        """That part of it, page by page.

        Context: the task at its pause is one of the agent's.
        """
        views = []
        while size > 0:
            start = self._board.translate(self.address + at)
            length = min(size, PAGE_SIZE - start % PAGE_SIZE)
            views.append(self._ram[start : start + length])
            at, size = at + length, size - length
        return views

    def put(self, at: int, data: bytes) -> None:
        for view in self.views(at, len(data)):
            view[:] = data[: len(view)]
            data = data[len(view) :]


def allocate(worker: Worker, size: int) -> int:
    """The address of memory that no other worker uses."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_LOCKED
    access = mmap.PROT_READ | mmap.PROT_WRITE
    return worker.call(Op(nr.MMAP, (0, size, access, flags, -1, 0)))[0]


class Ends(NamedTuple):
    """What a file server has in the guest."""

    device: int  # a descriptor of /dev/fuse
    buffer: int  # the address of BUFFER bytes


class FileServer:
    """A worker that hands what the guest asks of /dev/fuse to those who answer."""

    def __init__(self, worker: Worker, files: Files[Any], ends: Ends) -> None:
        self._worker = worker
        self._files = files
        self._ends = ends
        self._buffer = Buffer(worker, ends.buffer)
        self._read = Op(nr.READ, (ends.device, ends.buffer, BUFFER))
        self._asked = 0  # operations of the request that is on its way

    @classmethod
    def mounted(cls, worker: Worker, files: Files[Any], path: str) -> FileServer:
        """Mount files at a directory, which is made, and serve them."""
        make_directories(worker, path)
        device = worker.call(Op(nr.OPEN, (b"/dev/fuse\0", os.O_RDWR | os.O_CLOEXEC)))[0]
        options = (
            f"fd={device},rootmode=40000,user_id=0,group_id=0,"
            "allow_other,default_permissions"
        )
        mount(worker, "kpfs", path, "fuse", nr.MS_NODEV, options)
        server = cls(worker, files, Ends(device, allocate(worker, BUFFER)))
        server._next(0)
        return server

    @classmethod
    def adopted(
        cls, loop: Loop, files: Files[Any], facts: dict[str, int]
    ) -> FileServer:
        """Go on with what packed() tells of."""
        worker = loop.adopt(facts["slot"], facts["pid"])
        server = cls(worker, files, Ends(facts["device"], facts["buffer"]))
        server._asked = facts["asked"]
        loop.expect(worker.slot, server._serve)
        return server

    def packed(self) -> dict[str, int]:
        """As JSON has it; a request is on its way."""
        own = {"slot": self._worker.slot, "pid": self._worker.pid}
        return own | self._ends._asdict() | {"asked": self._asked}

    def _next(self, size: int) -> None:
        """Give a reply of that size, if it is one, and wait for the next request."""
        ops = [self._read]
        if size:
            ends = self._ends
            ops.insert(0, Op(nr.WRITE, (ends.device, ends.buffer, size)))
        batch = Batch(ops)
        self._asked = batch.count
        self._worker.restart(batch.ops, batch.count, self._serve)

    def _serve(self) -> None:
        size = self._worker.results(self._asked)[-1]
        if size == -errno.ENODEV:
            return  # unmounted
        if size < 0:
            self._next(0)
            return
        request = b"".join(self._buffer.views(0, size))
        self._next(self._files.answer(request, self._buffer))


def mount(
    worker: Worker, source: str, target: str, kind: str, flags: int = 0, data: str = ""
) -> None:
    """mount(2); CallError."""
    strings = [text.encode() + b"\0" for text in (source, target, kind, data)]
    worker.call(Op(nr.MOUNT, (*strings[:3], flags, strings[3])))


def bind(worker: Worker, source: str, target: str) -> None:
    """Have the directory source be at target too, which is made if need be."""
    make_directories(worker, target)
    mount(worker, source, target, "none", nr.MS_BIND)


def make_directories(worker: Worker, path: str) -> None:
    """``mkdir -p``."""
    parts = path.strip("/").split("/")
    for count in range(1, len(parts) + 1):
        name = "/" + "/".join(parts[:count])
        worker.attempt(Op(nr.MKDIR, (os.fsencode(name) + b"\0", 0o755)))


class Served(NamedTuple):
    """What the file servers of a guest answer from."""

    host: HostFiles
    package: PackageFiles


class Built(NamedTuple):
    """What serves a guest that has its mounts."""

    worker: Worker  # from which commands are to be forked
    host: FileServer
    package: FileServer

    def packed(self) -> dict[str, Any]:
        """As JSON has it."""
        own = {"slot": self.worker.slot, "pid": self.worker.pid}
        servers = {"host": self.host.packed(), "package": self.package.packed()}
        return {"worker": own, **servers}


def adopt(loop: Loop, served: Served, facts: dict[str, Any]) -> Built:
    """Go on with what packed() tells of."""
    host = FileServer.adopted(loop, served.host, facts["host"])
    package = FileServer.adopted(loop, served.package, facts["package"])
    return Built(loop.adopt(**facts["worker"]), host, package)


def fits_host() -> bool:
    """Whether the host has directories where the guest has mounted its own."""
    return all(os.path.isdir(path) and not os.path.islink(path) for path in OWN)


def build(loop: Loop, served: Served, folder: str) -> Built:
    """Mount all of it, with modules of the kernel in a folder."""
    from kpfs.linux.inside.modules import Modules

    Modules(folder).load(loop.agent, MODULES)
    for path in (UPPER, NEW, ALL):
        make_directories(loop.agent, path)
    host = FileServer.mounted(loop.agent.fork("kpfs-files"), served.host, HOST)
    package = loop.agent.fork("kpfs-package")
    package_server = FileServer.mounted(package, served.package, PACKAGE)
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
    return Built(worker, host, package_server)


def show_host_directory(worker: Worker, path: str, *, writable: bool = False) -> None:
    """Have a directory of the host be where it is, among what the guest has itself.

    writable: what is changed there is changed on the host.
    """
    bind(worker, (HOST if writable else ALL) + path, NEW + path)


def is_hidden(path: str) -> bool:
    """Whether the guest has its own there."""
    return path.startswith(tuple(f"{own}/" for own in OWN))


def enter(worker: Worker) -> None:
    """Let the worker's root, and that of those whom it forks, be NEW."""
    worker.call(Op(nr.CHDIR, (NEW.encode() + b"\0",)))
    mount(worker, ".", "/", "none", nr.MS_MOVE)
    worker.call(Op(nr.CHROOT, (b".\0",)), Op(nr.CHDIR, (b"/\0",)))
