# SPDX-License-Identifier: GPL-2.0-or-later
"""Paths below which a kernel's files are, wherever these are: the protocol KernelPath.

What pathlib's paths have as well is as it is there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from io import FileIO
from pathlib import PosixPath
from typing import Protocol


class KernelReader(Protocol):
    """An open file that may grow."""

    def read(self, size: int, /) -> bytes:
        """Return what comes next, about so many bytes."""

    def close(self) -> None: ...


class ReadablePath(Protocol):
    """A path of a file that is only read, or of its directory."""

    def __truediv__(self, name: str, /) -> ReadablePath: ...

    def read_text(self) -> str: ...


class KernelPath(ReadablePath, Protocol):
    """A path of a kernel's file or directory.  Its methods raise OSError."""

    can_reboot: bool  # machine/reboot makes a new kernel

    @property
    def name(self) -> str: ...

    @property
    def debugged(self) -> str:
        """Return the name by which kpfs.gdb.command.find() finds the kernel."""

    def __truediv__(self, name: str, /) -> KernelPath: ...

    def iterdir(self) -> Iterable[KernelPath]: ...

    def append(self, text: str) -> None:
        """Write a text in one system call."""

    def reader(self) -> KernelReader: ...

    def own_tasks(self) -> set[int]:
        """Return the tasks that read and write these files for us, as probes see."""


class MountedPath(PosixPath):
    """A path of a mount."""

    can_reboot = True

    @property
    def debugged(self) -> str:
        return str(self)

    def read_text(
        self,
        encoding: str | None = None,
        errors: str | None = "replace",
        newline: str | None = None,
    ) -> str:
        with self.open(encoding=encoding, errors=errors, newline=newline) as file:
            return file.read()

    def append(self, text: str) -> None:
        fd = os.open(self, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)

    def reader(self) -> FileIO:
        return FileIO(self)

    def own_tasks(self) -> set[int]:
        return set(map(int, os.listdir("/proc/self/task")))
