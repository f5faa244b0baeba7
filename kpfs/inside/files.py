# SPDX-License-Identifier: GPL-2.0-or-later
"""The files of a kernel that has a command inside, as paths for another process.

kpfs.backends.linux.inside_files answers, in the process of the kernel.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from threading import Lock
from typing import Any

ANSWER_TIME = 20.0  # s for an answer: a debugger may have stopped the kernel


class InsideChannel:
    """The connection to the process of a kernel."""

    def __init__(self, channel: socket.socket, pid: int) -> None:
        """pid: of that process."""
        self.pid = pid
        self._channel, self._lock, self._number = channel, Lock(), 0
        self._input = b""
        channel.settimeout(ANSWER_TIME)

    def fileno(self) -> int:
        return self._channel.fileno()

    def ask(self, path: str, **asked: object) -> dict[str, Any]:
        """Return the answer to one request.  OSError, also of the file itself."""
        with self._lock:
            self._number += 1
            request = asked | {"path": path, "number": self._number}
            self._channel.sendall(json.dumps(request).encode() + b"\n")
            answer = self._answer()
            while answer["number"] != self._number:  # nobody waited for it any more
                answer = self._answer()
        if error := answer.get("error"):
            raise OSError(error, os.strerror(error), path)
        return answer

    def _answer(self) -> dict[str, Any]:
        while not self._input.endswith(b"\n"):
            piece = self._channel.recv(1 << 20)
            if not piece:
                raise ConnectionError(0, "the kernel has ended")
            self._input += piece
        data, self._input = self._input, b""
        answer: dict[str, Any] = json.loads(data)
        return answer


class InsideFile:
    """A path of such a kernel; implements kpfs.session.paths.KernelPath."""

    can_reboot = False  # the command would be gone

    def __init__(self, channel: InsideChannel, path: str = "") -> None:
        self._channel, self._path = channel, path
        self.name = path.rpartition("/")[2]
        self.debugged = str(channel.pid)

    def fileno(self) -> int:
        """Return the descriptor by which the kernel is asked."""
        return self._channel.fileno()

    def __truediv__(self, name: str) -> InsideFile:
        return InsideFile(self._channel, f"{self._path}/{name}".lstrip("/"))

    def read_text(self) -> str:
        reader, data = self.reader(keep=False), bytearray()
        while piece := reader.read(0):
            data += piece
        return data.decode(errors="replace")

    def iterdir(self) -> Iterator[InsideFile]:
        names = self._channel.ask(self._path, list=True)["data"].split("\n")
        return (self / name for name in names if name)

    def append(self, text: str) -> None:
        self._channel.ask(self._path, text=text)

    def reader(self, *, keep: bool = True) -> InsideReader:
        return InsideReader(self._channel, self._path, keep=keep)

    def own_tasks(self) -> set[int]:
        return set()  # such a kernel hides the task that reads for us


class InsideReader:
    """An open file."""

    def __init__(self, channel: InsideChannel, path: str, *, keep: bool) -> None:
        """keep: the file may grow, and is read on behind its end."""
        self._channel, self._path, self._keep = channel, path, keep
        self._fd, self._ended = -1, False

    def read(self, _size: int) -> bytes:
        """Return what comes next, of any size.  OSError"""
        if self._ended and not self._keep:
            return b""
        where = {"fd": self._fd} if self._fd >= 0 else {}
        answer = self._channel.ask(self._path, keep=self._keep, **where)
        self._fd, self._ended = answer.get("fd", -1), answer["end"]
        data: str = answer["data"]
        return data.encode("latin-1")

    def close(self) -> None:
        if self._keep and self._fd >= 0:
            self._channel.ask(self._path, close=self._fd)
        self._fd = -1
