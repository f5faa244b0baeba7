# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest kernel's files as a Tree: a table of file objects, in front of a Vfs."""

from __future__ import annotations

import errno
import stat
import time
from collections.abc import Callable, Hashable

from kpfs.backends.guest.files import tree
from kpfs.backends.guest.machine_info import GuestMachineInfo
from kpfs.backends.guest.vfs import Vfs, VfsFile
from kpfs.base.errors import KernelError
from kpfs.base.typed import TYPE_CHECKING, NamedTuple
from kpfs.base.units import NAME_MAX
from kpfs.fs.node import Dir, File, Node, names_of
from kpfs.fs.traits import Constant
from kpfs.fs.tree import Attributes, Listener

if TYPE_CHECKING:
    from typing import NoReturn

    from kpfs.backends.guest.coverage import GuestCoverage
    from kpfs.backends.guest.root.guest_kernel import GuestKernel
    from kpfs.base.core_file import CoreFile
    from kpfs.base.fuse_wire import SetattrRequest
    from kpfs.base.ktypes import Caller
    from kpfs.fs.tree import InPlace, Wake


def build(kernel: GuestKernel, coverage: GuestCoverage | None = None) -> Dir:
    """Make the root of a guest kernel's files."""
    return tree.build(kernel, GuestMachineInfo(kernel, coverage, _dump))


def _dump(kernel: GuestKernel) -> CoreFile:
    from kpfs.backends.guest.dumped import core

    return core(kernel)


class GuestEntry:
    """A node of the tree, and the way that led to it."""

    __slots__ = ("_way", "fixed", "node", "path")

    def __init__(
        self, node: Node, parent: GuestEntry | None = None, name: str = ""
    ) -> None:
        self.node = node
        self.path: str = f"{parent.path}/{name}" if parent else ""
        self.fixed = True  # the entry is there as long as its directory
        # directories on the way in which an entry may vanish, and the node of that
        self._way: tuple[tuple[Dir, str, Node], ...] = ()
        if parent:
            assert isinstance(parent.node, Dir)
            self.fixed = name in parent.node.children
            self._way = parent._way
            if not self.fixed:
                self._way += ((parent.node, name, node),)

    @property
    def key(self) -> Hashable:
        return self.node

    @property
    def permanent(self) -> bool:
        """Return True if the entry is there as long as the tree."""
        return not self._way

    def renew(self, root: Dir) -> None:
        """Be the node at the same path of another tree, or gone if it has none."""
        node: Node = root
        way: list[tuple[Dir, str, Node]] = []
        self.fixed = True
        for name in self.path.split("/")[1:]:
            found = node.lookup(name) if isinstance(node, Dir) else None
            if found is None:
                self._way = ((Dir(), name, self.node),)
                return
            assert isinstance(node, Dir)
            self.fixed = name in node.children
            if not self.fixed:
                way.append((node, name, found))
            node = found
        self.node, self._way = node, tuple(way)

    def check(self) -> Node:
        """Return the node; ENOENT if the tree has it no more."""
        for parent, name, node in self._way:
            if parent.lookup(name) is not node:
                raise KernelError(errno.ENOENT, self.path)
        return self.node

    def directory(self) -> Dir:
        """Return the node, which is a directory; ENOTDIR, ENOENT."""
        node = self.check() if self._way else self.node
        if not isinstance(node, Dir):
            raise KernelError(errno.ENOTDIR, self.path)
        return node


def _refusing(operation: str) -> Callable[..., NoReturn]:
    """Return the method of GuestTree that refuses an operation on a directory."""

    def refuse(
        _tree: object, _caller: Caller, folder: GuestEntry, *_: object
    ) -> NoReturn:
        raise folder.directory().refuse(operation)

    return refuse


class GuestTree:
    """Implements kpfs.fs.tree.Tree."""

    def __init__(
        self, kernel: GuestKernel, root: Dir, *, lazy: bool = False, hints: int = -1
    ) -> None:
        """lazy, hints: see Vfs."""
        self.kernel, self.lock = kernel, kernel.lock
        self.vfs = Vfs(kernel, root, lazy=lazy, hints=hints)
        self._hints = hints
        self.root = GuestEntry(root)
        self._mounted = time.time_ns()
        self._listener: Listener | None = None
        self._pollers: dict[VfsFile, Poller] = {}

    def start(self, listener: Listener) -> None:
        self._listener = listener
        self.kernel.background.start(self._wake_pollers)

    def follow(self, kernel: GuestKernel, root: Dir) -> None:
        """Have the files of another kernel from now on.  Context: lock held."""
        self.kernel = kernel
        self.vfs = Vfs(kernel, root, lazy=self.vfs.lazy, hints=self._hints)
        if self._listener is not None:
            self._listener.replaced()
        self._wake_pollers()
        kernel.background.start(self._wake_pollers)

    def renew(self, entry: GuestEntry) -> None:
        entry.renew(self.vfs.root)

    # ---- names and attributes
    def look_up(self, folder: GuestEntry, name: str) -> Hashable:
        if len(name) > NAME_MAX:
            raise KernelError(errno.ENAMETOOLONG, name)
        node = folder.directory().lookup(name)
        if node is None:
            self.vfs.hinter.looked_for(f"{folder.path}/{name}")
            raise KernelError(errno.ENOENT, f"{folder.path}/{name}")
        return node

    def entry(self, folder: GuestEntry, name: str, key: Hashable) -> GuestEntry:
        assert isinstance(key, Node)
        return GuestEntry(key, folder, name)

    def attributes(self, _pid: int, entry: GuestEntry) -> Attributes:
        node = entry.node
        return self._shown(entry, node if isinstance(node, Dir) else entry.check())

    def seek_end(self, _caller: Caller, entry: GuestEntry, file: VfsFile) -> Attributes:
        with self.kernel.lock:
            file.handle.seek_end()
        return self._shown(entry, file.node)

    def set_attributes(
        self,
        _caller: Caller,
        entry: GuestEntry,
        file: VfsFile | None,
        asked: SetattrRequest,
    ) -> Attributes:
        _, mode, uid, gid, size, atime, mtime = asked
        node: Node = entry.check() if file is None else file.node
        if mode is not None:
            node.chmod(mode)
        if uid is not None or gid is not None:
            node.chown(-1 if uid is None else uid, -1 if gid is None else gid)
        if size is not None:
            node.truncate(size)
        node.atime = node.atime if atime is None else atime
        node.mtime = node.mtime if mtime is None else mtime
        return self._shown(entry, node)

    def _shown(self, entry: GuestEntry, node: Node) -> Attributes:
        atime = self._mounted if node.atime is None else node.atime
        mtime = self._mounted if node.mtime is None else node.mtime
        is_file = not isinstance(node, Dir)
        constant = isinstance(node, Constant)
        return Attributes(
            *(node.mode, node.size, atime, mtime, mtime, node.nlink),
            *(node.uid, node.gid, node.blksize, entry.fixed),
            steady=not is_file or constant or entry.permanent,
            constant=constant,
            is_file=is_file,
        )

    def read_link(self, _pid: int, entry: GuestEntry) -> bytes:
        raise KernelError(errno.EINVAL, f"{entry.path}: no symbolic link")

    # ---- directories
    def entries(self, _pid: int, folder: GuestEntry) -> list[tuple[str, int]]:
        node = folder.directory()
        return [(".", node.mode), ("..", node.mode), *names_of(node)]

    def mkdir(self, _caller: Caller, folder: GuestEntry, name: str, _mode: int) -> None:
        with self.kernel.lock:
            folder.directory().mkdir(name)

    def rmdir(self, _caller: Caller, folder: GuestEntry, name: str) -> None:
        with self.kernel.lock:
            folder.directory().rmdir(name)

    def mknod(
        self, _caller: Caller, folder: GuestEntry, _name: str, mode: int, _device: int
    ) -> None:
        regular = stat.S_ISREG(mode)
        raise folder.directory().refuse("create" if regular else "mknod")

    unlink = _refusing("unlink")
    symlink = _refusing("symlink")
    link = _refusing("link")
    rename = _refusing("rename")

    # ---- files
    def open(self, caller: Caller, entry: GuestEntry, flags: int) -> VfsFile:
        with self.kernel.lock:  # or a reboot may take the node's kernel away meanwhile
            node = entry.check()
            if not isinstance(node, File):
                raise KernelError(errno.EISDIR, entry.path)
            return self.vfs.open_node(caller, node, entry.path, flags)

    def create(
        self, _caller: Caller, folder: GuestEntry, name: str, _flags: int, _mode: int
    ) -> VfsFile:
        self.vfs.hinter.looked_for(f"{folder.path}/{name}", to_write=True)
        raise folder.directory().refuse("create")

    def set_flags(self, _caller: Caller, file: VfsFile, flags: int) -> None:
        file.vfs.set_flags(file, flags)

    def read(self, caller: Caller, file: VfsFile, size: int, offset: int) -> bytes:
        return file.vfs.read(caller, file, size, offset)

    def write(self, caller: Caller, file: VfsFile, data: bytes, offset: int) -> int:
        return file.vfs.write(caller, file, data, offset)

    def splice_from(
        self, caller: Caller, file: VfsFile, size: int, offset: int, nonblock: bool
    ) -> bytes:
        return file.vfs.read(caller, file, size, offset, nonblock)

    def splice_into(
        self, caller: Caller, file: VfsFile, data: bytes, offset: int
    ) -> int:
        return file.vfs.splice_into(caller, file, data, offset)

    def ioctl(
        self, _caller: Caller, file: VfsFile, command: int, _argument: int
    ) -> int:
        file.vfs.ioctl(file, command)
        return 0

    def write_in_place(self, make: InPlace, file: VfsFile) -> int:
        return make(file.vfs, file)

    def release(self, file: VfsFile) -> None:
        if file in self._pollers:
            with self.kernel.lock:
                self._pollers.pop(file, None)
        file.vfs.release(file)

    # ---- poll
    def poll(
        self, _caller: Caller, file: VfsFile, _events: int, wake: Wake | None
    ) -> int:
        with self.kernel.lock:
            found, news = file.vfs.poll(file)
            if wake is not None:
                self._pollers[file] = Poller(found, news, wake)
        return found

    def _wake_pollers(self) -> None:
        """Wake those whose file is ready now, or again.  Context: lock held."""
        for file, poller in list(self._pollers.items()):
            if poller.is_due(file):
                del self._pollers[file]
                poller.wake()


class Poller(NamedTuple):
    """A process of the host that waits for an open file, and what it was told last."""

    found: int
    news: object
    wake: Wake

    def is_due(self, file: VfsFile) -> bool:
        """Return True if it is to ask again: also if the file is gone."""
        try:
            found, news = file.vfs.poll(file)
        except KernelError:
            return True
        return bool(found) and (found, news) != (self.found, self.news)
