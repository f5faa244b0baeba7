# SPDX-License-Identifier: GPL-2.0-or-later
"""What a file of kpfs' own is that lies beside those of a real kernel."""

from __future__ import annotations

import errno
import stat
from collections.abc import Callable, Iterable

from kpfs.base.errors import KernelError
from kpfs.linux.running.tasks import Task


class OwnNode:
    """A file or directory."""

    mode = stat.S_IFREG | 0o444
    lasts = False  # it reads the same whenever it is read

    @property
    def size(self) -> int:
        """Bytes; 0 where that is known only when it is read."""
        return 0

    def names(self) -> Iterable[tuple[str, int]]:
        """Names and types of what is in a directory; ENOTDIR."""
        raise KernelError(errno.ENOTDIR, "a file")

    def find(self, name: str) -> OwnNode | None:
        """What is in a directory."""
        return None

    def text(self, pid: int) -> bytes:
        """What a process reads; EINVAL.  The lock is not held."""
        raise KernelError(errno.EINVAL, "not for reading")

    def store(self, data: bytes, task: Callable[[], Task]) -> None:
        """Take a write; task gives the writer's.  The lock is not held."""
        raise KernelError(errno.EINVAL, "not for writing")


class OwnDir(OwnNode):
    """A directory of files that are always there."""

    mode = stat.S_IFDIR | 0o755

    def __init__(self, nodes: dict[str, OwnNode]) -> None:
        self.nodes = nodes

    def names(self) -> Iterable[tuple[str, int]]:
        return [(name, stat.S_IFMT(node.mode)) for name, node in self.nodes.items()]

    def find(self, name: str) -> OwnNode | None:
        return self.nodes.get(name)


class OwnHandle:
    """An open file; what it shows is as of the first read from its begin."""

    def __init__(self, node: OwnNode, pid: int) -> None:
        self.node = node
        self.pid = pid
        self.content = b""

    def read(self, offset: int, size: int) -> bytes:
        if not self.content or not (offset or self.node.lasts):
            self.content = self.node.text(self.pid)
        return self.content[offset : offset + size]
