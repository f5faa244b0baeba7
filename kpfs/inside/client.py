# SPDX-License-Identifier: GPL-2.0-or-later
"""The local end of ``kpfs run --inside``, in place of the command.

It has the terminal, passes signals on, stops and continues with the command, and exits
with its status. The kernel runs in another process (kpfs.inside.machine).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import socket
import sys
import termios
import tty
from collections.abc import Callable, Iterable
from typing import Any

from kpfs.base.errors import SetupError, told_to_user
from kpfs.base.programs import search_path
from kpfs.base.signals import ENDING, SIGNALLED
from kpfs.host import patience
from kpfs.linux.inside import inherited
from kpfs.linux.inside.request import PATIENCE, RunRequest, TerminalState, own_above

FORWARDED = {  # True: for the whole group, as from a terminal
    signal.SIGINT: True,
    signal.SIGQUIT: True,
    signal.SIGTSTP: True,
    signal.SIGHUP: True,
    signal.SIGTERM: False,
    signal.SIGUSR1: False,
    signal.SIGUSR2: False,
}
WATCHED = (*FORWARDED, signal.SIGWINCH, signal.SIGCONT)
ENDS = (*ENDING, signal.SIGQUIT)
SOON = 2.0  # s for the kernel to take one of these
WINSIZE, TERMIOS = 8, 36  # bytes, as the kernel has them
_LFLAG, _CC = 3, 6  # places in what termios.tcgetattr() returns
_LINE_ENDS = termios.VEOF, termios.VEOL, termios.VEOL2
_TYPED_MAX = 4096  # bytes that a terminal has at most
# names a queue of messages of the host, for whose answers programs would wait for good
_FAKEROOT = "FAKEROOTKEY"


class LostError(Exception):
    """The process that was to run the kernel has ended before the command began."""


class Client:
    """The local end of one command."""

    def __init__(
        self,
        channel: socket.socket,
        patience: float | None = None,
        *,
        tells: bool = True,
    ) -> None:
        """patience: seconds for the command to begin.

        tells: False if the caller tells what the kernel says and has lost.
        """
        self._tells = tells
        self._channel = channel
        self._patience = patience
        self._input = b""
        self.reasons: list[str] = []  # what the kernel says of a failure
        self.lost: list[str] = []  # what it has lost
        self.is_written = True  # what the command has written, by the other process
        self._settings: list[Any] | None = None  # the terminal's, to restore
        self._status: int | None = None
        self._begun = False
        self._running = False  # the command itself, which takes signals
        self._unheard: list[int] = []  # signals that the kernel has not passed on yet
        self._kernel = 0  # pid of the process that runs it

    def run(self) -> int:
        """Return the command's status, as a shell gives it.

        Raises SetupError, LostError.
        """
        told, tell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        before = signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
        for number in WATCHED:
            if signal.getsignal(number) != signal.SIG_IGN:  # so does the command
                signal.signal(number, lambda _number, _frame: None)
        poll = select.poll()
        poll.register(told, select.POLLIN)
        poll.register(self._channel, select.POLLIN)
        self._take_terminal()
        try:
            while self._status is None:
                if not self._wait(poll, told):
                    self._wait_no_more()
        finally:
            self._give_terminal_back()
            signal.set_wakeup_fd(before)
        return self._status

    def _wait(self, poll: select.poll, told: int) -> bool:
        """Do what there is to do; return False if that does not come in time."""
        if not self._unheard:
            begins = self._begun or self._patience is None
            return self._look(poll, told, None if begins else self._patience)
        ends = any(number in ENDS for number in self._unheard)

        def heard(step: float) -> bool:
            self._look(poll, told, step)
            return not self._unheard or self._status is not None

        return patience.comes(self._kernel, SOON if ends else PATIENCE, heard)

    def _look(self, poll: select.poll, told: int, seconds: float | None) -> bool:
        """Wait for so long; return True if there was something, which is done then."""
        found = poll.poll(None if seconds is None else seconds * 1000)
        for fd, _ in found:
            if fd == told:
                self._pass_on(os.read(told, 256))
            else:
                self._listen()
        return bool(found)

    def _wait_no_more(self) -> None:
        if self._unheard:
            number = self._unheard[0]
            why = f"the kernel does not take {signal.Signals(number).name}: ended"
            self._end({"status": SIGNALLED + number, "why": why})
        else:
            # it cannot tell us any more that it begins, so it does not
            self._channel.shutdown(socket.SHUT_RD)

    def _tell(self, **message: object) -> None:
        with contextlib.suppress(OSError):
            self._channel.sendall(json.dumps(message).encode() + b"\n")

    def _pass_on(self, numbers: bytes) -> None:
        for number in numbers:
            if number == signal.SIGWINCH:
                self._resize()
            elif number == signal.SIGTSTP and not self._running:
                self._stand_still()
            elif number in FORWARDED and not self._running:
                self._end({"status": SIGNALLED + number, "why": ""})
            elif number in FORWARDED:
                if number in self._unheard and number in ENDS:
                    self._wait_no_more()
                    return
                self._unheard.append(number)
                self._tell(signal=number, group=FORWARDED[signal.Signals(number)])

    def _resize(self) -> None:
        for fd in range(3):
            with contextlib.suppress(OSError):
                size = fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(WINSIZE))
                self._tell(size=size.hex())
                return

    def _listen(self) -> None:
        data = b""
        with contextlib.suppress(ConnectionError):
            data = self._channel.recv(4096)
        if not data and not self._begun:
            raise LostError
        if not data:
            raise SetupError("the process that runs the kernel was killed")
        *lines, self._input = (self._input + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "begun" in message:
                self._begun, self._kernel = True, message["begun"]
            elif "running" in message:
                self._running = True
            elif "passed" in message:
                self._unheard = self._unheard[1:]
            elif "stopped" in message:
                self._stop()
            else:
                self._end(message)

    def _end(self, message: dict[str, Any]) -> None:
        self._give_terminal_back()
        self.lost = message.get("lost", [])
        self.reasons = message.get("reasons", [])
        told = [message["why"]] * bool(message["why"])
        if self._tells:
            told += [why for why in self.reasons if why not in told]
            told += [f"lost: {line}" for line in self.lost]
        for line in told:
            with contextlib.suppress(OSError):  # the status tells it, too
                print(f"kpfs: {line}", file=sys.stderr, flush=True)
        self._status = message["status"]
        self.is_written = not message.get("left")

    def _stop(self) -> None:
        """Stop like the command, and continue it when this process is continued."""
        self._stand_still()
        self._resize()
        self._unheard.append(signal.SIGCONT)
        self._tell(signal=signal.SIGCONT, group=True)

    def _stand_still(self) -> None:
        self._give_terminal_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._take_terminal()

    # ---- the terminal
    def _take_terminal(self) -> None:
        """Pass on what is typed as it is, to the kernel's terminal.

        What was typed before is told, with the ends of files that were.
        """
        if not os.isatty(0):
            if any(map(os.isatty, range(1, 3))):  # that is waited for
                self._tell(typed="")
            return
        self._settings = before = termios.tcgetattr(0)
        # in the background this stops us, and says EINTR when we go on
        _until_done(lambda: termios.tcsetattr(0, termios.TCSADRAIN, before))
        typed = _typed_ahead(before)
        _until_done(lambda: tty.setraw(0, termios.TCSADRAIN))
        self._tell(typed=typed.hex())

    def _give_terminal_back(self) -> None:
        if self._settings is not None:
            settings, self._settings = self._settings, None
            with contextlib.suppress(termios.error):
                _until_done(lambda: termios.tcsetattr(0, termios.TCSADRAIN, settings))


def _typed_ahead(settings: list[Any]) -> bytes:
    """Take the whole lines that were typed at the terminal.

    In raw mode the end of a file would be read as a zero.
    """
    typed, (end, *ends) = b"", (settings[_CC][number] for number in _LINE_ENDS)
    poll = select.poll()
    poll.register(0, select.POLLIN)
    while settings[_LFLAG] & termios.ICANON and len(typed) < _TYPED_MAX:
        if poll.poll(0) != [(0, select.POLLIN)]:  # nothing, or it has hung up
            break
        line = os.read(0, _TYPED_MAX)
        typed += line if line.endswith((b"\n", *ends)) else line + end
    return typed


def _until_done(change: Callable[[], object]) -> None:
    """Change the terminal, again and again if signals interrupt that. termios.error."""
    while True:
        try:
            change()
            return
        except termios.error as error:
            if error.args[0] != errno.EINTR:
                raise


def terminal_state(fds: Iterable[int]) -> TerminalState | None:
    """Return the state of the first of these that is a terminal."""
    for fd in fds:
        with contextlib.suppress(OSError):
            return TerminalState(
                fcntl.ioctl(fd, termios.TCGETS, bytes(TERMIOS)),
                fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(WINSIZE)),
            )
    return None


def request_of(
    argv: list[str], writable: list[str], timeout: float = 0.0
) -> RunRequest:
    """Describe the command to run, with this process's surroundings.

    timeout: s that it has, 0: as many as it wants.  Raises SetupError.
    """
    cwd = ""
    with told_to_user("the current directory"), contextlib.suppress(FileNotFoundError):
        cwd = os.getcwd()
    folders = []
    for folder in writable:
        path = os.path.realpath(folder)
        if not os.path.isdir(path):
            raise SetupError(f"{folder}: not a directory")
        if own := own_above(path):
            raise SetupError(f"--rw {folder}: the kernel has a {own} of its own")
        folders.append(path)
    environment = {**os.environ, "PATH": search_path()}
    environment.pop(_FAKEROOT, None)
    return RunRequest(
        argv=tuple(argv),
        environment=environment,
        cwd=cwd,
        writable=tuple(folders),
        hostname=os.uname().nodename,
        terminal=terminal_state(range(3)),
        inherited=inherited.of_process(),
        timeout=timeout,
    )
