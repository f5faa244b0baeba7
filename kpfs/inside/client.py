# SPDX-License-Identifier: GPL-2.0-or-later
"""The local end of ``kpfs run --inside``, in place of the command.

It has the terminal, passes signals on, stops and continues with the command, and exits
with its status. The kernel runs in another process (kpfs.inside.machine).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import select
import signal
import socket
import sys
import termios
import tty
from collections.abc import Iterable
from time import monotonic
from typing import Any

from kpfs.base.errors import SetupError, told_to_user
from kpfs.base.programs import search_path
from kpfs.linux.inside.request import PATIENCE, RunRequest, TerminalState

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
WINSIZE, TERMIOS = 8, 36  # bytes, as the kernel has them


class LostError(Exception):
    """The process that was to run the kernel has ended before the command began."""


class Client:
    """The local end of one command."""

    def __init__(self, channel: socket.socket, patience: float | None = None) -> None:
        """patience: seconds for the command to begin."""
        self._channel = channel
        self._patience = patience
        self._input = b""
        self.reasons: list[str] = []  # what the kernel says of a failure
        self._settings: list[Any] | None = None  # of the terminal, to restore
        self._status: int | None = None
        self._begun = False
        self._running = False  # the command itself, which takes signals
        self._unheard: list[int] = []  # signals that the kernel has not passed on yet
        self._hears_by = 0.0

    def run(self) -> int:
        """Return the command's status, as a shell gives it.

        Raises SetupError, LostError.
        """
        told, tell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        before = signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
        for number in WATCHED:
            signal.signal(number, lambda _number, _frame: None)
        poll = select.poll()
        poll.register(told, select.POLLIN)
        poll.register(self._channel, select.POLLIN)
        self._take_terminal()
        try:
            while self._status is None:
                if not (found := poll.poll(self._wait_ms())):
                    self._wait_no_more()
                for fd, _ in found:
                    if fd == told:
                        self._pass_on(os.read(told, 256))
                    else:
                        self._listen()
        finally:
            self._give_terminal_back()
            signal.set_wakeup_fd(before)
        return self._status

    def _wait_ms(self) -> float | None:
        if self._unheard:
            return max(self._hears_by - monotonic(), 0.0) * 1000
        if self._begun or self._patience is None:
            return None
        return self._patience * 1000

    def _wait_no_more(self) -> None:
        if self._unheard:
            why = f"the kernel does not answer within {PATIENCE:g} s: ended"
            self._end({"status": 128 + self._unheard[0], "why": why})
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
                self._end({"status": 128 + number, "why": ""})
            elif number in FORWARDED:
                self._unheard.append(number)
                self._hears_by = monotonic() + PATIENCE
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
                self._begun = True
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
        if message["why"]:
            print(f"kpfs: {message['why']}", file=sys.stderr, flush=True)
        self._status = message["status"]
        self.reasons = message.get("reasons", [])

    def _stop(self) -> None:
        """Stop like the command, and continue it when this process is continued."""
        self._stand_still()
        self._resize()
        self._unheard.append(signal.SIGCONT)
        self._hears_by = monotonic() + PATIENCE
        self._tell(signal=signal.SIGCONT, group=True)

    def _stand_still(self) -> None:
        self._give_terminal_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._take_terminal()

    # ---- the terminal
    def _take_terminal(self) -> None:
        """Pass on what is typed as it is, to the kernel's terminal."""
        if os.isatty(0):
            self._settings = termios.tcgetattr(0)
            tty.setraw(0, termios.TCSADRAIN)

    def _give_terminal_back(self) -> None:
        if self._settings is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(0, termios.TCSADRAIN, self._settings)
            self._settings = None


def terminal_state(fds: Iterable[int]) -> TerminalState | None:
    """Return the state of the first of these that is a terminal."""
    for fd in fds:
        with contextlib.suppress(OSError):
            return TerminalState(
                fcntl.ioctl(fd, termios.TCGETS, bytes(TERMIOS)),
                fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(WINSIZE)),
            )
    return None


def request_of(argv: list[str], writable: list[str]) -> RunRequest:
    """Describe the command to run, with this process's surroundings.

    Raises SetupError.
    """
    umask = os.umask(0o022)
    os.umask(umask)
    with told_to_user("the current directory"):
        cwd = os.getcwd()
    folders = []
    for folder in writable:
        path = os.path.realpath(folder)
        if not os.path.isdir(path):
            raise SetupError(f"{folder}: not a directory")
        folders.append(path)
    return RunRequest(
        argv=tuple(argv),
        environment={**os.environ, "PATH": search_path()},
        cwd=cwd,
        writable=tuple(folders),
        umask=umask,
        hostname=os.uname().nodename,
        terminal=terminal_state(range(3)),
        files=resource.getrlimit(resource.RLIMIT_NOFILE),
    )
