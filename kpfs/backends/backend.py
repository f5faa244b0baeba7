# SPDX-License-Identifier: GPL-2.0-or-later
"""The protocol Backend: a kernel as the daemon serves it; and the kinds of kernel.

To add a kind, make a folder beside this module whose boot.py has a class Boot that
implements Backend, and a row of KINDS.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from kpfs.config import Settings
    from kpfs.fs.tree import Tree, Writers
    from kpfs.mirror.host import Host
    from kpfs.mirror.kernel import MirroredKernel

# By name: a start imports the kind alone that it uses.
KINDS = {"guest": "kpfs.backends.guest.boot", "linux": "kpfs.backends.linux.boot"}


class Backend(Protocol):
    """A kernel that runs, and its files."""

    writers: Writers  # of the mount

    @property
    def tree(self) -> Tree[Any, Any]: ...

    def preload(self) -> None:
        """Do what the first use would have to wait for; the mount answers already."""

    def mirror(self, host: Host, listener: int) -> MirroredKernel[Any, Any]:
        """Return what makes a command's system calls in the kernel.

        listener: the descriptor on which the supervisor gets them.
        """

    def stop(self) -> None:
        """End the kernel."""


class MakeBackend(Protocol):
    """Makes the kernel and its files.  SetupError: that cannot be."""

    def __call__(self, settings: Settings, mountpoint: str, source: str) -> Backend:
        """source: what the mount table will call the mount."""


def maker(settings: Settings) -> MakeBackend:
    """Return what makes a kernel of the kind that the settings name."""
    kind = "linux" if settings.kernel else "guest"
    return cast(MakeBackend, import_module(KINDS[kind]).Boot)
