# SPDX-License-Identifier: GPL-2.0-or-later
"""Requests of FUSE that no kernel would make, to the file servers of ``--inside``.

A root of a kernel can forge them: headers, sizes, numbers of nodes, names.  Meanwhile
directories of the host are swapped for symbolic links that lead out of them.
"""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import errno
import os
import random
import stat
import struct
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kpfs.base import fuse_wire as wire
from kpfs.base.fuse_wire import Opcode
from kpfs.linux.inside.files import MAX_IO, FuseFiles
from kpfs.linux.inside.hostfiles import HostFiles
from kpfs.linux.inside.packagefiles import PackageFiles
from kpfs.linux.store import kmod
from kpfs.linux.store.modules import ModuleArchive
from tests.campaign.attack import Attack
from tests.campaign.hunt import Hunt, Part
from tests.campaign.seeds import hunt_with
from tests.harness import WrongError

PER_CHILD = 25
PATIENCE = 300
REQUESTS = 400  # to one server
NOBODY = 65534
CLONE_NEWNS = 0x20000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 1 << 14, 1 << 18
RELEASE = "1.2.3"
HUGE: tuple[int, ...] = (
    0,
    1,
    255,
    4096,
    MAX_IO,
    1 << 31,
    (1 << 32) - 1,
    (1 << 63) - 1,
    1 << 63,
)
HUGE = (*HUGE, (1 << 64) - 1)
MODES = (0o644, 0o777, 0o4755, 0o2755, 0o6777, 0o1777, 0)
KINDS: tuple[int, ...] = (
    stat.S_IFREG,
    stat.S_IFDIR,
    stat.S_IFCHR,
    stat.S_IFBLK,
    stat.S_IFIFO,
)
KINDS = (*KINDS, stat.S_IFSOCK, stat.S_IFLNK, 0, 0o170000)
SECRET = b"nobody may see this"


class Buffer:
    """The memory of a reply, as long as the kernel's; it refuses more."""

    def __init__(self) -> None:
        self.data = bytearray(MAX_IO + 4096)

    def views(self, at: int, size: int) -> list[memoryview]:
        if not 0 <= size <= len(self.data) - at:
            raise WrongError(f"a reply of {size} bytes at {at}")
        return [memoryview(self.data)[at : at + size]]

    def put(self, at: int, data: bytes) -> None:
        self.views(at, len(data))[0][:] = data


class Ground:
    """A folder that may be changed, and beside it what must stay as it is."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.rw, self.out = top / "rw", top / "out"
        self.out.mkdir(mode=0o777)
        self.out.chmod(0o777)
        (self.out / "folder").mkdir()
        (self.out / "file").write_text("stays")
        (self.out / "hidden").write_bytes(SECRET)
        (self.out / "hidden").chmod(0)
        (self.out / "folder/file").write_text("stays, too")
        os.mkfifo(self.out / "fifo")
        (self.out / "link").symlink_to("/etc/hostname")
        self.rw.mkdir()
        # what a user does meanwhile is done in this folder, wherever it is by then
        self.fd = os.open(self.rw, os.O_RDONLY | os.O_DIRECTORY)
        os.fchmod(self.fd, 0o777)
        self.fill()
        for name, target in (("out", "../out"), ("self", "/proc/self"), ("up", "..")):
            os.symlink(target, name, dir_fd=self.fd)
        self.before = dict(self.seen())

    def close(self) -> None:
        os.close(self.fd)

    def fill(self) -> None:
        """Make what is in the folder that may be changed."""
        for name in ("a", "c"):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=self.fd)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
            fd = os.open(name, flags, dir_fd=self.fd)
            try:
                os.fchmod(fd, 0o777)
                os.mkdir("b", dir_fd=fd)
                new = os.O_CREAT | os.O_EXCL | os.O_WRONLY
                os.close(os.open("file", new, dir_fd=fd))
            finally:
                os.close(fd)

    def seen(self) -> Iterator[tuple[str, object]]:
        """Yield what may not change: attributes and contents beside the folder."""
        for folder, names, files in os.walk(self.out):
            for name in (".", *names, *files):
                path = os.path.join(folder, name)
                st = os.lstat(path)
                content: object = os.readlink(path) if stat.S_ISLNK(st.st_mode) else b""
                if stat.S_ISREG(st.st_mode) and st.st_mode & 0o400:
                    content = Path(path).read_bytes()
                yield path, (st.st_mode, st.st_uid, st.st_nlink, st.st_mtime, content)
        yield "beside", sorted(set(os.listdir(self.top)) - {"rw", "aside"})

    def swap(self, rng: random.Random) -> None:
        """Do what a user of the host might do meanwhile."""
        place = rng.choice(("a", "c"))
        target = rng.choice((self.out, "/proc/self", "/etc", "..", self.out / "folder"))
        with contextlib.suppress(OSError):
            kind = rng.randrange(4)
            if kind == 0:
                aside = f"{place}{rng.random()}"
                os.rename(place, aside, src_dir_fd=self.fd, dst_dir_fd=self.fd)
                os.symlink(target, place, dir_fd=self.fd)
            elif kind == 1:
                self.rw.rename(self.top / "aside")
                self.rw.symlink_to(target)
            elif kind == 2:
                os.unlink(place, dir_fd=self.fd)
            else:
                if self.rw.is_symlink():
                    self.rw.unlink()
                    (self.top / "aside").rename(self.rw)
                self.fill()


class Asker:
    """Makes requests, most of them with numbers and names that the server knows."""

    def __init__(
        self, files: FuseFiles[Any], rng: random.Random, ground: Ground
    ) -> None:
        self.files, self.rng = files, rng
        self.buffer = Buffer()
        self.nodes = [wire.ROOT]
        self.names = [
            name.encode() for name in ground.top.as_posix().split("/") if name
        ]
        self.names += [b"rw", b"out", b"a", b"b", b"c", b"file", b"hidden", b"folder"]
        self.names += [b"self", b"up", b"link", b"fifo", b"lib", b"modules", b"proc"]
        self.names += [RELEASE.encode(), b"kernel", b"x.ko", b"environ", b"fd", b"new"]
        self.odd = [b"", b".", b"..", b"/", b"a/../../out/file", b"../../../etc/passwd"]
        self.odd += [b"x" * 255, b"x" * 256, b"x" * 4096, b"\xff\xfe", b"/etc/passwd"]
        self.odd += [b"../" * 20 + b"proc/self/environ", b"a\0b", b"out/../file"]

    def walk(self, path: Path) -> None:
        """Look up all names of a path, as a kernel does first."""
        node = wire.ROOT
        for name in path.as_posix().strip("/").split("/"):
            node = self.look_up(node, name.encode()) or wire.ROOT

    def look_up(self, node: int, name: bytes) -> int:
        self.ask(Opcode.LOOKUP, node, name + b"\0")
        found: int = struct.unpack_from("<Q", self.buffer.data, wire.ANSWER.size)[0]
        if self.error == 0 and found:
            self.nodes.append(found)
            return found
        return 0

    def ask(self, opcode: int, node: int, body: bytes) -> None:
        size = wire.HEADER.size + len(body)
        self.send(wire.HEADER.pack(size, opcode, 7, node, 0, 0, 1) + body)

    def send(self, request: bytes) -> None:
        self.last = request
        length = self.files.answer(request, self.buffer)
        self.error = 0
        if length:
            size, error, _ = wire.ANSWER.unpack_from(self.buffer.data)
            if size != length or not -4096 < error <= 0:
                raise WrongError(f"a reply of {size} bytes with the error {error}")
            self.error = error
            if SECRET in bytes(self.buffer.data[:length]) and os.getuid():
                raise WrongError("an unreadable file was read")

    def name(self) -> bytes:
        rng = self.rng
        return rng.choice(self.names if rng.random() < 0.8 else self.odd)

    def xattr(self) -> bytes:
        names = b"user.x", b"security.capability", b"trusted.overlay.opaque", b"."
        return self.rng.choice((*names, self.name()))

    def node(self) -> int:
        rng = self.rng
        return rng.choice(self.nodes if rng.random() < 0.95 else HUGE)

    def one(self) -> None:
        """Make a request of any kind."""
        rng = self.rng
        opcode, make = rng.choice(list(BODIES.items()))
        body = make(self)
        if rng.random() < 0.05:
            body = body[: rng.randrange(len(body) + 1)]
        if rng.random() < 0.05:
            body = rng.randbytes(rng.choice((0, 1, 8, 16, 40, 200)))
        if rng.random() < 0.02:
            self.send(rng.randbytes(rng.choice((0, 1, 39, 40, 41, 100))))
        elif opcode == Opcode.LOOKUP and b"\0" in body:
            self.look_up(self.node(), body.split(b"\0")[0])
        else:
            self.ask(
                opcode if rng.random() < 0.98 else rng.randrange(70), self.node(), body
            )


def _u64(asker: Asker) -> int:
    rng = asker.rng
    return rng.choice(HUGE) if rng.random() < 0.5 else rng.randrange(5000)


def _u32(asker: Asker) -> int:
    return _u64(asker) & 0xFFFFFFFF


def _setattr(asker: Asker) -> bytes:
    rng = asker.rng
    values = [rng.randrange(128), _u64(asker), rng.choice((0, 4, _u64(asker))), 0]
    values += [_u64(asker) - (1 << 63) if rng.random() < 0.3 else 1 for _ in range(3)]
    values += [_u32(asker) for _ in range(3)]
    values += [rng.choice(MODES), rng.choice((0, 1000, 0xFFFFFFFF)), 0]
    values[4:7] = [max(min(v, (1 << 63) - 1), -(1 << 63)) for v in values[4:7]]
    return wire.SETATTR_REQUEST.pack(*values)


def _mode(asker: Asker) -> int:
    return asker.rng.choice(MODES) | asker.rng.choice(KINDS)


BODIES: dict[int, Callable[[Asker], bytes]] = {
    Opcode.LOOKUP: lambda a: a.name() + b"\0",
    Opcode.FORGET: lambda a: wire.FH.pack(a.rng.choice((1, 1, _u64(a)))),
    Opcode.BATCH_FORGET: lambda a: wire.COUNT.pack(_u32(a)) + bytes(32),
    Opcode.GETATTR: lambda a: bytes(16),
    Opcode.SETATTR: _setattr,
    Opcode.READLINK: lambda a: b"",
    Opcode.SYMLINK: lambda a: b"\0".join((a.name(), a.name(), b"")),
    Opcode.MKNOD: lambda a: wire.MKNOD_REQUEST.pack(_mode(a), _u32(a), 0)
    + a.name() + b"\0",
    Opcode.MKDIR: lambda a: wire.MKDIR_REQUEST.pack(_mode(a), 0) + a.name() + b"\0",
    Opcode.UNLINK: lambda a: a.name() + b"\0",
    Opcode.RMDIR: lambda a: a.name() + b"\0",
    Opcode.RENAME: lambda a: wire.FH.pack(a.node())
    + a.name() + b"\0" + a.name() + b"\0",
    Opcode.RENAME2: lambda a: wire.RENAME2_REQUEST.pack(a.node(), a.rng.randrange(5))
    + a.name() + b"\0" + a.name() + b"\0",
    Opcode.LINK: lambda a: wire.FH.pack(a.node()) + a.name() + b"\0",
    Opcode.READ: lambda a: wire.READ_REQUEST.pack(0, _u64(a), _u32(a), 0),
    Opcode.WRITE: lambda a: wire.WRITE_REQUEST.pack(
    0, a.rng.choice((0, 0, 1, *HUGE[6:])), _u32(a), 0) + b"written by the guest",
    Opcode.STATFS: lambda a: b"",
    Opcode.FSYNC: lambda a: bytes(16),
    Opcode.INIT: lambda a: wire.INIT_REQUEST.pack(_u32(a), _u32(a), _u32(a), _u32(a)),
    Opcode.READDIR: lambda a: wire.READ_REQUEST.pack(0, _u64(a), _u32(a), 0),
    Opcode.READDIRPLUS: lambda a: wire.READ_REQUEST.pack(0, _u64(a), _u32(a), 0),
    Opcode.CREATE: lambda a: wire.CREATE_REQUEST.pack(_u32(a), _mode(a), 0)
    + a.name() + b"\0",
    Opcode.INTERRUPT: lambda a: bytes(8),
    Opcode.SETXATTR: lambda a: struct.pack("<2I", _u32(a), a.rng.randrange(4))
    + a.xattr() + b"\0" + a.rng.randbytes(a.rng.choice((0, 20, 4096))),
    Opcode.GETXATTR: lambda a: struct.pack("<2I", _u32(a), 0) + a.xattr() + b"\0",
    Opcode.LISTXATTR: lambda a: struct.pack("<2I", _u32(a), 0),
    Opcode.REMOVEXATTR: lambda a: a.xattr() + b"\0",
}  # fmt: skip


def close_host() -> bool:
    """Give this process a host that it can only read, but for an empty /tmp.

    What a fault of a server would change as root is then nobody's.  False: it may not.
    """
    libc = ctypes.CDLL(None)
    if libc.unshare(CLONE_NEWNS):
        return False
    steps = (
        (b"none", b"/", None, MS_REC | MS_PRIVATE),
        (b"none", b"/tmp", b"tmpfs", 0),
        (b"none", b"/", None, MS_REMOUNT | MS_BIND | MS_RDONLY),
    )
    if any(libc.mount(*step, None) for step in steps):
        return False
    try:
        os.chmod("/etc", stat.S_IMODE(os.stat("/etc").st_mode))
    except OSError as error:
        return error.errno == errno.EROFS
    return False


class FilesAttack(Attack):
    """Asks a server, each time a new one; half of the processes are a user's."""

    def __init__(self, path: Path, at: int) -> None:
        super().__init__(path, at)
        if os.getuid() == 0 and (random.random() < 0.5 or not close_host()):
            for name in ("latin-1", "cp437"):
                codecs.lookup(name)  # a user may not read where Python is
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
        os.umask(0)

    def one(self, rng: random.Random) -> str:
        before = len(os.listdir("/proc/self/fd"))
        kind = rng.choice(("read-only", "writable", "writable", "package"))
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            os.chmod(folder, 0o755)
            ground = Ground(Path(folder))
            try:
                self.attack(kind, rng, ground)
            finally:
                ground.close()
                for place, names, _ in os.walk(folder):
                    for name in names:
                        path = os.path.join(place, name)
                        if not os.path.islink(path):
                            os.chmod(path, 0o700)
        if len(os.listdir("/proc/self/fd")) > before:
            raise WrongError("descriptors are left open")
        return kind + ("" if os.getuid() else " by root")

    def attack(self, kind: str, rng: random.Random, ground: Ground) -> None:
        """Ask a server of that kind, and look at what has changed."""
        done = threading.Event()
        swaps = random.Random(rng.random())

        def swap() -> None:
            while not done.wait(0.001):
                ground.swap(swaps)

        thread = threading.Thread(target=swap)
        before = sorted(map(str, ground.rw.rglob("*")))
        if kind == "package":
            files: FuseFiles[Any] = PackageFiles(self.package(ground.top), RELEASE)
            ground.before = dict(ground.seen())
        else:
            files = HostFiles((str(ground.rw),) if kind == "writable" else ())
        if kind == "writable" and rng.random() < 0.7:
            thread.start()
        try:
            self.ask(files, rng, ground)
        finally:
            done.set()
            if thread.ident:
                thread.join()
        if kind != "writable" and sorted(map(str, ground.rw.rglob("*"))) != before:
            raise WrongError("it has changed without leave")
        after = dict(ground.seen())
        wrong = [
            n for n in after | ground.before if after.get(n) != ground.before.get(n)
        ]
        if wrong:
            raise WrongError(f"what is not to change has changed: {wrong}")

    def package(self, folder: Path) -> str:
        """Make an archive of modules, as one of a stranger's image may be."""
        image = folder / "aside"
        image.mkdir()
        (image / "config").write_text("CONFIG_KPROBES=y\n")
        with zipfile.ZipFile(image / "modules", "w") as archive:
            for name in ("kernel/x.ko", "../../../x.ko", "/etc/x.ko", "modules.order"):
                archive.writestr(name, "text")
        with ModuleArchive(str(image / "modules")) as made:
            made.unpack(str(image / kmod.TREE / "lib/modules" / RELEASE))
        return str(image)

    def ask(self, files: FuseFiles[Any], rng: random.Random, ground: Ground) -> None:
        asker = Asker(files, rng, ground)
        shown = isinstance(files, PackageFiles)
        if shown:
            asker.walk(Path(f"/lib/modules/{RELEASE}/kernel/x.ko"))
        for path in ("rw/a/b", "rw/a/file", "rw/c", "out/folder/file", "out/hidden"):
            if not shown:
                asker.walk(ground.top / path)
        for _ in range(REQUESTS):
            try:
                asker.one()
            except BaseException:
                self.last = repr(asker.last)
                raise
        for node in list(files._nodes):
            files._forget(node, 1 << 62)


def run(hunt: Hunt) -> None:
    hunt_with(FilesAttack, hunt, PER_CHILD, PATIENCE)


PART = Part("file servers", 2_500, 1, run)
