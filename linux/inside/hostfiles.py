# SPDX-License-Identifier: GPL-2.0-or-later
"""Serve the host's files to a Linux kernel by FUSE.

Attributes, inode numbers and times are the host's own. These rules hold whatever a
malicious kernel asks for, and whatever others do to the host's directories meanwhile:

- Only regular files are opened, and none of procfs: it shows this process's own
  descriptors and memory.
- Only what lies below a folder given for writing is changed.
- No step of a path is a symbolic link; the kernel follows those itself. So a path is
  walked from the root, one directory at a time, and its last name is used in the
  directory that was reached.
- No device and no file with set-user-ID or set-group-ID is made: others could use these
  on the host.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import OrderedDict, deque
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
    check_name,
    statfs_answer,
)
from kpfs.linux.inside.request import OWN

VALID = 2  # s for which the kernel may cache names and attributes
MAX_OPEN = 256  # descriptors that are kept open
# The kernel mounts its own file systems here.  These show as empty directories, even if
# a root lacks them or has links there, as debootstrap makes them without privileges.
HIDDEN = frozenset(map(os.fsencode, OWN))
MAX_NODES = 1 << 19  # inodes that a kernel may know at once
SOME = 1000  # directories and files that are looked at in one go
_MOUNTINFO = "/proc/self/mountinfo"
_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = _PLACE | os.O_DIRECTORY
_SET_ID = stat.S_ISUID | stat.S_ISGID


class Stamp(NamedTuple):
    """The attributes of a file that tell whether it has changed."""

    size: int
    mtime: int  # ns
    ctime: int  # ns; a program can set the others back, but not this one


_NEW, _OTHER = Stamp(-1, -1, -1), Stamp(-2, -2, -2)  # a new node; another file now


class Identity(NamedTuple):
    """The parts of a file's attributes that never change."""

    device: int
    inode: int
    kind: int  # as in st_mode


class HostNode:
    """A file, found by its path, or by its descriptor once it was unlinked."""

    __slots__ = (
        *("fd", "identity", "listing", "lookups", "number", "path", "seen", "stamp"),
        *("watched", "writable"),
    )

    def __init__(self, number: int, path: bytes, identity: Identity) -> None:
        self.number = number
        self.path = path  # b"": unlinked
        self.identity = identity
        self.stamp = _NEW  # stamp of what the kernel knows
        self.seen = _NEW  # stamp at the last look
        self.watched = False  # it is looked at
        self.lookups = 0
        self.fd = -1
        self.writable = False  # fd is
        self.listing: list[DirectoryEntry] = []


class HostFiles(FuseFiles[HostNode]):
    """Answers FUSE requests from the host's files. Context: one thread."""

    valid = VALID

    def __init__(self, writable: tuple[str, ...] = (), root: str = "/") -> None:
        """writable: see allow(); root: an absolute real path, whose files are served.

        Paths begin at the root.
        """
        self.root = os.fsencode(root)
        self._writable: tuple[bytes, ...] = ()
        self.allow(writable)
        self._uid, self._gid = os.getuid(), os.getgid()
        self._held: dict[bytes, int] = {}  # directories that a request has opened
        self._hidden = procfs_devices()
        top = HostNode(wire.ROOT, b"/", _identity(self._lstat(b"/")))
        self._let_go()
        self._by_path = {b"/": top}
        self._next = wire.ROOT + 1
        self._open: OrderedDict[int, HostNode] = OrderedDict()
        self._outdated = False  # see outdated()
        # to be looked at, the next one first
        self._watched: deque[HostNode] = deque()
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
        super().__init__({wire.ROOT: top}, answers)

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
            self._add(node)
            self._next = max(self._next, number + 1)
        self._let_go()

    def answer(self, request: bytes, reply: ReplyMemory) -> int:
        try:
            return super().answer(request, reply)
        finally:
            self._let_go()

    # ---- paths
    def _folder(self, path: bytes) -> int:
        """Return a descriptor of a directory, for the rest of this request.

        Raises ESTALE if there is something else by now.
        """
        found = self._held.get(path)
        if found is not None:
            return found
        fd = os.open(self.root, _FOLDER)
        try:
            for name in filter(None, path.split(b"/")):
                below = os.open(name, _FOLDER, dir_fd=fd)
                os.close(fd)
                fd = below
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                raise OSError(errno.ESTALE, "there is something else now") from None
            raise
        self._held[path] = fd
        return fd

    def _let_go(self) -> None:
        """Close the directories of a request."""
        while self._held:
            os.close(self._held.popitem()[1])

    def _name(self, path: bytes) -> tuple[bytes, int]:
        """Return the last name of a path, and a descriptor of its directory."""
        if not path:
            raise OSError(errno.ESTALE, "unlinked")
        return os.path.basename(path) or b".", self._folder(os.path.dirname(path))

    def _reach(self, path: bytes) -> int:
        """Return a descriptor of anything, which is not opened."""
        name, folder = self._name(path)
        return os.open(name, _PLACE, dir_fd=folder)

    def _open_file(self, path: bytes, flags: int) -> int:
        """Open a regular file.

        Nothing else is opened even for a moment: a device may act on it.
        """
        fd = self._reach(path)
        try:
            st = os.fstat(fd)
            if not stat.S_ISREG(st.st_mode) or st.st_dev in self._hidden:
                raise OSError(errno.EACCES, "not a regular file")
            return os.open(_itself(fd), flags | os.O_NONBLOCK | os.O_CLOEXEC)
        finally:
            os.close(fd)

    def _is_hidden(self, node: HostNode) -> bool:
        return node.path in HIDDEN or node.identity.device in self._hidden

    def _child(self, node: HostNode, name: bytes) -> bytes:
        """Return a name's path; ENOENT below the kernel's own mount points."""
        if not node.path or self._is_hidden(node):
            raise OSError(errno.ENOENT, "not there")
        if not stat.S_ISDIR(node.identity.kind):
            raise OSError(errno.ENOTDIR, "no directory")
        check_name(name)
        return node.path + name if node.path == b"/" else node.path + b"/" + name

    def _lstat(self, path: bytes) -> os.stat_result:
        if path in HIDDEN:
            return self._empty_directory()
        name, folder = self._name(path)
        return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def _empty_directory(self) -> os.stat_result:
        mode = stat.S_IFDIR | 0o755
        times, kind = [0] * 9, [4096, 8, 0]  # blksize, blocks, rdev
        return os.stat_result(
            (mode, 1, 0, 2, self._uid, self._gid, 4096, *times, *kind)
        )

    def _statvfs(self, path: bytes) -> os.statvfs_result:
        fd = self._reach(path)
        try:
            return os.fstatvfs(fd)
        finally:
            os.close(fd)

    # ---- names

    def _entry(self, path: bytes) -> bytes:
        try:
            st = self._lstat(path)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
            if node := self._by_path.get(path):
                self._note(node, _OTHER)
            return wire.no_entry(self.valid)
        node = self._by_path.get(path)
        if node is None or not self._follow(node, st):
            if len(self._nodes) >= MAX_NODES:
                raise OSError(errno.ENOMEM, "too many files are known")
            node = HostNode(self._next, path, _identity(st))
            self._next += 1
            self._add(node)
        node.lookups += 1
        self._note(node, _stamp(st))
        return wire.entry(node.number, self._attr(st), self.valid, self.valid)

    def _add(self, node: HostNode) -> None:
        self._nodes[node.number] = self._by_path[node.path] = node
        if stat.S_ISDIR(node.identity.kind) and not self._is_hidden(node):
            self._watch(node)

    def _watch(self, node: HostNode) -> None:
        if not node.watched:
            self._watched.append(node)
        node.watched = True

    def _follow(self, node: HostNode, st: os.stat_result) -> bool:
        """Let a node stand for what has its path now. Return False if it cannot.

        The overlay answers ESTALE for good if a name comes to another node.
        """
        identity = _identity(st)
        if identity == node.identity:
            return True
        if identity.kind != node.identity.kind:
            return False
        self._close(node)
        if node.stamp == _NEW:  # nobody can tell what the kernel knows
            self.stale.add(node.number)
        node.identity, node.listing = identity, []
        return True

    def _note(self, node: HostNode, stamp: Stamp) -> None:
        """Note the stamp that the kernel is told, or _OTHER if the file is no more.

        The kernel itself forgets what it has read when size or mtime has changed.
        What a message has it forget, it also does not learn by the same answer.
        """
        self._see(node, stamp)
        if stamp == _OTHER or stat.S_ISDIR(node.identity.kind):
            return
        if stamp != node.stamp and stamp[:2] == node.stamp[:2]:
            self.stale.add(node.number)
        node.stamp = stamp

    def _see(self, node: HostNode, stamp: Stamp) -> None:
        """Note a file's stamp, and whether the overlay has to forget its names.

        With a name it keeps the file's size, by which the kernel reads modules.
        """
        if stamp != node.seen and node.seen != _NEW:
            has_other_names = stamp == _OTHER or stat.S_ISDIR(node.identity.kind)
            if has_other_names or (node.watched and stamp.size != node.seen.size):
                self._outdated = True
        node.seen = stamp

    def outdated(self) -> bool:
        """Return True if names or sizes may have changed since the last time.

        Looks at some of the directories that the kernel knows, and of the files that
        it has read. Nothing of them is told but this.
        """
        for _ in range(min(len(self._watched), SOME)):
            node = self._watched.popleft()
            if self._nodes.get(node.number) is not node:
                continue
            self._watched.append(node)
            stamp = _OTHER
            with contextlib.suppress(OSError):
                st = os.lstat(os.fsencode(self.root) + node.path)
                if _identity(st) == node.identity:
                    stamp = _stamp(st)
            self._see(node, stamp)
        outdated, self._outdated = self._outdated, False
        return outdated

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
        return self._entry(self._child(node, name))

    def _stat(self, node: HostNode) -> os.stat_result:
        return self._lstat(node.path) if node.path else os.fstat(node.fd)

    def _getattr(self, node: HostNode, _asked: object) -> bytes:
        st = self._stat(node)
        if not node.path or self._follow(node, st):
            self._note(node, _stamp(st))
        return wire.attributes_answer(self._attr(st), self.valid)

    def _readlink(self, node: HostNode, _asked: None) -> bytes:
        name, folder = self._name(node.path)
        return os.readlink(name, dir_fd=folder)

    def _statfs(self, node: HostNode, _asked: None) -> bytes:
        if node.path:
            return statfs_answer(self._statvfs(node.path))
        return statfs_answer(os.fstatvfs(node.fd))

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
        if not self._is_hidden(node):
            self._note_listed(node)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
            fd = os.open(b".", flags, dir_fd=self._folder(node.path))
            try:
                with os.scandir(fd) as entries:
                    found = {
                        os.fsencode(e.name): (e.inode() or 1, _kind(e)) for e in entries
                    }
            finally:
                os.close(fd)
            if node.path == b"/":
                found.update((path[1:], (1, folder)) for path in HIDDEN)
            rows += [(name, *entry) for name, entry in sorted(found.items())]
        node.listing = rows
        return rows

    def _note_listed(self, node: HostNode) -> None:
        if self.paths is not None and node.path:
            self.paths.add(os.path.join(os.fsdecode(node.path), ""))

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
        fd = self._open_file(node.path, os.O_RDWR if write else os.O_RDONLY)
        if write:
            _drop_set_id(fd)
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
        if node.path:
            if not node.watched and not self._is_writable(node.path):
                self._watch(node)  # it lies below the overlay
            self._note_read(os.fsdecode(node.path), asked.offset, count)
        return count

    # ---- changes
    def _may_change(self, path: bytes) -> None:
        """Raise EROFS if a path lies below no writable folder."""
        if not self._is_writable(path):
            raise OSError(errno.EROFS, "read-only")

    def _is_writable(self, path: bytes) -> bool:
        return any(
            path == folder or path.startswith(folder + b"/")
            for folder in self._writable
        )

    def _changed(self, path: bytes) -> int:
        """Return a descriptor of the directory in which a name is to be changed."""
        self._may_change(os.path.dirname(path))
        return self._name(path)[1]

    def _write(self, node: HostNode, asked: wire.WriteRequest) -> bytes:
        if node.path:
            self._may_change(node.path)
        fd = self._file(node, write=True)
        return wire.WRITE_ANSWER.pack(os.pwrite(fd, asked.data, asked.offset))

    def _setattr(self, node: HostNode, asked: SetattrRequest) -> bytes:
        _, mode, uid, gid, size, atime, mtime = asked
        if node.path:
            self._may_change(node.path)
            fd = self._reach(node.path)
        else:
            fd = os.dup(node.fd)
        try:
            target = _itself(fd)
            if mode is not None:
                check_mode(os.fstat(fd).st_mode, mode)
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
        path = self._child(node, asked.name)
        os.symlink(asked.target, asked.name, dir_fd=self._changed(path))
        return self._entry(path)

    def _create(self, node: HostNode, asked: wire.CreateRequest) -> bytes:
        """Create and open a file, which may exist by now though the kernel saw none."""
        flags, mode, umask, name = asked
        path = self._child(node, name)
        check_mode(stat.S_IFREG, mode)
        new = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            os.close(os.open(name, new, mode & ~umask, dir_fd=self._changed(path)))
        except FileExistsError:
            if flags & self.exclusive:
                raise
        return self._entry(path) + wire.OPEN_ANSWER.pack(0, 0, 0)

    def _mknod(self, node: HostNode, asked: wire.MknodRequest) -> bytes:
        mode, _, umask, name = asked
        path = self._child(node, name)
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise OSError(errno.EPERM, "a device")
        check_mode(mode, mode)
        os.mknod(name, mode & ~umask, dir_fd=self._changed(path))
        self._set_mode(path, mode & ~umask)
        return self._entry(path)

    def _mkdir(self, node: HostNode, asked: wire.MkdirRequest) -> bytes:
        mode, umask, name = asked
        path = self._child(node, name)
        os.mkdir(name, mode & ~umask, dir_fd=self._changed(path))
        self._set_mode(path, mode & ~umask)
        return self._entry(path)

    def _set_mode(self, path: bytes, mode: int) -> None:
        """Set the mode bits that mkdir(2) or mknod(2) left out."""
        fd = self._reach(path)
        try:
            os.chmod(_itself(fd), mode & 0o7777)
        finally:
            os.close(fd)

    def _unlink(self, node: HostNode, name: bytes) -> bytes:
        path = self._child(node, name)
        folder = self._changed(path)
        self._keep(path)
        os.unlink(name, dir_fd=folder)
        self._lose(path)
        return b""

    def _rmdir(self, node: HostNode, name: bytes) -> bytes:
        path = self._child(node, name)
        os.rmdir(name, dir_fd=self._changed(path))
        self._lose(path)
        return b""

    def _keep(self, path: bytes) -> None:
        """Keep an unlinked file usable for tasks that still have it open."""
        node = self._by_path.get(path)
        if node is None or not stat.S_ISREG(self._lstat(path).st_mode):
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
        old = self._child(node, old_name)
        new = self._child(self._nodes[parent], new_name)
        source, target = self._changed(old), self._changed(new)
        with contextlib.suppress(FileNotFoundError):
            self._lstat(new)
            if flags:
                raise OSError(errno.EEXIST, "it is there")
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
        new = self._child(node, name)
        os.link(
            os.path.basename(old),
            name,
            src_dir_fd=self._changed(old),
            dst_dir_fd=self._changed(new),
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
        if path != b"/" and path not in HIDDEN:
            raise OSError(errno.ENOENT, "not there")
        return self._empty_directory()

    def _statvfs(self, path: bytes) -> os.statvfs_result:
        return EMPTY_STATFS


def _stamp(st: os.stat_result) -> Stamp:
    return Stamp(st.st_size, st.st_mtime_ns, st.st_ctime_ns)


def _identity(st: os.stat_result) -> Identity:
    return Identity(st.st_dev, st.st_ino, stat.S_IFMT(st.st_mode))


def procfs_devices() -> frozenset[int]:
    """Return the device numbers of all procfs that are mounted anywhere."""
    found = set()
    with contextlib.suppress(OSError), open(_MOUNTINFO, encoding="latin-1") as file:
        for line in file:
            before, _, behind = line.partition(" - ")
            if behind.startswith("proc "):
                major, _, minor = before.split()[2].partition(":")
                found.add(os.makedev(int(major), int(minor)))
    return frozenset(found)


def check_mode(kind: int, mode: int) -> None:
    """Raise EPERM for mode bits that give others on the host somebody's rights.

    kind: mode bits that tell the type of the file.
    """
    if mode & _SET_ID and not stat.S_ISDIR(kind):
        raise OSError(errno.EPERM, "set-user-ID or set-group-ID")


def _drop_set_id(fd: int) -> None:
    """Do what the kernel does when somebody without rights writes to a file."""
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    if mode & _SET_ID:
        os.fchmod(fd, mode & ~_SET_ID)


def _itself(fd: int) -> str:
    """Return a path that leads to the file of a descriptor."""
    return f"/proc/self/fd/{fd}"


def _kind(entry: os.DirEntry[str]) -> int:
    """Return an entry's type as in st_mode if readdir(3) tells it, else 0."""
    if entry.is_symlink():
        return stat.S_IFLNK >> 12
    if entry.is_dir(follow_symlinks=False):
        return stat.S_IFDIR >> 12
    if entry.is_file(follow_symlinks=False):
        return stat.S_IFREG >> 12
    return 0
