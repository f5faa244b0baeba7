# SPDX-License-Identifier: GPL-2.0-or-later
"""What the files of tracing/ and those of an instance have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kpfs.fs.node import Dir, File

if TYPE_CHECKING:
    from kpfs.engine.trace.array import TraceArray


class ArrayFile(File):
    """A file of a trace array: the first one, or that of an instance."""

    array: TraceArray | None = None  # None: the first
    holds = True  # an instance with it open cannot be removed

    @property
    def tr(self) -> TraceArray:
        return self.array or self.kernel.trace

    def opened(self, flags: int) -> None:
        """The file is open once more."""
        if self.array is not None and self.holds:
            self.array.ref += 1

    def closed(self) -> None:
        if self.array is not None and self.holds:
            self.array.ref -= 1


def bind(node: Dir, array: TraceArray) -> None:
    """Make all files below a directory those of an instance."""
    for child in node.children.values():
        if isinstance(child, ArrayFile):
            child.array = array
        elif isinstance(child, Dir):
            bind(child, array)
