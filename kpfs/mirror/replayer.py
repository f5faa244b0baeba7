# SPDX-License-Identifier: GPL-2.0-or-later
"""Make the system calls of a command again in an emulated kernel."""

from __future__ import annotations

import os
from collections.abc import Callable
from mmap import mmap

from kpfs.base.log import Log
from kpfs.base.skip_policy import EVERY
from kpfs.base.typed import TYPE_CHECKING, Any
from kpfs.mirror import calls as mirror_calls
from kpfs.mirror import splice
from kpfs.mirror.host import Host, trees_of
from kpfs.mirror.host_overrides import HostOverrides
from kpfs.mirror.plan import Plan
from kpfs.mirror.skipped import SkippedCalls
from kpfs.mirror.supervisor import Supervisor, await_listener, settled
from kpfs.mirror.write import NAMES, TreeWriter

if TYPE_CHECKING:
    from kpfs.fs.tree import Writers
    from kpfs.mirror.kernel import Commit, MirroredKernel, Replayed
    from kpfs.mirror.seccomp import Notification

log = Log(__name__)

HOSTS_KERNEL = (
    "%s reaches this host's kernel: with kpfs run --kernel NAME --inside it reaches "
    "the emulated one"
)
# makes the kernel, given the host and the supervisor's listener
OpenKernel = Callable[[Host, int], "MirroredKernel[Any, Any]"]


class Replayer:
    """The maker of the host's calls in a kernel, if a probe could see them."""

    def __init__(
        self,
        kernel: MirroredKernel[Any, Any],
        host: Host,
        writers: Writers | None = None,
        overrides: HostOverrides | None = None,
        *,
        lazy: bool = False,
        debugger: Callable[[], int] = lambda: 0,
        tell: Callable[[str], object] = lambda _line: None,
    ) -> None:
        """writers: shared with the mount, see kpfs.mirror.write.

        overrides: answers some calls in the host's place.
        lazy: calls that nobody could see in the kernel are left out.
        debugger: returns the process that may stop the kernel, or 0.  Its own calls,
        and those of processes below it, are left out: they would wait for ever.
        tell: tells the user something, if the command fails.
        """
        self._tell = tell
        self._told: set[int] = set()
        self.debugger = debugger
        self.kernel = kernel
        self.host = host
        self.lazy = lazy
        self.plans: list[Plan] = []  # that no thread uses
        # the last call that was planned when it was received
        self.planned: tuple[Notification, Plan] | None = None
        self.seen: Notification | None = None  # the last call, if all are seen
        self.write = TreeWriter(kernel, host, {} if writers is None else writers)
        self.tasks = tasks = kernel.tasks
        self.skipped = SkippedCalls(tasks, self.write, overrides, kernel.answered)

    def skip(self, note: Notification) -> bool:
        """Return True if nothing is to be done for a call, as nobody could see it.

        Context: the thread that receives, the lock is not held.
        """
        debugger = self.debugger()
        if note.nr in mirror_calls.HOSTS_OWN and note.nr not in self._told:
            self._told.add(note.nr)
            self._tell(HOSTS_KERNEL % mirror_calls.HOSTS_OWN[note.nr])
        tasks = self.tasks
        if tasks.changing and note.pid in tasks.changing:
            tasks.changing.discard(note.pid)
            tasks.leave_out(note.pid)
        if (note.nr in mirror_calls.NOTED and note.nr not in self.kernel.made) or (
            debugger and self.host.is_below(note.pid, debugger)
        ):
            tasks.leave_out_change(note.pid)
            return True
        if not self.lazy:
            return False
        policy = self.kernel.skip_policy
        if policy.seen is EVERY:
            if self.seen is None:
                tasks.note_ended()  # and none can follow
            self.seen = note
            return False
        self.seen = None
        path = tasks.fast_path
        if path.nr_ended:
            tasks.note_ended()
        turn = path.turn
        if not policy.may_skip(note.nr) or not self.skipped.skip(note):
            return False
        self.skipped.open_fast_path(turn, note.pid, policy.seen)
        return True

    def may_wait(self, note: Notification) -> bool:
        """Return True if others must be received while a call is made.

        A plan tells of a write whether that is to a file of the mount.
        Context: the thread that receives, the lock is not held.
        """
        if self.kernel.lock.taken():
            return True
        if note.nr not in NAMES:
            return False
        plan = self.take_plan()
        if mirror_calls.plan_call(self.host, note, plan) is None:
            self.plans.append(plan)
            return True
        self.planned = note, plan
        return False

    def take_plan(self) -> Plan:
        """Return a plan to fill in, which goes to ``plans`` afterwards."""
        try:
            return self.plans.pop()
        except IndexError:
            return Plan()

    def plan(self, note: Notification) -> Plan:
        """Return the plan of a call, which goes to ``plans`` afterwards."""
        planned = self.planned
        if planned is not None and planned[0] is note:
            self.planned = None
            return planned[1]
        plan = self.take_plan()
        mirror_calls.plan_call(self.host, note, plan)
        return plan

    def must_make(self, note: Notification) -> bool:
        """Decide on a call.

        What skip() has just found out is not asked again: a call may be made that
        nobody can see by now.
        """
        return note is self.seen or self.kernel.skip_policy.must_make(note.nr)

    def __call__(self, note: Notification, commit: Commit) -> Replayed:
        """See kpfs.mirror.supervisor.Replay.  Context: the lock is not held."""
        number, pid, kernel, tasks = note.nr, note.pid, self.kernel, self.tasks
        if number in kernel.answered:
            return kernel.answer(note, commit)
        if number in splice.SPLICES:
            splice.prepare(self.host, note)
            return None
        if number not in kernel.made:  # reported for the overrides alone
            return self.skipped.answer(note, commit)
        if self.lazy and not self.must_make(note):
            return self.skipped.make(note, commit)
        if tasks.behind:  # before a call that is made all are up to date
            with kernel.lock:
                tasks.catch_up()
        plan = self.plan(note)
        try:
            if plan.left_to_mount:
                value = self.write(note, commit) if number in NAMES else None
                if value is None:
                    flags = mirror_calls.OPENS.get(number)
                    if flags is not None and note.args[flags] & os.O_CLOEXEC:
                        tasks.leave_out_change(pid)
                    with kernel.lock:
                        tasks.task(pid)
                return value
            kernel.make(note, plan)
            if number in mirror_calls.EXECS:
                tasks.executes(pid)
            elif number in mirror_calls.EXITS:
                tasks.forget(pid)
            return self.skipped.answer(note, commit, plan)
        finally:
            self.plans.append(plan)


def serve(
    open_kernel: OpenKernel,
    channel: int,
    source: str,
    mountpoint: str,
    writers: Writers,
    *,
    host_uname: bool = False,
    lazy: bool = False,
    begin: Callable[[mmap], None] = lambda _: None,
    debugger: Callable[[], int] = lambda: 0,
    tell: Callable[[str], object] = lambda _line: None,
) -> None:
    """Await a listener on a socket, and supervise: the body of a thread.

    begin: called before the first call, with what is shared with the keeper.

    source: what the mount table calls the mount at mountpoint.
    host_uname: uname(2) tells of the host.  The rest: see Replayer.
    """
    try:
        received = await_listener(channel)
        if received is None:
            return
        listener, state = received
        begin(state)
        host = Host(trees_of(source, os.getppid()))  # this process lives apart
        kernel = open_kernel(host, listener)
        names = {} if host_uname else kernel.uts_names()
        overrides = HostOverrides(names, mountpoint, listener)
        known = kernel, host, writers, overrides
        replayer = Replayer(*known, lazy=lazy, debugger=debugger, tell=tell)
        Supervisor(
            listener,
            state,
            replayer,
            settled,
            replayer.skip,
            replayer.may_wait,
            kernel.lock.stepping,
            kernel.tasks.fast_path,
            kernel.tasks.went_on,
        ).run()
    except Exception:
        log.exception("the supervisor of system calls failed")
