# SPDX-License-Identifier: GPL-2.0-or-later
"""Mount a tree, and serve it until the mount ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from kpfs.base.signals import ENDING
from kpfs.fs.fuse.loop import FuseLoop
from kpfs.fs.fuse.ops import Operations
from kpfs.fs.tree import E, F, Tree, Writers
from kpfs.host import fusemount, mounts


def mount(
    tree: Tree[E, F],
    mountpoint: str,
    on_ready: Callable[[], None] = lambda: None,
    *,
    fsname: str = "kpfs",
    allow_other: bool = False,
    writers: Writers | None = None,
    apart: bool = False,
) -> str:
    """Mount a tree, serve it until it is unmounted or a signal ends it; return which.

    To be called in the main thread, with the default actions of SIGTERM, SIGINT and
    SIGHUP.  on_ready is called once the mount answers.  SetupError: it cannot be
    mounted.

    apart: move this process into a mount namespace of its own behind the mount. The
    C library opens files in /proc where it likes (free() reads overcommit_memory before
    it trims a heap). If parts of the tree were bound over them, the thread that does so
    would wait for an answer of this very process, perhaps with a lock of it.
    """
    place = os.path.realpath(mountpoint)
    # a signal that comes from now on would leave a mount that nobody serves
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        device = fusemount.mount(place, fsname, allow_other=allow_other)
        if apart:
            mounts.unshare(mounts.CLONE_NEWNS)
        operations = Operations(
            tree, lambda *what: loop.notify(*what), on_ready, writers
        )
        loop = FuseLoop(device, place, operations.serve, tree.lock)
        return loop.main(mask)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
