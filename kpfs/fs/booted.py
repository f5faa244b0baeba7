# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest kernel that is mounted, and its files: machine/reboot replaces both.

Each user of them is a follower, which is told of the new ones.  What is left of the old
kernel, such as its open files, answers ESHUTDOWN.
"""

from __future__ import annotations

import errno
import gc
from collections.abc import Callable
from typing import TYPE_CHECKING

from kpfs.base.errors import KernelError
from kpfs.base.log import Log

if TYPE_CHECKING:
    from kpfs.fs.node import Dir
    from kpfs.root.guest_kernel import GuestKernel

log = Log(__name__)

# New objects until the collector looks at them.  Thousands of probes are made of many
# that stay, and next to nothing of what is thrown away needs it.
GC_THRESHOLD = 20_000

# called with a new kernel and the root of its tree, under their lock
Follower = Callable[["GuestKernel", "Dir"], None]


def settle_heap() -> None:
    """Keep the garbage collector from looking at the objects of now: they stay."""
    gc.set_threshold(GC_THRESHOLD)
    gc.freeze()


class Booted:
    """A kernel that can be started anew."""

    def __init__(
        self, boot: Callable[..., GuestKernel], build: Callable[[GuestKernel], Dir]
    ) -> None:
        """boot: makes a Kernel; it is called with ``reboot`` and ``lock`` alone.

        build: makes its tree.
        """
        self._boot, self._build = boot, build
        self._followers: list[Follower] = []
        self.kernel = boot(reboot=self.reboot)
        self.root = build(self.kernel)

    def follow(self, follower: Follower) -> None:
        """Call follower for each kernel that follows."""
        self._followers.append(follower)

    def reboot(self) -> None:
        """Start a fresh kernel; the old one is gone then.

        ENOMEM: there is no room for it, and nothing has changed.
        Context: control, lock held, and no task is in the operation of a file.
        """
        old = self.kernel
        # what was left of the kernel before, which nothing refers to any more
        gc.unfreeze()
        gc.collect()
        try:
            fresh = self._boot(reboot=self.reboot, lock=old.lock)
        except (MemoryError, OSError) as exc:
            raise KernelError(errno.ENOMEM, f"no second guest: {exc}") from exc
        finally:
            settle_heap()
        log.info("reboot")
        old.retire()
        self.kernel, self.root = fresh, self._build(fresh)
        for follower in self._followers:
            follower(fresh, self.root)

    def stop(self) -> None:
        """End the guest."""
        self.kernel.stop()
