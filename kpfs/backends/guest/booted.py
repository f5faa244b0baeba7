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
from kpfs.host.process import settle_heap

if TYPE_CHECKING:
    from kpfs.fs.node import Dir
    from kpfs.root.guest_kernel import GuestKernel

log = Log(__name__)

# called with a new kernel and the root of its tree, under their lock
Follower = Callable[["GuestKernel", "Dir"], None]


class Booted:
    """A kernel that can be started anew."""

    def __init__(
        self, boot: Callable[..., GuestKernel], build: Callable[[GuestKernel], Dir]
    ) -> None:
        """boot: makes a kernel, given reboot and lock.  build: makes its tree."""
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
        # the rest of the kernel before this, which nothing refers to any more
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
