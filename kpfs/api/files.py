# SPDX-License-Identifier: GPL-2.0-or-later
"""The files of a kernel as methods, and tasks that use them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

WRITE = os.O_WRONLY | os.O_TRUNC  # as a shell's >
APPEND = os.O_WRONLY | os.O_APPEND  # and >>


class Backend(Protocol):
    """What serves the files of one task: a kernel of our own, or a real one.

    Paths are those that place() has given.  All raise OSError.
    """

    def place(self, path: str) -> str:
        """What the other methods call a path that is absolute on Linux."""

    def read(self, path: str) -> bytes:
        """All that there is now."""

    def write(self, path: str, data: bytes, flags: int) -> None: ...

    def names(self, path: str) -> list[str]:
        """The entries of a directory."""

    def exists(self, path: str) -> bool: ...

    def mkdir(self, path: str) -> None: ...

    def rmdir(self, path: str) -> None: ...

    def syscall(self, name: str, args: tuple[int | str | bytes, ...]) -> int: ...

    @property
    def buffer(self) -> int:
        """Address of some memory of the task."""

    def insmod(self, module: str, words: bytes, *, named: bool) -> None:
        """Load a module by its path, or if named by its name, with parameters."""

    def rmmod(self, name: str) -> None: ...


def encoded(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else os.fsencode(text)


class Files:
    """The files, each operation being a system call of one task of the kernel.

    A path is one below a mount (``tracing/trace``) or Linux's own
    (``/sys/kernel/tracing/trace``).  What the kernel refuses is an OSError with its
    errno, whose text says why.
    """

    _backend: Backend

    def _below(self, path: str | os.PathLike[str]) -> str:
        text = os.fspath(path)
        if text.startswith("/"):
            return self._backend.place(text)
        return text.strip("/")

    def read(self, path: str | os.PathLike[str]) -> str:
        """The text of a file; of one that makes one wait, what there is now.

        So it is of a trace that grows by being read, as where reading is probed.
        Bytes that are no UTF-8 come as os.fsdecode() has them.
        """
        return os.fsdecode(self.read_bytes(path))

    def read_bytes(self, path: str | os.PathLike[str]) -> bytes:
        """The same as bytes."""
        return self._backend.read(self._below(path))

    def write(self, path: str | os.PathLike[str], text: str | bytes) -> None:
        """Open a file as a shell does for ``>``, and write to it.

        Of ``kprobe_events`` and its like that removes the definitions that there were.
        """
        self._backend.write(self._below(path), encoded(text), WRITE)

    def append(self, path: str | os.PathLike[str], text: str | bytes) -> None:
        """Open a file as a shell does for ``>>``, and write to it."""
        self._backend.write(self._below(path), encoded(text), APPEND)

    def listdir(self, path: str | os.PathLike[str] = "") -> list[str]:
        """The names in a directory, sorted."""
        return sorted(self._backend.names(self._below(path)))

    def exists(self, path: str | os.PathLike[str]) -> bool:
        """Whether there is a file or a directory; no code of the kernel is run."""
        return self._backend.exists(self._below(path))

    def mkdir(self, path: str | os.PathLike[str]) -> None:
        """Make a directory, as of an instance of tracing."""
        self._backend.mkdir(self._below(path))

    def rmdir(self, path: str | os.PathLike[str]) -> None:
        """Remove a directory."""
        self._backend.rmdir(self._below(path))


class Task(Files):
    """A task of the kernel, whose system calls and file operations probes see."""

    def __init__(
        self, backend: Backend, pid: int, comm: str, end: Callable[[int], None]
    ) -> None:
        self._backend = backend
        self._end = end
        self.pid = pid
        self.comm = comm

    def __repr__(self) -> str:
        return f"<Task {self.comm}-{self.pid}>"

    @property
    def buffer(self) -> int:
        """Address of some memory of the task, for calls that want a place to write."""
        return self._backend.buffer

    def syscall(self, name: str, *args: int | str | bytes) -> int:
        """Make a system call; its value.

        name: as in ``openat``, without a prefix.  args: up to six; a text or bytes are
        copied into the task's memory, and the call gets their address.
        OSError: the call failed; ENOSYS: the kernel has no such call.
        """
        return self._backend.syscall(name, args)

    def exit(self, status: int = 0) -> None:
        """Make the task exit; it cannot be used afterwards."""
        self._end(status)
