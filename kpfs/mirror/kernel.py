# SPDX-License-Identifier: GPL-2.0-or-later
"""The protocols of a kernel that a command's system calls are made again in.

Each kind of kernel implements them in its mirror.py below kpfs/backends.
"""

from __future__ import annotations

from collections.abc import Callable

from kpfs.base.typed import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from kpfs.base.lock import FairLock
    from kpfs.base.skip_policy import SkipPolicy
    from kpfs.fs.tree import WriteCall
    from kpfs.mirror.plan import Plan
    from kpfs.mirror.process_table import ProcessTable
    from kpfs.mirror.seccomp import Notification

# Called with the kernel's lock held right before a call is made in the caller's place:
# from now on the caller's own must not go on.  False: the caller is gone.
Commit = Callable[[], bool]
# The value of a call or -errno; None: the caller's own call goes on; a function: it is
# still to be waited for, without any lock.
Replayed = int | None | Callable[[], int]

# the files and an open file of a kernel's tree, as its mount knows them
FilesT = TypeVar("FilesT", contravariant=True)
OpenedT = TypeVar("OpenedT", contravariant=True)


class MirroredKernel(Protocol[FilesT, OpenedT]):
    """A kernel in which calls of the host are made again."""

    # calls that the kernel answers itself, whatever the host would say
    answered: frozenset[int]
    made: frozenset[int]  # calls of kpfs.mirror.calls.CALLS that the kernel has
    skip_policy: SkipPolicy
    lock: FairLock

    @property
    def tasks(self) -> ProcessTable[Any]: ...

    def uts_names(self) -> dict[int, bytes]:
        """Return the kernel's fields of uname(2) that differ from the host's."""

    def answer(self, note: Notification, commit: Commit) -> Replayed:
        """Answer one of ``answered``.  Context: the lock is not held."""

    def make(self, note: Notification, plan: Plan) -> None:
        """Have the caller's task make a call.  Context: the lock is not held."""

    def may_write(self, opened: OpenedT) -> bool:
        """Return False if a write to this file may wait: only the caller itself can."""

    def write(
        self, files: FilesT, opened: OpenedT, pid: int, call: WriteCall, at: int
    ) -> tuple[int, int]:
        """Make a caller's write to a file of the mount.

        Return the bytes taken and the position afterwards, which was ``at`` unless
        the call or the file has none.
        Context: a thread of the mount, in the request; the lock is held once.
        """
