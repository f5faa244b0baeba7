# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs a Linux kernel with a command inside, as a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kpfs.base.errors import KernelError, SetupError
from kpfs.base.kinds import IBT
from kpfs.config import OF_KERNEL, CheckChoice, CoverageChoice, GdbChoice, KernelChoice
from kpfs.emulator.libunicorn import EmulatorError
from kpfs.host import process
from kpfs.linux.board.stops import is_end, is_locked_up
from kpfs.linux.errors import UnfitError
from kpfs.linux.inside import mounted
from kpfs.linux.inside.command import TROUBLE, InsideCommand, Outcome
from kpfs.linux.inside.loop import CallError
from kpfs.linux.inside.mounted import PreparedKernel
from kpfs.linux.inside.request import RunRequest
from kpfs.linux.store import store

if TYPE_CHECKING:
    from kpfs.linux.search.replay import Replay
    from kpfs.linux.search.seed import Seed

TOLD = UnfitError, EmulatorError, CallError, KernelError, SetupError  # for users
FOUND = 1  # the status of a run whose modules have errors
_DEEPEST = 12  # functions of a stack that are told
LEFT_TO_CLIENT = (  # signals that it passes on, or obeys itself
    *(signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP),
    *(signal.SIGTSTP, signal.SIGTTOU, signal.SIGTTIN),
)


def start(choice: KernelChoice, waiting: int) -> PreparedKernel:
    """Start a kernel that has the host's files below a root.

    waiting: a descriptor whose other end is closed when nobody waits any more.
    Raises UnfitError, EmulatorError, CallError.
    """
    folder = store.folder(choice.kernel)
    ended = select.poll()
    ended.register(waiting, 0)
    return mounted.start(
        folder,
        quiet=choice.quiet,
        root=choice.root,
        wanted=lambda: not ended.poll(0),
    )


class CheckLines(NamedTuple):
    """Lines about what checks have found."""

    errors: Sequence[str] = ()  # that modules have
    notes: Sequence[str] = ()  # on what could not be judged


class CommandSession:
    """The run of one command, for a client at the other end of a socket."""

    def __init__(
        self,
        kernel: PreparedKernel,
        client: socket.socket,
        found: Callable[[], CheckLines] = CheckLines,
    ) -> None:
        """found: called when the command has ended."""
        self._found = found
        self._loop = kernel.loop
        self._kernel = kernel
        self._client = client
        self._input = b""
        self._command: InsideCommand | None = None
        self._typed = b""  # before the command began
        # called when the command has run; SetupError
        self.on_end: Callable[[], None] = lambda: None
        self.replay: Replay | None = None

    def run(self, request: RunRequest, stdio: list[int]) -> None:
        """Run the command and tell the client how it has ended. Raises nothing.

        A client that does not wait any more has the command run elsewhere.
        """
        os.umask(0)  # the kernel has applied the command's
        if not self._tell(begun=os.getpid()):
            return
        rest: Callable[[], None] | None = None
        try:
            command = self._begin(request, stdio)
            ended = command.run()
            rest = None if command.is_written else command.write_rest
        except (KernelError, CallError) as error:
            why = self._why_not(error)
            if self._command:
                is_read = self._command.read_rest()
                rest = None if self._command.is_written else self._command.write_out
                if not is_read:
                    why += "; the end of its output may be lost, as it was not read"
            ended = Outcome(TROUBLE, why, [why])
        except UnfitError as error:  # a sysctl does not take its value
            ended = Outcome(TROUBLE, str(error))
        except Exception as error:
            ended = Outcome(TROUBLE, _fault(error))
        if self.replay is not None:
            ended = ended._replace(reasons=[*ended.reasons, *self.replay.told()])
        try:
            if ended.is_of_a_run():
                self.on_end()
        except SetupError as error:
            ended = Outcome(TROUBLE, str(error))
        found = self._found()
        ended = ended._replace(
            status=FOUND if found.errors else ended.status,
            reasons=[*ended.reasons, *found.errors, *found.notes],
        )
        told = ended._asdict() | {"left": rest is not None}
        if rest is None:
            self._tell(**told)
            return
        process.outlive_parent()  # to wait for a reader, as a pipe would
        self._loop.unwatch(self._client.fileno())
        self._tell(**told)
        with contextlib.suppress(KernelError, CallError):  # nobody is left to be told
            rest()

    def _why_not(self, error: Exception) -> str:
        """Return why the command does not go on, or cannot begin."""
        dead = self._loop.machine.dead
        if is_end(dead):
            return f"the kernel ended with CMD: {dead}"
        if isinstance(error, CallError):
            return f"CMD cannot run in this kernel: {error}"
        return f"the kernel died: {error}{self._where()}"

    def _where(self) -> str:
        """Return where a kernel was that is locked up, or why it panicked."""
        dead = self._loop.machine.dead
        if not is_locked_up(dead):
            oopses = self._kernel.oopses.first() if "panic" in dead else []
            return f": {oopses[0]}" if oopses else ""
        from kpfs.linux.running.stacks import Stacks

        found = Stacks(self._kernel).running(_DEEPEST)
        return f"; it was in {', '.join(found)}"

    def _begin(self, request: RunRequest, stdio: list[int]) -> InsideCommand:
        if request.terminal:
            self._listen()  # what was typed ahead
        typed = self._typed
        self._loop.watch(self._client.fileno(), select.POLLIN, self._listen)
        if self.replay is not None:  # a run of a search has nobody else that watches
            command = self.replay.begin(request, stdio)
        else:
            command = self._watched(request, stdio, typed)
        self._command = command
        command.type(self._typed[len(typed) :])
        command.on_stop = self._stopped
        self._tell(running=True)
        return command

    def _watched(
        self, request: RunRequest, stdio: list[int], typed: bytes
    ) -> InsideCommand:
        """Begin a command whose failures are explained."""
        kernel, failures = self._kernel, None
        # after a session at a terminal, what was refused long ago would only disturb
        if request.explained or request.terminal is None:
            from kpfs.linux.inside.failures import Failures

            failures = Failures(kernel, kernel.worker, partial(_advice, kernel))
        return InsideCommand(kernel, request, stdio, failures, typed)

    def _tell(self, **message: object) -> bool:
        """Send a message. Return True if the client can still read it."""
        with contextlib.suppress(OSError):
            self._client.sendall(json.dumps(message).encode() + b"\n")
            return True
        return False

    def _listen(self) -> None:
        """Do what the client says. This process ends when the client is gone."""
        data = b""
        with contextlib.suppress(OSError):
            data = self._client.recv(4096)
        if not data:
            os._exit(0)
        *lines, self._input = (self._input + data).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))

    def _obey(self, message: dict[str, Any]) -> None:
        if self._command is None:
            self._typed += bytes.fromhex(message.get("typed", ""))
            return
        if "typed" in message:
            self._command.type(bytes.fromhex(message["typed"]))
        elif "signal" in message:
            self._command.signal(message["signal"], group=message["group"])
            self._tell(passed=message["signal"])
        elif "size" in message:
            self._command.resize(bytes.fromhex(message["size"]))

    def _stopped(self, number: int) -> None:
        """Let the kernel stand still until the client continues it."""
        self._tell(stopped=number)
        self._listen()


def _advice(kernel: PreparedKernel, point: str, way: str) -> str:
    """Return why a way leads to no probe at a point, "" if it does or that is none."""
    from kpfs.explain.kernels import why_not

    with contextlib.suppress(SetupError):
        return why_not(kernel.saved, point, way)
    return ""


def run_for(
    client: socket.socket,
    choice: KernelChoice,
    request: RunRequest,
    gdb: GdbChoice | None = None,
    coverage: CoverageChoice | None = None,
    checks: CheckChoice | None = None,
    seed: Seed | None = None,
    files: socket.socket | None = None,
) -> None:
    """Be the process of a command, with the command's standard streams.

    files: where another process asks for the kernel's files.
    """
    for number in LEFT_TO_CLIENT:
        signal.signal(number, signal.SIG_IGN)
    try:
        kernel = start(choice, client.fileno())
        if gdb is not None or coverage is not None or checks or files is not None:
            kernel.leave_out_modules()
        replay = None if seed is None else _replay(kernel, seed)
        if gdb is not None:
            _let_gdb_in(kernel, gdb, replay)
        if files is not None:
            from kpfs.backends.backend import inside_files

            inside_files()(kernel, files)
        found = _check(kernel, checks) if checks else CheckLines
        session = CommandSession(kernel, client, found)
        if coverage is not None:
            session.on_end = _cover(kernel, coverage)
        session.replay = replay
        session.run(request, [0, 1, 2, *request.further])
    except TOLD as error:
        refuse(client, str(error))
    except Exception as error:
        refuse(client, _fault(error))


def _replay(kernel: PreparedKernel, seed: Seed) -> Replay:
    from kpfs.linux.search.replay import Replay

    return Replay(kernel, seed)


def _let_gdb_in(
    kernel: PreparedKernel, choice: GdbChoice, replay: Replay | None
) -> None:
    """Serve gdb from now on, and perhaps wait until it lets the kernel go on."""
    from kpfs.backends.backend import inside_debugged
    from kpfs.gdb.server import start

    debugged = inside_debugged()(kernel, replay and replay.described)
    server = start(debugged, choice.folder, choice.at)
    server.open(hold=choice.wait)
    debugged.lock.__enter__()  # for good: gdb stops this thread between its turns


def _cover(kernel: PreparedKernel, choice: CoverageChoice) -> Callable[[], None]:
    """Record what is reached; return what writes that. KernelError."""
    from kpfs.backends.backend import inside_coverage

    recorded = inside_coverage()(kernel, of_kernel=choice.of == OF_KERNEL)
    return lambda: choice.write(os.fsencode(recorded.report().tracefile()))


def _fault(error: Exception) -> str:
    """Return a line for what kpfs itself has done wrong: nobody would look in a log."""
    import traceback

    place = traceback.extract_tb(error.__traceback__)[-1]
    file = f"{os.path.basename(place.filename)}:{place.lineno}"
    return f"a fault of kpfs: {type(error).__name__} in {file}: {error}"


def _check(kernel: PreparedKernel, choice: CheckChoice) -> Callable[[], CheckLines]:
    """Look for errors of modules; return what tells the findings.  UnfitError."""
    from kpfs.coverage.module_lines import ModuleLines
    from kpfs.coverage.told_races import ToldRaces
    from kpfs.linux.search.checks import ModuleChecks
    from kpfs.linux.search.reports import UNTRACKED, counted_words, function_of

    checks = ModuleChecks(kernel, choice.kinds, of=choice.of)
    lines = ModuleLines(checks.files.by_name)

    races = ToldRaces(lines)

    def told() -> CheckLines:
        reports = {tuple(report.key): report for report in checks.reports()}
        found = [
            lines.shown(report.text)
            for report in reports.values()
            if races.is_told(report)
        ]
        notes = []
        if races.unknown:
            notes.append(
                f"{len(races.unknown)} pairs of accesses that race lie in code without "
                "debug information (build it with -g): READ_ONCE() cannot be seen there"
            )
        if checks.untracked:
            notes.append(UNTRACKED.format(checks.untracked))
        if not checks.looked and not choice.of and IBT not in choice.kinds:
            notes.append("nothing was checked: CMD loaded no module or BPF program")
        counted = Counter(
            (report.kind, function_of(report.title))
            for report in checks.counted()
            if races.is_told(report)
        )
        more = counted_words(counted, checks.lost)
        missing = [
            f"--of {name}: CMD loads no module or BPF program of that name, and the "
            "kernel has no such function"
            for name in checks.missing
        ]
        return CheckLines([*found, *more, *missing], notes)

    return told


def refuse(client: socket.socket, why: str) -> None:
    """Tell a client that no kernel can be had."""
    message = {"status": TROUBLE, "why": why}
    with contextlib.suppress(OSError):
        client.sendall(json.dumps(message).encode() + b"\n")
