# SPDX-License-Identifier: GPL-2.0-or-later
"""Read what a dead kernel has in terminals and pipes, and can give to nobody."""

from __future__ import annotations

from kpfs.base.errors import KernelError, MemoryFault
from kpfs.linux.memory.opened_paths import OpenedPaths
from kpfs.linux.memory.tasks import TaskList
from kpfs.linux.running.kernel_on_board import KernelOnBoard

_LINE = 4096  # N_TTY_BUF_SIZE
_MOST_BUFFERS = 100
_UNKNOWN = KernelError, MemoryFault, KeyError, StopIteration


def of_terminal(kernel: KernelOnBoard, pid: int, fd: int) -> bytes:
    """Return what is to be read from a descriptor of a process: the master of a pty.

    b"" if that is not known, as without BTF.  Kernel: n_tty_read() reads the line
    discipline, to which flush_to_ldisc() brings what is in buffers of the port.
    """
    try:
        found = _Terminals(kernel.memory, kernel.symbols, kernel.structures)
        return found.unread(_task(kernel, pid), fd)
    except _UNKNOWN:
        return b""


def left_in_pipe(kernel: KernelOnBoard, pid: int, fd: int) -> int | None:
    """Return how many bytes are in a pipe that a process has open; None: unknown."""
    try:
        found = _Pipes(kernel.memory, kernel.symbols, kernel.structures)
        return found.left(_task(kernel, pid), fd)
    except _UNKNOWN:
        return None


def _task(kernel: KernelOnBoard, pid: int) -> int:
    """Return the address of a process's task.  Raises one of _UNKNOWN."""
    tasks = TaskList(kernel.memory, kernel.symbols, kernel.structures)
    return next(row.addr for row in tasks.rows() if row.pid == pid)


class _Terminals(OpenedPaths):
    """Reads what terminals that are open have for their readers."""

    needs = "n_tty_data", "read_buf"

    def unread(self, task: int, fd: int) -> bytes:
        file = self._view("file", self.file(task, fd))
        private = self._view("tty_file_private", file.word("private_data"))
        tty = self._view("tty_struct", private.word("tty"))
        line = self._view("n_tty_data", tty.word("disc_data"))
        text = self._memory.read(line.place("read_buf"), _LINE)
        tail = line.word("read_tail")
        count = min(line.word("read_head") - tail, _LINE)
        data = bytes(text[(tail + at) % _LINE] for at in range(count))
        buffer = self._view("tty_port", tty.word("port")).word("buf.head")
        for _ in range(_MOST_BUFFERS):
            if not buffer:
                break
            piece = self._view("tty_buffer", buffer)
            read = piece.number("read", 4)
            size = max(piece.number("commit", 4) - read, 0)
            data += self._memory.read(piece.place("data") + read, size)
            buffer = piece.word("next")
        return data


class _Pipes(OpenedPaths):
    """Reads what pipes that are open have for their readers."""

    needs = "pipe_inode_info", "bufs"

    def left(self, task: int, fd: int) -> int:
        file = self._view("file", self.file(task, fd))
        pipe = self._view("pipe_inode_info", file.word("private_data"))
        ring, size = pipe.word("bufs"), pipe.number("ring_size", 4)
        tail, head = pipe.number("tail", 4), pipe.number("head", 4)
        step = self._structures["pipe_buffer"].size
        places = [ring + (at & size - 1) * step for at in range(tail, head)]
        return sum(self._view("pipe_buffer", at).number("len", 4) for at in places)
