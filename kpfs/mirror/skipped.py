# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls of a command that are left out, as nobody could see them in the kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kpfs.base import abi
from kpfs.base.skip_policy import NONE, Seen
from kpfs.base.syscall_numbers import EXIT_GROUP
from kpfs.base.typed import TYPE_CHECKING
from kpfs.mirror import splice
from kpfs.mirror.calls import CALLS, EXECS, EXITS, HOSTS_OWN, NOTED
from kpfs.mirror.fast_path import EXIT, GO, NEVER, PATH, FastPath
from kpfs.mirror.host_overrides import PATH_CALLS
from kpfs.mirror.splice import SPLICES
from kpfs.mirror.write import NAMES

if TYPE_CHECKING:
    from kpfs.base.lock import FairLock
    from kpfs.mirror.host import Host
    from kpfs.mirror.host_overrides import HostOverrides
    from kpfs.mirror.kernel import Commit, TaskBook
    from kpfs.mirror.plan import Plan
    from kpfs.mirror.seccomp import Notification


class SkippedCalls:
    """The rest of the work for calls that are left out.

    A write to the mount is made, the tasks' book notes the rest, and calls that the
    host cannot answer as the kernel would are answered in its place.
    """

    def __init__(
        self,
        tasks: TaskBook,
        host: Host,
        write: Callable[[Notification, Commit], int | None],
        lock: FairLock,
        overrides: HostOverrides | None = None,
        kept: Iterable[int] = (),
    ) -> None:
        """write: makes a write to a file of the mount.  kept: calls never left out.

        lock: the kernel's.  overrides: answers some calls in the host's place.
        """
        self.tasks = tasks
        self.host = host
        self.write = write
        self.overrides = overrides
        self.overridden = frozenset[int]() if overrides is None else overrides.calls
        # calls that need a closer look, or must not be skipped
        self.particular = frozenset(
            (*NAMES, *SPLICES, *EXECS, *EXITS, *kept, *self.overridden)
        )
        names = () if overrides is None else overrides.names_absent
        self.fast_path = FastPath(lock, names)
        self._ways = NONE, self._ways_unless(NONE)

    def skip(self, note: Notification) -> bool:
        """Leave a call out and return True, if nothing else is to be done for it.

        Context: the thread that receives, the lock is not held.
        """
        nr, pid = note.nr, note.pid
        if nr in self.particular:
            if nr in NAMES:
                if self.host.fd_in_tree(pid, note.args[0]):
                    return False
            elif nr in SPLICES:
                if splice.concerns_mount(self.host, note):
                    return False
            elif nr in EXECS:
                self.executes(pid)
            elif (
                self.overrides is None
                or nr not in self.overridden
                or self.overrides.concerns(note, self.host)
            ):
                return False
        self.leave_out(pid)
        return True

    def leave_out(self, pid: int) -> None:
        """Note that a process makes a call that its task does not."""
        if self.tasks.leave_out(pid):
            self.fast_path.close()

    def open_fast_path(self, turn: int, pid: int, seen: Seen | None) -> None:
        """Let further calls of a process go on that nobody can see.

        turn: FastPath.turn before the process was left out.
        Context: the thread that receives.
        """
        if turn == NEVER or not isinstance(seen, frozenset):
            return
        if seen is not self._ways[0]:
            self._ways = seen, self._ways_unless(seen)
        self.fast_path.open(turn, pid, self._ways[1], not self.tasks.knows(pid))

    def stay(self, seen: Seen | None) -> None:
        """Let calls go on after a turn of the lock in which no task was brought up to
        date, if the calls that can be seen are those that they were.

        Context: lock held, at the end of the turn.
        """
        if seen is self._ways[0]:
            self.fast_path.stay()

    def _ways_unless(self, seen: frozenset[int]) -> bytes:
        """Return the ways of all calls, of which some can be seen."""
        ways = bytearray(abi.FAST_PATH_CALLS)
        for number in (
            (CALLS.keys() | NOTED) - HOSTS_OWN.keys() - self.particular - seen
        ):
            ways[number] = GO
        for number in self.overridden & PATH_CALLS.keys() - seen:
            ways[number] = PATH + PATH_CALLS[number].path
        if EXIT_GROUP not in seen:
            ways[EXIT_GROUP] = EXIT
        return bytes(ways)

    def note_ended(self) -> None:
        """Forget processes that have ended on the fast path.

        What is told here of one that has got a task, or gets it meanwhile, is what is
        told of one that was killed: it stays ``behind``, and the next look finds it.
        Context: the thread that receives, before it looks at a call.
        """
        path, tasks = self.fast_path, self.tasks
        turn, ended = path.turn, path.take_ended()
        for pid in ended:
            if turn != NEVER and not tasks.knows(pid):
                tasks.drop(pid)
            self.host.forget(pid)
        if path.turn != turn:
            tasks.behind.update(ended)

    def went_on(self, note: Notification) -> None:
        """Note a call that went on, while others may have brought tasks up to date.

        Context: the thread that receives.
        """
        if not self.fast_path.is_open:
            self.leave_out(note.pid)

    def make(self, note: Notification, commit: Commit) -> int | None:
        """Leave a call out and do the rest; return its value, or None if it goes on.

        Context: the lock is not held.
        """
        nr, pid = note.nr, note.pid
        if nr in EXITS:
            self.tasks.leave_out_exit(pid, note.args[0])
            self.forget(pid)
            return None
        self.leave_out(pid)
        if nr in EXECS:
            self.executes(pid)
        if nr in NAMES:
            return self.write(note, commit)
        return self.answer(note, commit)

    def answer(
        self, note: Notification, commit: Commit, plan: Plan | None = None
    ) -> int | None:
        """Return the answer in the host's place, or None if the call goes on.

        plan: the call's, if it has one.
        """
        overrides = self.overrides
        if overrides is None or note.nr not in self.overridden:
            return None
        text = None if plan is None else plan.text
        if text is not None and not overrides.means(note.nr, text):
            return None
        return overrides(note, self.host, commit)

    def executes(self, pid: int) -> None:
        """Note that a process becomes another program, with other memory."""
        self.tasks.executes(pid)
        self.forget(pid)

    def forget(self, pid: int) -> None:
        """Forget what is known of a process's memory and files."""
        self.fast_path.forget(pid)
        self.host.forget(pid)
