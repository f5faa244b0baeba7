# SPDX-License-Identifier: GPL-2.0-or-later
"""The protocol Backend: a kernel as the daemon serves it; and the kinds of kernel.

To add a kind, make a folder beside this module whose boot.py has a class Boot that
implements Backend, and a row of KINDS.
"""

from __future__ import annotations

from collections.abc import Callable

from kpfs.base.loading import load
from kpfs.base.typed import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from typing import Any

    from kpfs.config import Settings
    from kpfs.coverage.collector import Collector
    from kpfs.fs.tree import Tree, Writers
    from kpfs.gdb.debugged import Debugged
    from kpfs.mirror.host import Host
    from kpfs.mirror.kernel import MirroredKernel

# By name: a start imports the kind alone that it uses.
KINDS = {"guest": "kpfs.backends.guest.boot", "linux": "kpfs.backends.linux.boot"}


class Backend(Protocol):
    """A kernel that runs, and its files."""

    writers: Writers  # the mount's

    @property
    def tree(self) -> Tree[Any, Any]: ...

    def preload(self) -> None:
        """Do what the first use would have to wait for; the mount answers already."""

    def mirror(self, host: Host, listener: int) -> MirroredKernel[Any, Any]:
        """Return what makes a command's system calls in the kernel.

        listener: the descriptor on which the supervisor gets them.
        """

    def debugged(self) -> Debugged:
        """Return the kernel as debuggers see it.  Called once."""

    def stop(self) -> None:
        """End the kernel."""


# Makes the kernel and its files, given a mountpoint and what the mount table will call
# the mount.  SetupError: that cannot be.
MakeBackend = Callable[["Settings", str, str], Backend]


def inside_debugged() -> Callable[..., Debugged]:
    """Return what makes a Debugged of a Linux kernel that has a command inside."""
    made: Callable[..., Debugged] = load("kpfs.backends.linux.debugged").InsideDebugged
    return made


def inside_coverage() -> Callable[..., Collector]:
    """Return what records coverage of a Linux kernel that has a command inside."""
    made: Callable[..., Collector] = load("kpfs.backends.linux.coverage").LinuxCoverage
    return made


def inside_files() -> Callable[..., Any]:
    """Return what serves the files of a kernel with a command inside to a process."""
    made: Callable[..., Any] = load("kpfs.backends.linux.inside_files").InsideFiles
    return made


def maker(settings: Settings) -> MakeBackend:
    """Return what makes a kernel of the kind that the settings name."""
    kind = "linux" if settings.kernel else "guest"
    return cast(MakeBackend, load(KINDS[kind]).Boot)
