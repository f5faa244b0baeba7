# SPDX-License-Identifier: GPL-2.0-or-later
"""A command inside a kernel whose runs all begin at the same place.

Runs begin where the command loads its first module or BPF program, or where it says so
(MARK, written to /dev/kmsg). Up to there nothing is done to it, so each run of the same
command comes to that place with the same memory, as long as its files are the same.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from kpfs.base import abi
from kpfs.base.errors import KernelError, MemoryFault
from kpfs.base.kinds import CHECKS, IBT
from kpfs.linux.inside.command import InsideCommand
from kpfs.linux.inside.loop import CallError
from kpfs.linux.inside.request import RunRequest
from kpfs.linux.search import described, reports
from kpfs.linux.search.checks import ModuleChecks
from kpfs.linux.search.hold import Holds
from kpfs.linux.search.plan import LOOKERS
from kpfs.linux.search.reports import CheckReport, RacePair, RacingLoad
from kpfs.linux.search.spin import Spinning
from kpfs.linux.search.texts import Texts

if TYPE_CHECKING:
    from kpfs.linux.inside.mounted import PreparedKernel
    from kpfs.linux.memory.dmesg import LogLine
    from kpfs.linux.search.plan import RunPlan

MARK = "kpfs:mark"
HANG_NS = 30_000_000_000  # by the kernel's clock, from where runs begin
NEVER_BEGAN = (
    "CMD ends, with status {status}, before it loads a module or a BPF program, or "
    "says where runs begin (echo kpfs:mark >/dev/kmsg)"
)
_COMPLAINT = re.compile(
    r"\bBUG\b|\bOops\b|WARNING:|general protection fault|refcount_t: "
    r"|NULL pointer|list_(add|del) corruption|stack-protector|blocked for more than"
    r"|detected stall|Kernel panic|usercopy: |scheduling while atomic|double free"
    r"|soft lockup|Unable to handle kernel|Internal error: "
)


_TELLS_ALL = "base", "race"  # ways of runs
_MOST_REACHED = 20_000  # instructions that a run tells of
_ALWAYS = abi.LOOK_HOLD | abi.LOOK_FAULT


class Begin(Enum):
    """The place where runs begin, by the kernel's function that is called there."""

    LOAD = "do_init_module"
    PROGRAM = "bpf_ksym_add"
    MARK = "devkmsg_emit"


class RunOutcome(NamedTuple):
    """The outcome of one run."""

    status: int  # that the command has ended with; -1: it has not
    why: str  # why it has not
    complaints: list[str]  # lines of the kernel's log that tell of a fault
    output: str
    digest: str  # sums up output, log, blocks, time, and what was done to the run
    blocks: int
    ns: int
    marked: bool = False  # the command has said where runs begin
    reads: Sequence[str] = ()  # paths of this host's files
    accesses: int = 0  # number of those before which the run could wait
    calls: int = 0  # that the text has made, and that could fail
    reached: Sequence[int] = ()  # addresses of instructions that access or call
    shared: Sequence[int] = ()  # those that access what others write, or the reverse
    interrupts: Sequence[int] = ()  # those that access memory in interrupts
    functions: Sequence[tuple[int, int, str]] = ()  # begin, end and name of each
    missing: Sequence[str] = ()  # names of text that nothing had
    failed: Sequence[str] = ()  # calls, as the plan says
    reports: Sequence[CheckReport] = ()
    pairs: Sequence[RacePair] = ()
    counted: Sequence[CheckReport] = ()  # findings that were too many to be kept
    lost: int = 0  # that were too many even to be counted
    untracked: int = 0  # objects that were too many to be looked at

    @classmethod
    def unpacked(cls, row: dict[str, Any]) -> RunOutcome:
        """Return the outcome whose _asdict() JSON had."""
        reports = [CheckReport(*report) for report in row["reports"]]
        row["reports"] = [
            report._replace(loads=[*map(RacingLoad.unpacked, report.loads)])
            for report in reports
        ]
        row["counted"] = [CheckReport(*report) for report in row["counted"]]
        row["pairs"] = [RacePair(*pair) for pair in row["pairs"]]
        return cls(**row)


class SearchedCommand:
    """One command in one kernel, whose clock does not follow the host's."""

    def __init__(
        self,
        kernel: PreparedKernel,
        on_begin: Callable[[], None],
        begins: Begin | None = None,
        of: Sequence[str] = (),
        checks: Sequence[str] = CHECKS,
    ) -> None:
        """on_begin: called where runs begin.

        checks: those that runs may have. A kernel may be unfit for some: left_out.
        begins: the only place that counts; None: whichever comes first.
        of: names of the modules, BPF programs and functions of the kernel whose text is
        searched; empty: whatever the command loads.
        """
        self.kernel, self._begins = kernel, begins
        kernel.leave_out_modules()
        self.begun: Begin | None = None
        self._since = 0, 0  # blocks and ns where runs begin
        self._log: list[LogLine] = []  # the kernel's, up to there
        self._complained: list[str] = []  # in that
        self._marked = False
        self._on_begin, self._way = on_begin, ""
        self._holds = Holds(kernel.machine.board)
        self._paths = kernel.served.host.paths = set[str]()
        self._places = {address: each for each in Begin for address in self._at(each)}
        self._texts = Texts(kernel, of)
        self.left_out: dict[str, str] = {}  # why, by the kinds of checks
        if IBT in checks and (why := self._texts.no_landings):
            self.left_out[IBT] = why
        fit = [each for each in checks if each not in self.left_out]
        self._checks = ModuleChecks(kernel, fit, self._texts, self._holds)
        self.files = self._checks.files
        kernel.symbols.symbol_at(0)  # it makes an index, which runs then have
        kernel.loop.on_busy_turn = Spinning(kernel, HANG_NS).end_turn
        calls = [(address, abi.NEVER) for address in self._places]
        kernel.machine.stops.set(self._stopped, calls)

    def _at(self, begin: Begin) -> list[int]:
        symbols = self.kernel.symbols
        names = begin.value, f"{begin.value}.constprop.0"
        return [address for name in names if (address := symbols.address(name))]

    def begin(self, request: RunRequest, stdio: Sequence[int]) -> InsideCommand:
        """Begin the command.  Raises CallError, UnfitError."""
        self.command = InsideCommand(self.kernel, request, stdio)
        for output in self.command.outputs:
            output.copy = os.memfd_create("kpfs-output", os.MFD_CLOEXEC)
        return self.command

    def fork_output(self) -> None:
        """Keep what the command writes apart from what it writes in another fork."""
        for output in self.command.outputs:
            before, output.copy = output.copy, os.memfd_create("kpfs-output")
            os.write(output.copy, _whole(before))
            os.close(before)

    def apply(self, plan: RunPlan) -> None:
        """Do to this run what a plan says.  Context: where runs begin."""
        self._way = plan.way
        self._holds.apply(plan)
        if plan.way in _TELLS_ALL:
            self._holds.note_touches()
        self._texts.set(on=_ALWAYS | sum(LOOKERS[check] for check in plan.checks))

    def described(self, plan: RunPlan) -> list[str]:
        """Return lines about the run of a plan, and how far it has come."""
        now = None if self.begun is None else self.kernel.machine.now()
        return list(described.described(plan, self._holds, self._texts, now))

    def go_on_to(self, begin: Begin) -> None:
        """Let runs begin at a later place than the one that was reached."""
        self.begun, self._begins = None, begin

    def _stopped(self, address: int) -> None:
        place = self._places[address]
        if place is Begin.MARK:
            if not self._is_mark():
                return
            self._marked = True
        if self.begun is None and self._begins in (place, None):
            self.begun = place
            machine = self.kernel.machine
            self._since = machine.board.blocks, machine.now()
            self._log = self.kernel.dmesg()
            self._complained = _complaints(self._log)
            self.command.limit_to(HANG_NS)
            self._on_begin()

    def _functions(self) -> list[tuple[int, int, str]]:
        """Return the functions of the text; [] in runs for which others have them."""
        if self._way not in _TELLS_ALL:
            return []
        return list(islice(self._texts.functions_of_texts(), _MOST_REACHED))

    def _is_mark(self) -> bool:
        kernel = self.kernel
        board = kernel.machine.board
        at = board.read_reg(board.arch.fourth_argument)
        try:
            return kernel.memory.string(at, 64).strip() == MARK
        except MemoryFault:
            return False

    # ---- the end
    def end(self) -> RunOutcome:
        """Run the command to its end, and return its outcome."""
        try:
            self.command.run()
        except (KernelError, CallError) as error:
            return self.outcome(self.kernel.machine.dead or str(error))
        return self.outcome()

    def outcome(self, why: str = "") -> RunOutcome:
        """Return the outcome of a command that has run.  why: why it could not end."""
        command, machine = self.command, self.kernel.machine
        status, (blocks, now) = -1, command.ended_at
        if command.ended is None:
            blocks, now = machine.board.blocks, machine.now()
            why = command.why_late or why or machine.dead
        else:
            status, why = command.ended.status, command.ended.why
            status = -1 if command.timed_out else status
        output = b"".join(_whole(output.copy) for output in command.outputs)
        known = self._log[-1].seq + 1 if self._log else 0
        new = [line for line in self.kernel.dmesg(known) if line.ns <= now]
        # the host's clock decides when the end of what has none is noticed
        exact = (blocks, now) if status >= 0 else ()
        done = self._holds.done()
        facts = status, exact, done.digest, [*map(_shown, (*self._log, *new))]
        digest = hashlib.sha256(repr(facts).encode() + output)
        return RunOutcome(
            status=status,
            why=why,
            complaints=[*self._complained, *_complaints(new)],
            output=output.decode("utf-8", "replace"),
            digest=digest.hexdigest()[:16],
            blocks=blocks - self._since[0],
            ns=now - self._since[1],
            marked=self._marked,
            reads=sorted(self._paths),
            accesses=done.accesses,
            calls=done.calls,
            reached=list(islice(self._texts.seen(), _MOST_REACHED)),
            shared=self._holds.shared(),
            interrupts=self._holds.in_interrupts(),
            functions=self._functions(),
            missing=self._texts.missing,
            failed=list(reports.failed(self._texts)),
            reports=list(self._checks.reports()),
            pairs=list(reports.pairs(self._texts)),
            counted=list(self._checks.counted()),
            lost=self._checks.lost,
            untracked=self._checks.untracked,
        )


def _complaints(log: Sequence[LogLine]) -> list[str]:
    return [line.text for line in log if _COMPLAINT.search(line.text)]


def _shown(line: LogLine) -> str:
    return line.shown()


def _whole(fd: int) -> bytes:
    """Return what a file has, wherever its offset is."""
    return os.pread(fd, os.fstat(fd).st_size, 0)
