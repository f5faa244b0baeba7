# SPDX-License-Identifier: GPL-2.0-or-later
"""Serve the host's files to a Linux kernel by FUSE.

Attributes, inode numbers and times are the host's own. Two rules hold whatever a
malicious kernel asks for: only regular files are opened, and only what lies below a
folder given for writing is changed. A path therefore never leads through a symbolic
link; the kernel follows those itself.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from kpfs.base import fuse_wire as wire
from kpfs.base.fuse_wire import (
    DirectoryEntry,
    Opcode,
    RenameRequest,
    SetattrRequest,
    taking,
)
from kpfs.linux.inside.files import (
    EMPTY_STATFS,
    Answers,
    FuseFiles,
    ReplyMemory,
    attributes,
    statfs_answer,
)

VALID = 2  # s for which the kernel may cache names and attributes
MAX_OPEN = 256  # descriptors that are kept open
# The kernel mounts its own file systems here, so the host's directories show as empty.
HIDDEN = frozenset((b"/proc", b"/sys", b"/dev"))
TMP = b"/tmp"  # hidden too, but directories in it can be shown
_READ_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Identity(NamedTuple):
    """The parts of a file's attributes that never change."""

    device: int
    inode: int
    kind: int  # as in st_mode


class HostNode:
    """A file, found by its path, or by its descriptor once it was unlinked."""

    __slots__ = ("fd", "identity", "listing", "lookups", "number", "path", "writable")

    def __init__(self, number: int, path: bytes, identity: Identity) -> None:
        self.number = number
        self.path = path  # b"": unlinked
        self.identity = identity
        self.lookups = 0
        self.fd = -1
        self.writable = False  # whether fd is
        self.listing: list[DirectoryEntry] = []


class HostFiles(FuseFiles[HostNode]):
    """Answers FUSE requests from the host's files. Context: one thread."""

    valid = VALID

    def __init__(self, writable: tuple[str, ...] = ()) -> None:
        """writable: see allow()."""
        self._writable: tuple[bytes, ...] = ()
        self.allow(writable)
        self._uid, self._gid = os.getuid(), os.getgid()
        root = HostNode(wire.ROOT, b"/", _identity(self._lstat(b"/")))
        self._by_path = {b"/": root}
        self._next = wire.ROOT + 1
        self._open: OrderedDict[int, HostNode] = OrderedDict()
        self.reads: list[tuple[str, int, int]] | None = None  # path, offset, size
        answers: Answers[HostNode] = {
            Opcode.SETATTR: taking(SetattrRequest.parse, self._setattr),
            Opcode.READLINK: taking(wire.nothing, self._readlink),
            Opcode.SYMLINK: taking(wire.parse_symlink, self._symlink),
            Opcode.CREATE: taking(wire.parse_create, self._create),
            Opcode.MKNOD: taking(wire.parse_mknod, self._mknod),
            Opcode.MKDIR: taking(wire.parse_mkdir, self._mkdir),
            Opcode.UNLINK: taking(wire.name, self._unlink),
            Opcode.RMDIR: taking(wire.name, self._rmdir),
            Opcode.RENAME: taking(wire.parse_rename, self._rename),
            Opcode.RENAME2: taking(wire.parse_rename2, self._rename),
            Opcode.LINK: taking(wire.parse_link, self._link),
            Opcode.WRITE: taking(wire.WriteRequest.parse, self._write),
            Opcode.FSYNC: taking(wire.nothing, self._fsync),
            Opcode.FSYNCDIR: taking(wire.nothing, self._fsync),
        }
        super().__init__({wire.ROOT: root}, answers)

    def allow(self, writable: tuple[str, ...]) -> None:
        """Allow changes below folders, which are absolute real paths."""
        self._writable += tuple(os.fsencode(path).rstrip(b"/") for path in writable)

    def packed(self) -> list[tuple[int, str, int]]:
        """Return the nodes that the kernel knows: number, path, count of lookups."""
        return [
            (node.number, os.fsdecode(node.path), node.lookups)
            for node in self._nodes.values()
        ]

    def adopt(self, nodes: list[tuple[int, str, int]]) -> None:
        """Serve a kernel that already knows the nodes of packed(). Raises OSError."""
        for number, name, lookups in nodes:
            path = os.fsencode(name)
            node = HostNode(number, path, _identity(self._lstat(path)))
            node.lookups = lookups
            self._nodes[number] = self._by_path[path] = node
            self._next = max(self._next, number + 1)

    # ---- names
    def _lstat(self, path: bytes) -> os.stat_result:
        return os.lstat(path)

    def _statvfs(self, path: bytes | int) -> os.statvfs_result:
        return os.statvfs(path)

    def _entry(self, path: bytes) -> bytes:
        try:
            st = self._lstat(path)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
            return wire.no_entry(self.valid)
        identity = _identity(st)
        node = self._by_path.get(path)
        if node is None or node.identity != identity:
            node = HostNode(self._next, path, identity)
            self._next += 1
            self._nodes[node.number] = self._by_path[path] = node
        node.lookups += 1
        return wire.entry(node.number, self._attr(st), self.valid, self.valid)

    def _attr(self, st: os.stat_result) -> bytes:
        """Pack attributes; the user's files become root's, as by a user namespace."""
        uid = 0 if st.st_uid == self._uid else st.st_uid
        gid = 0 if st.st_gid == self._gid else st.st_gid
        return attributes(st, uid, gid)

    def _forget(self, number: int, lookups: int) -> None:
        node = self._nodes.get(number)
        if node is None or number == wire.ROOT:
            return
        node.lookups -= lookups
        if node.lookups <= 0:
            self._close(node)
            del self._nodes[number]
            if self._by_path.get(node.path) is node:
                del self._by_path[node.path]

    def _lookup(self, node: HostNode, name: bytes) -> bytes:
        return self._entry(_child(node, name))

    def _stat(self, node: HostNode) -> os.stat_result:
        return self._lstat(node.path) if node.path else os.fstat(node.fd)

    def _getattr(self, node: HostNode, _asked: object) -> bytes:
        return wire.attributes_answer(self._attr(self._stat(node)), self.valid)

    def _readlink(self, node: HostNode, _asked: None) -> bytes:
        return os.readlink(node.path)

    def _statfs(self, node: HostNode, _asked: None) -> bytes:
        return statfs_answer(self._statvfs(node.path or node.fd))

    # ---- directories
    def _list(self, node: HostNode, offset: int) -> list[DirectoryEntry]:
        """Return the entries as they were when reading the directory began."""
        if offset and node.listing:
            rows = node.listing
            if offset >= len(rows):  # read to its end
                node.listing = []
            return rows
        folder = stat.S_IFDIR >> 12
        rows = [(b".", node.identity.inode or 1, folder)]
        rows.append((b"..", 1, folder))
        if node.path not in HIDDEN:
            with os.scandir(node.path) as entries:
                rows += sorted((e.name, e.inode() or 1, _kind(e)) for e in entries)
        node.listing = rows
        return rows

    # ---- contents
    def _file(self, node: HostNode, *, write: bool = False) -> int:
        """Return a regular file's descriptor; EACCES for any other type."""
        if node.fd >= 0 and (node.writable or not write):
            if node.path:
                self._open.move_to_end(node.number)
            return node.fd
        self._close(node)
        if not stat.S_ISREG(node.identity.kind):
            raise OSError(errno.EACCES, "not a regular file")
        access = os.O_RDWR if write else os.O_RDONLY
        fd = _open(node.path, access | _READ_FLAGS)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.EACCES, "not a regular file")
        node.fd, node.writable = fd, write
        self._open[node.number] = node
        if len(self._open) > MAX_OPEN:
            self._close(self._open.popitem(last=False)[1])
        return fd

    def _close(self, node: HostNode) -> None:
        self._open.pop(node.number, None)
        if node.fd >= 0:
            os.close(node.fd)
            node.fd = -1

    def _read(self, node: HostNode, asked: wire.ReadRequest, reply: ReplyMemory) -> int:
        views = reply.views(wire.ANSWER.size, asked.size)
        count = os.preadv(self._file(node), views, asked.offset)
        if self.reads is not None and node.path:
            self.reads.append((os.fsdecode(node.path), asked.offset, count))
        return count

    # ---- changes
    def _may_change(self, path: bytes) -> None:
        """Raise EROFS if a path lies below no writable folder."""
        for folder in self._writable:
            if path == folder or path.startswith(folder + b"/"):
                return
        raise OSError(errno.EROFS, "read-only")

    @contextlib.contextmanager
    def _folder(self, path: bytes) -> Iterator[int]:
        """Open the directory of a path that is about to be changed."""
        self._may_change(path)
        fd = _open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | _READ_FLAGS)
        try:
            yield fd
        finally:
            os.close(fd)

    def _write(self, node: HostNode, asked: wire.WriteRequest) -> bytes:
        if node.path:
            self._may_change(node.path)
        fd = self._file(node, write=True)
        return wire.WRITE_ANSWER.pack(os.pwrite(fd, asked.data, asked.offset))

    def _setattr(self, node: HostNode, asked: SetattrRequest) -> bytes:
        _, mode, uid, gid, size, atime, mtime = asked
        if node.path:
            self._may_change(node.path)
            fd = _open(node.path, os.O_PATH | _READ_FLAGS)
        else:
            fd = os.dup(node.fd)
        try:
            target = f"/proc/self/fd/{fd}"  # the file itself
            if mode is not None:
                os.chmod(target, mode & 0o7777)
            if uid is not None or gid is not None:
                owner = -1 if uid is None else uid or self._uid
                group = -1 if gid is None else gid or self._gid
                os.chown(target, owner, group)
            if size is not None:
                os.ftruncate(self._file(node, write=True), size)
            if atime is not None or mtime is not None:
                st = os.fstat(fd)
                access = st.st_atime_ns if atime is None else atime
                change = st.st_mtime_ns if mtime is None else mtime
                os.utime(target, ns=(access, change))
        finally:
            os.close(fd)
        return self._getattr(node, None)

    def _symlink(self, node: HostNode, asked: wire.SymlinkRequest) -> bytes:
        path = _child(node, asked.name)
        with self._folder(path) as folder:
            os.symlink(asked.target, asked.name, dir_fd=folder)
        return self._entry(path)

    def _create(self, node: HostNode, asked: wire.CreateRequest) -> bytes:
        """Create and open a file, which may exist by now though the kernel saw none."""
        flags, mode, umask, name = asked
        path = _child(node, name)
        exclusive = os.O_CREAT | flags & os.O_EXCL | _READ_FLAGS
        with self._folder(path) as folder:
            fd = os.open(name, os.O_RDWR | exclusive, mode & ~umask, dir_fd=folder)
        os.close(fd)
        return self._entry(path) + wire.OPEN_ANSWER.pack(0, 0, 0)

    def _mknod(self, node: HostNode, asked: wire.MknodRequest) -> bytes:
        mode, _, umask, name = asked
        path = _child(node, name)
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise OSError(errno.EPERM, "a device")
        with self._folder(path) as folder:
            os.mknod(name, mode & ~umask, dir_fd=folder)
        _set_mode(path, mode & ~umask)
        return self._entry(path)

    def _mkdir(self, node: HostNode, asked: wire.MkdirRequest) -> bytes:
        mode, umask, name = asked
        path = _child(node, name)
        with self._folder(path) as folder:
            os.mkdir(name, mode & ~umask, dir_fd=folder)
        _set_mode(path, mode & ~umask)
        return self._entry(path)

    def _unlink(self, node: HostNode, name: bytes) -> bytes:
        path = _child(node, name)
        with self._folder(path) as folder:
            self._keep(path)
            os.unlink(name, dir_fd=folder)
        self._lose(path)
        return b""

    def _rmdir(self, node: HostNode, name: bytes) -> bytes:
        path = _child(node, name)
        with self._folder(path) as folder:
            os.rmdir(name, dir_fd=folder)
        self._lose(path)
        return b""

    def _keep(self, path: bytes) -> None:
        """Keep an unlinked file usable for tasks that still have it open."""
        node = self._by_path.get(path)
        if node is None or not stat.S_ISREG(os.lstat(path).st_mode):
            return
        with contextlib.suppress(OSError):
            self._file(node, write=True)
        if node.fd < 0:
            with contextlib.suppress(OSError):
                self._file(node)

    def _lose(self, path: bytes) -> None:
        node = self._by_path.pop(path, None)
        if node is not None:
            self._open.pop(node.number, None)
            node.path = b""

    def _rename(self, node: HostNode, asked: RenameRequest) -> bytes:
        parent, old_name, new_name, flags = asked
        if flags & ~wire.RENAME_NOREPLACE:
            raise OSError(errno.EINVAL, "such a rename")
        old = _child(node, old_name)
        new = _child(self._nodes[parent], new_name)
        if flags and os.path.lexists(new):
            raise OSError(errno.EEXIST, "it is there")
        with self._folder(old) as source, self._folder(new) as target:
            if os.path.lexists(new):
                self._keep(new)
            os.rename(old_name, new_name, src_dir_fd=source, dst_dir_fd=target)
        self._lose(new)
        for path, moved in list(self._by_path.items()):
            if path == old or path.startswith(old + b"/"):
                del self._by_path[path]
                moved.path = new + path[len(old) :]
                self._by_path[moved.path] = moved
        return b""

    def _link(self, node: HostNode, asked: wire.LinkRequest) -> bytes:
        old, name = self._nodes[asked.node].path, asked.name
        new = _child(node, name)
        with self._folder(old) as source, self._folder(new) as target:
            os.link(
                os.path.basename(old),
                name,
                src_dir_fd=source,
                dst_dir_fd=target,
                follow_symlinks=False,
            )
        return self._entry(new)

    def _fsync(self, node: HostNode, _asked: None) -> bytes:
        if node.fd >= 0:
            os.fsync(node.fd)
        return b""


class EmptyFiles(HostFiles):
    """A file tree that is the same on every host: a root with empty mount points.

    The kernel caches nothing of it, so another host's files can take its place later.
    """

    valid = 0

    def _lstat(self, path: bytes) -> os.stat_result:
        if path != b"/" and path not in HIDDEN and path != TMP:
            raise OSError(errno.ENOENT, "not there")
        mode = stat.S_IFDIR | (0o1777 if path == TMP else 0o755)
        times, kind = [0] * 9, [4096, 8, 0]  # blksize, blocks, rdev
        return os.stat_result(
            (mode, 1, 0, 2, self._uid, self._gid, 4096, *times, *kind)
        )

    def _statvfs(self, path: bytes | int) -> os.statvfs_result:
        return EMPTY_STATFS


def _identity(st: os.stat_result) -> Identity:
    return Identity(st.st_dev, st.st_ino, stat.S_IFMT(st.st_mode))


def _child(node: HostNode, name: bytes) -> bytes:
    """Return a name's path; ENOENT below the kernel's own mount points."""
    if not node.path or node.path in HIDDEN:
        raise OSError(errno.ENOENT, "not there")
    if not stat.S_ISDIR(node.identity.kind):
        raise OSError(errno.ENOTDIR, "no directory")
    if name in (b"", b".", b"..") or b"/" in name:
        raise OSError(errno.EINVAL, "no name")
    return node.path + name if node.path == b"/" else node.path + b"/" + name


def _open(path: bytes, flags: int) -> int:
    """Open a path without following symbolic links. Raises ESTALE if there is one."""
    fd = os.open(path, flags | os.O_NOFOLLOW)
    if os.readlink(b"/proc/self/fd/%d" % fd) != path:
        os.close(fd)
        raise OSError(errno.ESTALE, "there is something else now")
    return fd


def _set_mode(path: bytes, mode: int) -> None:
    """Set the mode bits that mkdir(2) or mknod(2) left out."""
    fd = _open(path, os.O_PATH | _READ_FLAGS)
    try:
        os.chmod(f"/proc/self/fd/{fd}", mode & 0o7777)
    finally:
        os.close(fd)


def _kind(entry: os.DirEntry[bytes]) -> int:
    """Return an entry's type as in st_mode if readdir(3) tells it, else 0."""
    if entry.is_symlink():
        return stat.S_IFLNK >> 12
    if entry.is_dir(follow_symlinks=False):
        return stat.S_IFDIR >> 12
    if entry.is_file(follow_symlinks=False):
        return stat.S_IFREG >> 12
    return 0
