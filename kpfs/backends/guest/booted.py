# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest kernel that is mounted, and its files: machine/reboot replaces both.

Each user of them is a follower, which is told of the new ones.  What is left of the old
kernel, such as its open files, answers ESHUTDOWN.
"""

from __future__ import annotations

import errno
import gc
from collections.abc import Callable

from kpfs.backends.guest.root.background import Background
from kpfs.backends.guest.root.host_calls import HostCalls
from kpfs.backends.guest.root.watched import GuestWatch
from kpfs.base.errors import KernelError, SetupError
from kpfs.base.log import Log
from kpfs.base.skip_policy import SkipPolicy
from kpfs.base.typed import TYPE_CHECKING
from kpfs.host.process import settle_heap

if TYPE_CHECKING:
    from kpfs.backends.guest.root.guest_kernel import GuestKernel
    from kpfs.backends.guest.vfs import Vfs
    from kpfs.fs.node import Dir

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
        except (MemoryError, OSError, SetupError) as exc:
            raise KernelError(errno.ENOMEM, f"no second guest: {exc}") from exc
        finally:
            settle_heap()
        log.info("reboot")
        old.retire(in_use=True)
        self._enter(fresh)

    def _enter(self, kernel: GuestKernel) -> None:
        self.kernel, self.root = kernel, self._build(kernel)
        for follower in self._followers:
            follower(kernel, self.root)

    def keep(self, vfs: Vfs, *outside: type) -> Callable[[], None]:
        """Return a function that reboots the kernel into its present state.

        The tasks of processes end there, and their files are closed.  vfs: the files
        of the tree.  outside: types of objects that are not the kernel's.
        EBUSY: something is under way in it, now or later.  ESTALE, later: it was
        started anew.  Context, also of the function: as reboot().
        """
        from kpfs.backends.guest.snapshot import KernelSnapshot

        kernel = self.kernel
        self._check_rest()
        # what the host uses it by, which is made anew
        parts = Background, HostCalls, GuestWatch, SkipPolicy
        try:
            snapshot = KernelSnapshot(kernel, (kernel, vfs), (Booted, *parts, *outside))
        except TypeError as error:
            raise KernelError(errno.EBUSY, str(error)) from error

        def put_back() -> None:
            kernel.guest.host_tasks.close()
            snapshot.restore()
            kernel.guest.host_tasks.end_all()
            vfs.release_all()

        def restore() -> None:
            if self.kernel is not kernel:
                raise KernelError(errno.ESTALE, "the kernel was started anew since")
            self._check_rest()
            log.info("restore")
            kernel.change(put_back)
            self._enter(kernel)

        return restore

    def _check_rest(self) -> None:
        if self.kernel.guest.requests.busy:
            raise KernelError(errno.EBUSY, "a system call is under way in it")

    def stop(self) -> None:
        """End the guest."""
        self.kernel.stop()
