# SPDX-License-Identifier: GPL-2.0-or-later
"""The files of an emulated kernel as methods, and its tasks."""

from __future__ import annotations

import os

from kpfs.base.typed import Protocol

WRITE = os.O_WRONLY | os.O_TRUNC  # as a shell's >
APPEND = os.O_WRONLY | os.O_APPEND  # and >>


class KernelTask(Protocol):
    """A task of an emulated kernel: its file operations and system calls.

    Paths are those that place() returns.  All methods raise OSError.
    """

    def place(self, path: str) -> str:
        """Return the other methods' path for one that is absolute on Linux."""

    def read(self, path: str) -> bytes:
        """Return the contents that a file has now."""

    def write(self, path: str, data: bytes, flags: int) -> None:
        """Open a file with flags of open(2), and write to it."""

    def names(self, path: str) -> list[str]:
        """Return the entries of a directory."""

    def exists(self, path: str) -> bool: ...

    def mkdir(self, path: str) -> None: ...

    def rmdir(self, path: str) -> None: ...

    def syscall(self, name: str, args: tuple[int | str | bytes, ...]) -> int:
        """Make a system call by its name; return its value."""

    @property
    def buffer(self) -> int:
        """The address of a buffer in the task's memory."""

    def insmod(self, module: str, words: bytes, *, named: bool) -> None:
        """Load a module by its path, or if named by its name, with parameters."""

    def rmmod(self, name: str) -> None:
        """Unload a module."""

    def end(self, status: int) -> None:
        """Let the task exit."""


def encoded(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else os.fsencode(text)


class FileAccess:
    """The kernel's files.  Each operation is made of system calls of one of its tasks.

    A path is relative to a mount (``tracing/trace``) or absolute as on Linux
    (``/sys/kernel/tracing/trace``).  If the kernel refuses an operation, that is an
    OSError with the kernel's errno, whose text says why.
    """

    _task: KernelTask

    def _below(self, path: str | os.PathLike[str]) -> str:
        text = os.fspath(path)
        if text.startswith("/"):
            return self._task.place(text)
        return text.strip("/")

    def read(self, path: str | os.PathLike[str]) -> str:
        """Return the text of a file, up to the end that it has now.

        It never waits, as for more of trace_pipe, and it ends although a probe on the
        way of reading makes the trace grow.  Bytes that are not UTF-8 come as
        os.fsdecode() gives them.
        """
        return os.fsdecode(self.read_bytes(path))

    def read_bytes(self, path: str | os.PathLike[str]) -> bytes:
        """Return the contents of a file as bytes; see read()."""
        return self._task.read(self._below(path))

    def write(self, path: str | os.PathLike[str], text: str | bytes) -> None:
        """Open a file as a shell does for ``>``, and write to it.

        In ``kprobe_events`` and its like this removes the definitions that there were.
        """
        self._task.write(self._below(path), encoded(text), WRITE)

    def append(self, path: str | os.PathLike[str], text: str | bytes) -> None:
        """Open a file as a shell does for ``>>``, and write to it."""
        self._task.write(self._below(path), encoded(text), APPEND)

    def listdir(self, path: str | os.PathLike[str] = "") -> list[str]:
        """Return the names in a directory, sorted."""
        return sorted(self._task.names(self._below(path)))

    def exists(self, path: str | os.PathLike[str]) -> bool:
        """Return True if there is such a file or directory."""
        return self._task.exists(self._below(path))

    def mkdir(self, path: str | os.PathLike[str]) -> None:
        """Make a directory, such as an instance of tracing."""
        self._task.mkdir(self._below(path))

    def rmdir(self, path: str | os.PathLike[str]) -> None:
        """Remove a directory."""
        self._task.rmdir(self._below(path))


class Task(FileAccess):
    """A task of the kernel.  Probes see its system calls and file operations."""

    def __init__(self, task: KernelTask, pid: int, comm: str) -> None:
        self._task = task
        self.pid = pid
        self.comm = comm

    def __repr__(self) -> str:
        return f"<Task {self.comm}-{self.pid}>"

    @property
    def buffer(self) -> int:
        """The address of a buffer of the task, for calls that want a place to write."""
        return self._task.buffer

    def syscall(self, name: str, *args: int | str | bytes) -> int:
        """Make a system call; return its value.

        name: as in ``openat``, without a prefix.  args: up to six; a text or bytes are
        copied into the task's memory, and the call gets their address.
        OSError: the call failed; ENOSYS: the kernel has no such call.
        """
        return self._task.syscall(name, args)

    def exit(self, status: int = 0) -> None:
        """Make the task exit; it cannot be used afterwards."""
        self._task.end(status)
