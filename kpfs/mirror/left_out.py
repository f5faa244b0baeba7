# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls of CMD that are left out, as nobody could see them in the guest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from kpfs.mirror.calls import EXECS, EXITS
from kpfs.mirror.write import NAMES, Commit

if TYPE_CHECKING:
    from kpfs.mirror.host import Host
    from kpfs.mirror.instead import Instead
    from kpfs.mirror.seccomp import Notification


class Members(Protocol):
    """The guest's tasks, which are told what they have not seen."""

    def leave_out(self, pid: int) -> None:
        """The process makes a call that its task does not.  Context: any."""

    def leave_out_exit(self, pid: int, status: int) -> None:
        """The same; it is to end.  Context: the lock is not held."""

    def executes(self, pid: int) -> None:
        """The process is to become another program.  Context: any."""


class LeftOut:
    """Says which calls may be left out, and does what remains to be done for them."""

    def __init__(
        self,
        tasks: Members,
        host: Host,
        write: Callable[[Notification, Commit], int | None],
        instead: Instead | None = None,
        kept: Iterable[int] = (),
    ) -> None:
        """write: to a file of the mount; kept: calls that the guest makes all the same.

        instead: answers for the host.
        """
        self.tasks = tasks
        self.host = host
        self.looks = host.another()  # of the thread that receives
        self.write = write
        self.instead = instead
        self.instead_of = frozenset[int]() if instead is None else instead.calls
        # what has to be looked at more closely, or may not be skipped
        self.particular = frozenset((*NAMES, *EXECS, *EXITS, *kept, *self.instead_of))

    def skip(self, note: Notification) -> bool:
        """Leave a call out if nothing else is to be done for it; whether that is so.

        Context: the thread that receives, the lock is not held.
        """
        nr, pid = note.nr, note.pid
        if nr in self.particular:
            if nr in NAMES:
                if self.looks.fd_in_tree(pid, note.args[0]):
                    return False
            elif nr in EXECS:
                self.executes(pid)
            elif (
                self.instead is None
                or nr not in self.instead_of
                or self.instead.concerns(note, self.looks)
            ):
                return False
        self.tasks.leave_out(pid)
        return True

    def make(self, note: Notification, commit: Commit) -> int | None:
        """Leave a call out, and do the rest: what it gives, None if it is to go on.

        Context: the lock is not held.
        """
        nr, pid = note.nr, note.pid
        if nr in EXITS:
            self.tasks.leave_out_exit(pid, note.args[0])
            self.forget(pid)
            return None
        self.tasks.leave_out(pid)
        if nr in EXECS:
            self.executes(pid)
        if nr in NAMES:
            return self.write(note, commit)
        return self.answer(note, commit)

    def answer(
        self, note: Notification, commit: Commit, text: bytes | None = None
    ) -> int | None:
        """What is said in the host's place, None if the call is to go on.

        text: the call's path, where it is known.
        """
        instead = self.instead
        if instead is None or note.nr not in self.instead_of:
            return None
        if text is not None and not instead.means(note.nr, text):
            return None
        return instead(note, self.host, commit)

    def executes(self, pid: int) -> None:
        """The process is to become another program, with other memory."""
        self.tasks.executes(pid)
        self.forget(pid)

    def forget(self, pid: int) -> None:
        """Nothing that is known of the process's memory and files holds any more."""
        self.host.forget(pid)
        self.looks.forget(pid)
