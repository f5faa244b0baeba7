# SPDX-License-Identifier: GPL-2.0-or-later
"""The base of the files that tracing/ and each instance have."""

from __future__ import annotations

from kpfs.backends.guest.files.guest_file import GuestDir, GuestFile
from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.base.typed import TYPE_CHECKING, TypeVar
from kpfs.fs.node import Dir, Handle, Node

if TYPE_CHECKING:
    from kpfs.engine.trace.array.trace_array import TraceArray

N = TypeVar("N", bound=Node)


class ArrayFile(GuestFile):
    """A file of a trace array: the first one, or that of an instance."""

    array: TraceArray | None = None  # None: the first
    holds = True  # an instance with it open cannot be removed

    @property
    def tr(self) -> TraceArray:
        return self.array or self.kernel.trace

    def opened(self, flags: int) -> None:
        """Note that the file is open once more."""
        if self.array is not None and self.holds:
            self.array.ref += 1
        super().opened(flags)

    def closed(self, handle: Handle) -> None:
        if self.array is not None and self.holds:
            self.array.ref -= 1


class CpuFile(ArrayFile):
    """A file that is there for each CPU; None: it is about all of them."""

    def __init__(self, kernel: GuestKernel, cpu: int | None = None) -> None:
        super().__init__(kernel)
        self.cpu = cpu


class ArrayDir(GuestDir):
    """A directory that is made of a trace array, with all that is in it."""

    array: TraceArray | None = None


def bind(node: N, array: TraceArray | None) -> N:
    """Make a file, or all below a directory, those of an instance; return it."""
    if isinstance(node, ArrayFile | ArrayDir):
        node.array = array
    if isinstance(node, Dir):
        for child in node.children.values():
            bind(child, array)
    return node
