# SPDX-License-Identifier: GPL-2.0-or-later
"""A program at a terminal, as somebody who types and reads sees it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
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
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
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

    def until(self, text: str) -> str:
        """What has come since the last time, up to the end of text."""
        deadline = time.monotonic() + PATIENCE
        while text not in (plain := ESCAPES.sub("", self.shown)):
            left = deadline - time.monotonic()
            assert left > 0, f"no {text!r} in {plain!r}"
            assert self._read(left), f"it ended without {text!r}: {plain!r}"
        end = plain.index(text) + len(text)
        self.shown = plain[end:]
        return plain[:end]

    def ended(self) -> int:
        """Its exit status, once it has ended."""
        while self._read(PATIENCE):
            pass
        os.close(self.fd)
        self.fd = -1
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
