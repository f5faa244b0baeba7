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
from kpfs.mirror.fast_path import EXIT, GO, NEVER, PATH
from kpfs.mirror.host_overrides import PATH_CALLS
from kpfs.mirror.splice import SPLICES
from kpfs.mirror.write import NAMES

if TYPE_CHECKING:
    from typing import Any

    from kpfs.mirror.host_overrides import HostOverrides
    from kpfs.mirror.kernel import Commit
    from kpfs.mirror.plan import Plan
    from kpfs.mirror.process_table import ProcessTable
    from kpfs.mirror.seccomp import Notification


class SkippedCalls:
    """The rest of the work for calls that are left out.

    A write to the mount is made, the processes' table notes the rest, and calls that
    the host cannot answer as the kernel would are answered in its place.
    """

    def __init__(
        self,
        tasks: ProcessTable[Any],
        write: Callable[[Notification, Commit], int | None],
        overrides: HostOverrides | None = None,
        kept: Iterable[int] = (),
    ) -> None:
        """write: makes a write to a file of the mount.  kept: calls never left out.

        overrides: answers some calls in the host's place.
        """
        self.tasks = tasks
        self.host = tasks.host
        self.write = write
        self.overrides = overrides
        self.overridden = frozenset[int]() if overrides is None else overrides.calls
        # calls that need a closer look, or must not be skipped
        self.particular = frozenset(
            (*NAMES, *SPLICES, *EXECS, *EXITS, *kept, *self.overridden)
        )
        if overrides is not None:
            tasks.fast_path.show(overrides.names_absent)
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
                self.tasks.executes(pid)
            elif (
                self.overrides is None
                or nr not in self.overridden
                or self.overrides.concerns(note, self.host)
            ):
                return False
        self.tasks.leave_out(pid)
        return True

    def open_fast_path(self, turn: int, pid: int, seen: Seen | None) -> None:
        """Let further calls of a process go on that nobody can see.

        turn: FastPath.turn before the process was left out.
        Context: the thread that receives.
        """
        if turn == NEVER or not isinstance(seen, frozenset):
            return
        if seen is not self._ways[0]:
            self._ways = seen, self._ways_unless(seen)
        tasks = self.tasks
        tasks.fast_path.open(turn, pid, *self._ways, ends=tasks.find(pid) is None)

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

    def make(self, note: Notification, commit: Commit) -> int | None:
        """Leave a call out and do the rest; return its value, or None if it goes on.

        Context: the lock is not held.
        """
        nr, pid = note.nr, note.pid
        if nr in EXITS:
            self.tasks.leave_out_exit(pid)
            return None
        self.tasks.leave_out(pid)
        if nr in EXECS:
            self.tasks.executes(pid)
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
