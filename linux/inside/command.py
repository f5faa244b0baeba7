# SPDX-License-Identifier: GPL-2.0-or-later
"""Run one command inside a Linux kernel: start it, pass signals on, report its end."""

from __future__ import annotations

import errno
import itertools
import math
import mmap
import os
import select
import signal
import socket
import termios
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.ktypes import MASK64
from kpfs.base.programs import NOT_EXECUTABLE, NOT_FOUND
from kpfs.base.signals import ENDING, SIGNALLED
from kpfs.base.units import NSEC
from kpfs.linux.board.own import show
from kpfs.linux.inside import tree
from kpfs.linux.inside.diagnosis import diagnose, kernel_log
from kpfs.linux.inside.hostfiles import VALID, HostFiles
from kpfs.linux.inside.inherited import Inherited, is_null, mode_of, same_stream
from kpfs.linux.inside.loop import Worker
from kpfs.linux.inside.programs import own_machine, why_not
from kpfs.linux.inside.request import RunRequest, own_above
from kpfs.linux.inside.stdio import (
    Input,
    Output,
    PipeInput,
    open_pipe,
    open_terminal,
)
from kpfs.linux.inside.unread import of_terminal
from kpfs.linux.inside.waiting import stacks
from kpfs.linux.inside.waker import Waker
from kpfs.linux.running.chosen import path_of, set_sysctls
from kpfs.linux.running.machine import MachineDiedError, Op, Out, writing

if TYPE_CHECKING:
    from kpfs.linux.inside.failures import Failures
    from kpfs.linux.inside.mounted import PreparedKernel

TROUBLE = 2
TIMED_OUT = 124  # status of a command whose time is over, as of timeout(1)
_FIRST_FREE = 3
_CACHED = VALID * NSEC + 50_000_000  # ns until the kernel asks again, with some ticks
_STILL = 0.5  # s in which nobody reads what a command has written
_LOOK = 0.5  # s between two looks for changes of the host's directories
_SIGACTION = bytes(32)  # SIG_DFL
_SIG_IGN = 1
_REMOVED = b"/.kpfs-removed\0"  # for a moment, stands for a directory that was removed
_IGNORED = (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ)  # the agent ignores these
_ROOM = abi.DATA_SIZE - 8192  # bytes of a slot for one piece, beside a path
_MFD_CLOEXEC = 1
_MODPROBE = "/sbin/modprobe"  # what the kernel starts for a module that it lacks
# begin the reasons that are told of each command, and how many are
_REFUSALS, _MOST_REFUSED = ("write(", "open("), 3


class Outcome(NamedTuple):
    """The outcome of a command."""

    status: int  # exit status as a shell reports it
    why: str = ""  # a line for the user, if the command is not to blame
    reasons: Sequence[str] = ()  # what the kernel says of it, the best one first
    lost: Sequence[str] = ()  # what it has lost, each with its cause

    def is_of_a_run(self) -> bool:
        """Return False for a command that could not be executed."""
        return not self.why or self.status not in (NOT_FOUND, NOT_EXECUTABLE)


class InsideCommand:
    """A command in the kernel, begun when it is made, before anything else runs."""

    def __init__(
        self,
        kernel: PreparedKernel,
        request: RunRequest,
        stdio: Sequence[int],
        failures: Failures | None = None,
        typed: bytes = b"",
    ) -> None:
        """stdio: descriptors of the host, three and those of request.further.

        typed: at the terminal, before.
        """
        self._typed = typed
        self._keys: Input | None = None
        self._failures = failures
        self._oopses = kernel.oopses
        self._loop = loop = kernel.loop
        self._worker, files = kernel.worker, kernel.served.host
        self._request = request
        self._stdio = stdio
        self.outputs: list[Output] = []
        self._inputs: dict[int, PipeInput] = {}  # by the descriptors of the host
        self._terminal: Worker | None = None  # holds the pty's master
        self._screen: tuple[Output, int] | None = None  # reader of the master, its pid
        self._overlays = {tree.ALL: files}  # what lies below each of them
        self._forget_until: dict[str, int] = {}  # overlay: the kernel's time
        self._next_look = 0.0
        self._until = time.monotonic() + (request.timeout or math.inf)
        self._limit = math.inf  # ns of the kernel's clock at which the command is ended
        self._begun_at = 0
        self.ended_at = 0, 0  # blocks and ns of the kernel's clock
        self._kernel = kernel
        self._late = Outcome(0)  # with what is told of a command whose time is over
        self.ended: Outcome | None = None
        self.on_stop: Callable[[int], object] = lambda _signal: None
        self._status = -1
        self._told_to_end = False  # by a signal
        self._left: list[int] = []  # bytes to write, at the last look
        self._moved = 0.0  # when that has changed; s
        self._closed = set[int]()  # descriptors of the host
        self._prepare_guest(files)
        if files.root == b"/":
            files.allow(request.writable)
            self._show_directories()
        else:
            self._show_outside(os.fsdecode(files.root))
        # has the share of processor time that the agent lacks while others run
        self._helper = loop.agent.fork("kpfs-names")
        if not loop.can_rest:
            Waker(loop)
        tree.enter(self._worker)
        set_sysctls(request.sysctls, lambda ops: loop.agent.attempt(*ops))
        self._begin()
        loop.on_turn = self._look_at_host

    # ---- before
    def _prepare_guest(self, files: HostFiles) -> None:
        agent, machine = self._loop.agent, self._loop.machine
        if not machine.quiet:
            # by then the kernel's cache of files, which may be stale, counts no more
            machine.live_through(_CACHED)
            set_clock(agent)
        if files.outdated():  # since the kernel was made ready
            agent.attempt(*tree.forget_names(tree.ALL))
        set_hostname(agent, self._request.hostname or socket.gethostname())
        leave_out_modprobe(agent)

    def _show_directories(self) -> None:
        """Mount the host's writable directories over the overlay."""
        tree.make_directories(self._worker, f"{tree.NEW}/tmp")
        for path in sorted(self._request.writable):
            tree.bind(self._worker, tree.HOST + path, tree.NEW + path)

    def _show_outside(self, root: str) -> None:
        """Show the host directories that the command needs in another root."""
        request = self._request
        cwd = request.cwd
        shows_cwd = cwd and not own_above(cwd) and not os.path.isdir(root + cwd)
        if not shows_cwd and not request.writable:
            return
        files = HostFiles(request.writable)
        tree.serve_outside(self._loop.agent, files)
        if shows_cwd:
            tree.show_outside(self._worker, cwd)
            self._overlays[tree.ALL_OUTSIDE] = files
        for path in sorted(request.writable):
            tree.show_outside(self._worker, path, writable=True)

    def _begin(self) -> None:
        """Fork the command's task and have it begin to call execve()."""
        worker = self._worker
        null = Op(nr.OPEN, (b"/dev/null\0", os.O_RDWR))
        default = Op(nr.RT_SIGACTION, (signal.SIGCHLD, _SIGACTION, 0, 8))
        worker.call(null, null, null, Op(nr.SETSID), default)
        worker.call(Op(nr.UMASK, (self._request.inherited.umask,)))
        ends = self._open_stdio()
        command = self._command = worker.fork("kpfs-command")
        worker.attempt(Op(nr.SETPGID, (command.pid, command.pid)))
        if self._terminal:
            group = worker.model.struct("i").pack(command.pid)
            worker.call(Op(nr.IOCTL, (self._slave, termios.TIOCSPGRP, group)))
        worker.call(*[Op(nr.CLOSE, (fd,)) for fd in set(ends)])
        self._become(command, ends)
        self._wait()

    def _open_stdio(self) -> list[int]:
        """Return the command's descriptors; start to serve their other ends."""
        stdio, apart = self._stdio, self._request.apart
        tty = [os.isatty(fd) and not apart for fd in stdio]
        ends: list[int] = []
        if self._request.terminal:
            master, self._slave = open_terminal(self._worker, self._request.terminal)
            self._serve_terminal(master, stdio[tty.index(True)], tty[0])
        same: dict[tuple[int, int], int] = {}
        for number, fd in enumerate(stdio):
            st = os.fstat(fd)
            key = st.st_dev, st.st_ino
            if tty[number]:
                ends.append(self._slave)
            elif apart and not number:  # when a pipe of this host ends is not ours
                ends += self._worker.call(Op(nr.OPEN, (b"/dev/null\0", os.O_RDONLY)))
            elif apart:
                ends.append(self._pipe_out(fd))
            elif is_null(fd) or (number in (1, 2) and mode_of(fd) == os.O_RDONLY):
                # of what was closed, too: to write to it fails as it does on the host
                ends += self._worker.call(Op(nr.OPEN, (b"/dev/null\0", mode_of(fd))))
            elif number not in (1, 2) and mode_of(fd) != os.O_WRONLY:
                shared = [
                    stdio.index(other)
                    for other in self._inputs
                    if same_stream(fd, other)
                ]
                ends.append(ends[shared[0]] if shared else self._pipe_in(fd))
            elif key in same:
                ends.append(same[key])
            else:  # nobody may read standard input that is open for writing alone
                ends.append(self._pipe_out(fd))
                same[key] = ends[-1]
        return ends

    def _pipe_in(self, fd: int) -> int:
        ours, theirs = self._half_pipe("kpfs-stdin", 1)
        self._inputs[fd] = PipeInput(self._loop, ours[0], ours[1], fd)
        return theirs

    def _pipe_out(self, fd: int) -> int:
        ours, theirs = self._half_pipe("kpfs-stdout", 0)
        self.outputs.append(Output(self._loop, ours[0], ours[1], fd))
        return theirs

    def _half_pipe(self, name: str, end: int) -> tuple[tuple[Worker, int], int]:
        """Fork a worker with one end of a pipe; return it, its end and ours."""
        ends = open_pipe(self._worker)
        server = self._worker.fork(name)
        self._worker.call(Op(nr.CLOSE, (ends[end],)))
        if others := [Op(nr.CLOSE, (fd,)) for fd in range(_FIRST_FREE, ends[end])]:
            server.attempt(*others)
        if end == 0:
            server.call(Op(nr.CLOSE, (ends[1],)))
        return (server, ends[end]), ends[1 - end]

    def _serve_terminal(self, master: int, fd: int, has_input: bool) -> None:
        reader = self._worker.fork("kpfs-tty")
        reader.call(Op(nr.CLOSE, (self._slave,)))
        self._terminal = self._worker.fork("kpfs-tty")
        self._terminal.call(Op(nr.CLOSE, (self._slave,)))
        self._worker.call(Op(nr.CLOSE, (master,)))
        self._screen = Output(self._loop, reader, master, fd), reader.pid
        self.outputs.append(self._screen[0])
        if has_input:
            writer = self._terminal.fork("kpfs-tty")
            self._keys = Input(self._loop, writer, master, fd, self._typed)
        self._master = master

    def _become(self, command: Worker, ends: list[int]) -> None:
        """Turn a worker into the command."""
        request = self._request
        set_up(command, ends, request.inherited, request.further)
        if cwd := request.cwd:
            (result,) = command.attempt(Op(nr.CHDIR, (os.fsencode(cwd) + b"\0",)))
            if result < 0:
                why = f"the current directory, {cwd}: {os.strerror(-result)}"
                if own := own_above(cwd):
                    why += f" (the kernel has a {own} of its own)"
                self.ended = Outcome(TROUBLE, why)
                return
        else:
            made = Op(nr.MKDIR, (_REMOVED, 0o700))
            command.call(made, Op(nr.CHDIR, (_REMOVED,)), Op(nr.RMDIR, (_REMOVED,)))
        self._paths = _candidates(request)
        self._failed = errno.ENOENT
        self._lay_out(command, request.argv)
        self._try(command)

    def _lay_out(self, command: Worker, argv: tuple[str, ...]) -> None:
        """Lay out the arguments and the environment for execve().

        In the slot, or, if they are too long for it, in a mapping of the worker.
        """
        self._argv = argv
        strings = _strings(argv, self._request.environment)
        self._in_slot, base = strings.data, self._loop.machine.address(command.slot, 0)
        model = self._worker.model
        size = len(strings.data) + model.long * (len(strings.places) + 2)
        is_long, fd = size > _ROOM, -1
        if is_long:
            made = Op(nr.MEMFD_CREATE, (b"arguments\0", _MFD_CLOEXEC))
            (fd,) = command.call(made)
            command.write(fd, strings.data)
            how = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED
            (base,) = command.call(Op(nr.MMAP, (0, size, *how, fd, 0)))
        argc = len(argv)
        vectors = b"".join(
            model.struct(f"{len(part) + 1}L").pack(*(base + at for at in part), 0)
            for part in (strings.places[:argc], strings.places[argc:])
        )
        if is_long:
            command.write(fd, vectors)
            self._in_slot = b""
        else:
            self._in_slot += vectors
        at = base + len(strings.data)
        self._vectors = at, at + model.long * (argc + 1)

    def _try(self, command: Worker) -> None:
        """Call execve() with the next candidate path, or report that none is left."""
        if not self._paths:
            status = NOT_FOUND if self._failed == errno.ENOENT else NOT_EXECUTABLE
            self.ended = Outcome(status, self._why_not(command))
            return
        self._path = self._paths.pop(0)
        path = os.fsencode(self._path) + b"\0"
        op = Op(nr.EXECVE, (path, *self._vectors))
        show(command.board, command.slot, seen=True)
        command.start([op], lambda: self._refused(command), self._in_slot)

    def _refused(self, command: Worker) -> None:
        (result,) = command.results(1)
        if -result == errno.ENOEXEC and self._argv is self._request.argv:
            if why := why_not(command, self._path):
                self.ended = Outcome(NOT_EXECUTABLE, why)
                return
            # as execvp() does
            self._lay_out(command, ("/bin/sh", self._path, *self._argv[1:]))
            self._paths = ["/bin/sh"]
        elif -result not in (errno.ENOENT, errno.ENOTDIR):
            self._failed = -result
        self._try(command)

    def _why_not(self, command: Worker) -> str:
        """Return a line for the user on a command that could not be executed."""
        if self._failed in (errno.ENOENT, errno.ENOEXEC):
            shell = ["/bin/sh"] if self._failed == errno.ENOEXEC else []
            for path in _candidates(self._request) + shell:
                if why := why_not(command, path):
                    return why
        return f"{self._request.argv[0]}: {os.strerror(self._failed)}"

    # ---- while it runs
    def _wait(self) -> None:
        status = Out(4)
        self._status_at = self._worker.start(
            [Op(nr.WAIT4, (self._command.pid, status, os.WUNTRACED, 0))], self._changed
        )[0]

    def _changed(self) -> None:
        (pid,) = self._worker.results(1)
        at = self._status_at
        (status,) = self._worker.model.struct("i").unpack_from(self._worker.memory, at)
        if pid != self._command.pid:
            self._wait()
        elif os.WIFSTOPPED(status):
            self.on_stop(self._signal_of(os.WSTOPSIG(status)))
            self._wait()
        elif os.WIFSIGNALED(status):
            self._status = 128 + self._signal_of(os.WTERMSIG(status))
        else:
            self._status = os.WEXITSTATUS(status)

    def _signal_of(self, number: int) -> int:
        """Return a signal of the kernel by the host's number."""
        return self._worker.arch.signals.get(number, number)

    def signal(self, number: int, *, group: bool) -> None:
        """Send the command a signal, or its whole process group.

        One that has ended gets none: only its output is left to be written.
        """
        self._told_to_end |= number in (*ENDING, signal.SIGQUIT)
        if self._status < 0:
            pid = -self._command.pid if group else self._command.pid
            self._helper.attempt(Op(nr.KILL, (pid, number)))

    def _look_at_host(self) -> None:
        """Have overlays see what has come and gone in directories of the host.

        What lies below an overlay may not have asked for it at once. So the overlay
        has to forget until everything there is new.
        """
        machine, now = self._loop.machine, time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK
        self._check_workers()
        if now > self._until and self._status < 0:
            self._time_out(self._request.timeout)
        if machine.quiet or self._helper.busy:
            return
        ops: list[Op] = []
        for overlay, files in self._overlays.items():
            if files.outdated():
                self._forget_until[overlay] = machine.now() + _CACHED
            if overlay in self._forget_until:
                ops += tree.forget_names(overlay, len(ops))
                if self._forget_until[overlay] < machine.now():
                    del self._forget_until[overlay]
        if ops:
            self._helper.start(ops, lambda: None)

    def _is_over(self) -> bool:
        """Return True if the command has ended, or its time by the kernel's clock."""
        now = self._loop.machine.now()
        if self.ended is None and self._status < 0 and now > self._limit:
            self._time_out((self._limit - self._begun_at) / NSEC)
        return self.ended is not None or self._status >= 0

    def limit_to(self, ns: int) -> None:
        """Have the command end in so many ns of the kernel's clock."""
        self._begun_at = self._loop.machine.now()
        self._limit = self._begun_at + ns

    @property
    def timed_out(self) -> bool:
        return self._late.status != 0

    @property
    def why_late(self) -> str:
        """Words for a command whose time was over, "" if it was not."""
        return self._late.why

    def _time_out(self, seconds: float) -> None:
        """End the command, and note what all programs do that there are."""
        self._status, self._until, self._told_to_end = TIMED_OUT, math.inf, True
        ours = [self._loop.agent.pid, *(w.pid for w in self._loop.workers.values())]
        ours.remove(self._command.pid)
        why = f"CMD still runs after {seconds:g} s"
        told = stacks(self._kernel, ours)
        if self._request.explained:
            self._late = Outcome(TIMED_OUT, "", [why, *told])
        else:
            self._late = Outcome(TIMED_OUT, "\n  ".join([why, *told]))

    def _check_workers(self) -> None:
        """Raise MachineDiedError if an oops leaves somebody waiting without an end."""
        if self._oopses.happened():
            pids = [worker.pid for worker in self._loop.workers.values()]
            if self._oopses.have_killed(pids):
                why = f"it has killed a process of kpfs: {self._oopses.told()}"
                raise MachineDiedError(why)
            if does := self._oopses.stuck():
                oops = self._oopses.told()
                raise MachineDiedError(f"a task {does} after an oops: {oops}")

    def resize(self, size: bytes) -> None:
        """Pass a new size of the host's terminal on; size is a struct winsize."""
        terminal = self._terminal
        if terminal and not terminal.busy:
            op = Op(nr.IOCTL, (self._master, termios.TIOCSWINSZ, size))
            terminal.attempt(op)

    def type(self, data: bytes) -> None:
        """Pass on what was typed at the host's terminal while it was not ours."""
        if data and self._keys:
            self._keys.add(data)

    def run(self) -> Outcome:
        """Run the kernel until the command ends; return how it ended.

        Its output is written then, too, unless it was told to end and nobody reads:
        see is_written.
        """
        loop = self._loop
        loop.run(self._is_over)
        self.ended_at = loop.machine.board.blocks, loop.machine.now()
        loop.forget(self._command)
        for _ in range(2):  # a process of kpfs never ends as it should
            self._check_workers()
        if self.ended is None:
            self._drain()
            # the worker waits for a command that has not ended
            worker = self._helper if self._late.status else self._worker
            log = kernel_log(worker) if self._status else ""
            why, reasons = diagnose(worker.board, log), list[str]()
            lost = next((out.lost for out in self.outputs if out.lost), "")
            if lost:  # a pipe took it, so the command does not know
                why = f"not all that CMD wrote could be written: {lost}"
                if self._status in (0, SIGNALLED + signal.SIGPIPE):
                    self._status = TROUBLE
            unread = next((one.lost for one in self._inputs.values() if one.lost), "")
            if unread:  # which looked to it like the end
                why = why or f"CMD's input could not be read: {unread}"
                self._status = self._status or TROUBLE
            if self._status and self._failures:
                reasons = self._failures.told(worker, log)
                if not self._request.explained:
                    refused = [why for why in reasons if why.startswith(_REFUSALS)]
                    reasons = refused[:_MOST_REFUSED]
            if self._failures and (oopses := self._oopses.first()):
                # whatever the status is
                told = "\n".join(oopses)
                reasons = [*oopses, *(each for each in reasons if each not in told)]
            if self._late.status:
                why, reasons = self._late.why, [*self._late.reasons, *reasons]
            self.ended = Outcome(self._status, why, reasons)
        return self.ended._replace(lost=self._kernel.losses.told())

    def _drain(self) -> None:
        """Write out what the command left in its pipes, not what its children may."""
        self._loop.settle_all()
        for one in self._inputs.values():
            one.finish(self._helper)
        for output in self.outputs:
            output.finish()
        self._loop.run(lambda: self.is_written or self._stands_still())

    def _stands_still(self) -> bool:
        """Return True if the command was told to end, and nobody reads its output."""
        left, now = [output.left for output in self.outputs], time.monotonic()
        if left != self._left:
            self._left, self._moved = left, now
        return self._told_to_end and now - self._moved >= _STILL

    @property
    def is_written(self) -> bool:
        """Return True if all of its output is written, or can never be."""
        return not any(output.left for output in self.outputs)

    def write_rest(self) -> None:
        """Write the rest of the output, however late it is read. MachineDiedError."""
        self._loop.run(self._lets_go)

    def read_rest(self) -> bool:
        """Read what a dead kernel has of its output, and write what is taken now.

        Return False if it may have more that nobody has read.
        """
        if self._screen:
            output, reader = self._screen
            output.add(of_terminal(self._kernel, reader, self._master))
        for one in self._inputs.values():
            one.finish_dead(self._kernel)
        is_read = all(output.is_read for output in self.outputs)
        for output in self.outputs:
            output.write_out()
        return is_read

    def write_out(self) -> None:
        """Write what was read of the output of a kernel that is dead, likewise."""
        while not self._lets_go():
            poll = select.poll()
            for output in self.outputs:
                if output.left:
                    poll.register(output.fd, select.POLLOUT)
            poll.poll()
            for output in self.outputs:
                output.write_out()

    def _lets_go(self) -> bool:
        """Have readers of what is written see its end; return True when all is."""
        written = {output.fd for output in self.outputs if not output.left}
        if new := {*self._stdio, *written} - self._closed:
            null = os.open(os.devnull, os.O_RDWR)
            for fd in new:
                os.dup2(null, fd)
            os.close(null)
            self._closed |= new
        return self.is_written


class _Strings(NamedTuple):
    data: bytes
    places: list[int]


def _strings(argv: tuple[str, ...], environment: dict[str, str]) -> _Strings:
    """Lay out arguments and environment as one block of strings, with their offsets."""
    data, places = bytearray(), []
    variables = [f"{name}={value}" for name, value in environment.items()]
    for text in (*argv, *variables):
        places.append(len(data))
        data += os.fsencode(text) + b"\0"
    data += bytes(-len(data) % 8)
    return _Strings(bytes(data), places)


def _candidates(request: RunRequest) -> list[str]:
    """Return the paths that a command's name may mean, in the order of execvp(3)."""
    name = request.argv[0]
    if "/" in name:
        return [name]
    path = request.environment.get("PATH", os.defpath)
    return [os.path.join(folder or ".", name) for folder in path.split(":")]


def set_clock(agent: Worker) -> None:
    """Set the kernel's time of day to the host's, if Linux takes it.

    It takes no time before 1970 and its own uptime, as that of a host that has lost the
    time has it. The kernel keeps its own then.
    """
    now = agent.model.struct("2q").pack(*divmod(time.time_ns(), NSEC))
    agent.attempt(Op(nr.CLOCK_SETTIME, (time.CLOCK_REALTIME, now)))


def set_hostname(agent: Worker, name: str) -> None:
    raw = os.fsencode(name)
    agent.call(Op(nr.SETHOSTNAME, (raw, len(raw))))


def leave_out_modprobe(agent: Worker) -> None:
    """Have the kernel start no modprobe if it is for another architecture.

    A program that the kernel cannot run starts it, it would start itself, and so on for
    5 s.
    """
    is_foreign = agent.board.arch.elf_machine != own_machine()
    if is_foreign and why_not(agent, _MODPROBE):
        agent.attempt(*writing(path_of("kernel.modprobe"), ""))


def set_up(
    worker: Worker,
    ends: Sequence[int],
    inherited: Inherited,
    further: Sequence[int] = (),
) -> None:
    """Prepare a worker for execve().

    ends: its descriptors to be, the standard ones and those of further.
    """
    groups = [0 if gid == os.getgid() else gid for gid in os.getgroups()]
    packed = worker.model.struct(f"{len(groups)}I").pack(*groups)
    limits = worker.model.struct("2Q")
    # MIPS has flags before the handler: this bit of them is about SIGCHLD alone
    ignore = worker.model.struct("2L").pack(_SIG_IGN, _SIG_IGN)
    ignore += _SIGACTION[len(ignore) :]
    if further:  # one end may be where another one is to be
        above = max(further) + 1
        ends = worker.call(*(Op(nr.FCNTL, (fd, nr.F_DUPFD, above)) for fd in ends))
    numbers = (*range(_FIRST_FREE), *further)
    moves = zip(ends, numbers, strict=True)
    worker.call(*(Op(nr.DUP2, (fd, number)) for fd, number in moves))
    for before, number in itertools.pairwise(numbers):
        if number > before + 1:
            worker.close_from(before + 1, number - 1)
    worker.close_from(numbers[-1] + 1)
    worker.call(
        *(Op(nr.RT_SIGACTION, (number, _SIGACTION, 0, 8)) for number in _IGNORED),
        Op(nr.SETGROUPS, (len(groups), packed)),
        Op(nr.SETPRIORITY, (os.PRIO_PROCESS, 0, inherited.nice)),
    )
    if inherited.oom_score_adj:
        score = str(inherited.oom_score_adj)
        worker.attempt(*writing("/proc/self/oom_score_adj", score))
    for number in inherited.ignored:
        worker.attempt(Op(nr.RT_SIGACTION, (number, ignore, 0, 8)))
    if inherited.no_new_privs:
        worker.attempt(Op(nr.PRCTL, (nr.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)))
    worker.attempt(
        *(
            Op(nr.PRLIMIT64, (0, number, limits.pack(soft & MASK64, hard & MASK64), 0))
            for number, soft, hard in inherited.limits
        )
    )
