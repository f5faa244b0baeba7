# SPDX-License-Identifier: GPL-2.0-or-later
"""A program at a terminal, as its user sees it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Sequence
from types import TracebackType

PATIENCE = 30.0  # s
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b[=>]|[\r\x07]")


class Terminal:
    """Runs a program at a new terminal of 100 columns and 30 lines until it is left."""

    def __init__(self, words: Sequence[str], **settings: str) -> None:
        self.pid, self.fd = pty.fork()
        if not self.pid:
            try:
                os.execvpe(words[0], list(words), {**os.environ, **settings})
            finally:
                os._exit(127)
        self.resize(30, 100)
        self.shown = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self.fd >= 0:
            os.close(self.fd)  # hangs up
            os.waitpid(self.pid, 0)

    def type(self, text: str) -> None:
        """Press the keys."""
        os.write(self.fd, text.encode())

    def expect(self, pattern: str) -> re.Match[str]:
        """Wait until the output matches; forget it up to the end of the match."""
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, plain := ESCAPES.sub("", self.shown))):
            left = deadline - time.monotonic()
            assert left > 0, f"no {pattern!r} in {plain!r}"
            assert self._read(left), f"it ended without {pattern!r}: {plain!r}"
        self.shown = plain[found.end() :]
        return found

    def until(self, text: str) -> str:
        """Wait for a text; return the output since the last time, up to its end."""
        found = self.expect(re.escape(text))
        return found.string[: found.end()]

    def resize(self, rows: int, columns: int) -> None:
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, size)

    def ended(self) -> int:
        """Wait until the command has ended; return its exit status."""
        while self._read(PATIENCE):
            pass
        return self.hang_up()

    def hang_up(self) -> int:
        """Take the terminal away; return the exit status of the command.

        A command that does not end is killed.
        """
        os.close(self.fd)
        self.fd = -1
        with os.fdopen(os.pidfd_open(self.pid)) as pidfd:
            if not select.select([pidfd], [], [], PATIENCE)[0]:
                os.kill(self.pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self, seconds: float) -> bool:
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # Linux says EIO for the end
            return False
        self.shown += data.decode(errors="replace")
        return bool(data)
