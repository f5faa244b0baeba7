# SPDX-License-Identifier: GPL-2.0-or-later
"""What the files of tracing/ and those of an instance have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kpfs.kernel import Kernel
from kpfs.node import Dir, File

if TYPE_CHECKING:
    from engine.trace.array import TraceArray


class ArrayFile(File):
    """A file of a trace array: the first one, or that of an instance."""

    kernel: Kernel
    array: TraceArray | None = None  # None: the first

    @property
    def tr(self) -> TraceArray:
        return self.array or self.kernel.trace

    def opened(self, flags: int) -> None:
        """An instance with an open file cannot be removed."""
        if self.array is not None:
            self.array.ref += 1

    def closed(self) -> None:
        if self.array is not None:
            self.array.ref -= 1


def bind(node: Dir, array: TraceArray) -> None:
    """Make all files below a directory those of an instance."""
    for child in node.children.values():
        if isinstance(child, ArrayFile):
            child.array = array
        elif isinstance(child, Dir):
            bind(child, array)
