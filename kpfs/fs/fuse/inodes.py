# SPDX-License-Identifier: GPL-2.0-or-later
"""What Linux knows of the tree: the numbers under which it asks for nodes."""

from __future__ import annotations

import errno
import threading

from kpfs.base.errors import KernelError
from kpfs.fs.fuse.proto import ROOT
from kpfs.fs.node import Dir, Node


class Inode:
    """A node that Linux has looked up, until it forgets it."""

    __slots__ = (
        "_way",
        "fixed",
        "lookups",
        "node",
        "number",
        "open_files",
        "path",
        "shrunk",
        "truncated",
    )

    def __init__(
        self, number: int, node: Node, parent: Inode | None = None, name: str = ""
    ) -> None:
        self.number = number
        self.node = node
        self.path: str = f"{parent.path}/{name}" if parent else ""
        # whether the entry is there as long as its directory
        self.fixed = True
        # directories on the way in which something may vanish, and what is in each
        self._way: tuple[tuple[Dir, str, Node], ...] = ()
        self.lookups = 0
        self.open_files: set[int] = set()
        self.shrunk = False  # Linux may believe that the size is what stat() shows
        self.truncated = False  # it may believe so again at any time
        if parent:
            assert isinstance(parent.node, Dir)
            self.fixed = name in parent.node.children
            self._way = parent._way
            if not self.fixed:
                self._way += ((parent.node, name, node),)

    @property
    def permanent(self) -> bool:
        """Whether it is there as long as the tree."""
        return not self._way

    def replace(self, root: Dir) -> None:
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
        """The node; ENOENT if the tree has it no more."""
        for parent, name, node in self._way:
            if parent.lookup(name) is not node:
                raise KernelError(errno.ENOENT, self.path)
        return self.node

    def directory(self) -> Dir:
        """The same for a directory; ENOTDIR."""
        node = self.check() if self._way else self.node
        if not isinstance(node, Dir):
            raise KernelError(errno.ENOTDIR, self.path)
        return node


class Inodes:
    """All of them.  Any thread may ask."""

    def __init__(self, root: Dir) -> None:
        self._guard = threading.Lock()
        self._last = ROOT
        top = Inode(ROOT, root)
        self._by_number = {ROOT: top}
        self._by_node: dict[Node, Inode] = {root: top}

    def __getitem__(self, number: int) -> Inode:
        inode = self._by_number.get(number)
        if inode is None:
            raise KernelError(errno.ESTALE, f"inode {number} is not known")
        return inode

    def __len__(self) -> int:
        return len(self._by_number)

    def look_up(self, number: int, name: str) -> Inode:
        """The inode of an entry, which Linux knows once more; ENOENT, ENOTDIR."""
        parent = self[number]
        node = parent.directory().lookup(name)
        if node is None:
            raise KernelError(errno.ENOENT, f"{parent.path}/{name}")
        with self._guard:
            inode = self._by_node.get(node)
            if inode is None:
                self._last += 1
                inode = Inode(self._last, node, parent, name)
                self._by_number[inode.number] = self._by_node[node] = inode
            inode.lookups += 1
        return inode

    def replace(self, root: Dir) -> None:
        """There is another tree now.  What Linux knows keeps its number."""
        with self._guard:
            for inode in self._by_number.values():
                inode.replace(root)
            self._by_node = {inode.node: inode for inode in self._by_number.values()}

    def forget(self, number: int, lookups: int) -> None:
        """Linux knows an inode so many times less."""
        with self._guard:
            inode = self._by_number.get(number)
            if inode is None or number == ROOT:
                return
            inode.lookups -= lookups
            if inode.lookups <= 0:
                del self._by_number[number]
                self._by_node.pop(inode.node, None)
