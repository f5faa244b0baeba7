# SPDX-License-Identifier: GPL-2.0-or-later
"""Read what a dead kernel has of a terminal's output, and can give to nobody."""

from __future__ import annotations

from kpfs.base.errors import KernelError, MemoryFault
from kpfs.linux.memory.structures import View
from kpfs.linux.memory.tasks import TaskList
from kpfs.linux.running.kernel_on_board import KernelOnBoard

_LINE = 4096  # N_TTY_BUF_SIZE
_MOST_BUFFERS = 100


def of_terminal(kernel: KernelOnBoard, pid: int, fd: int) -> bytes:
    """Return what is to be read from a descriptor of a process: the master of a pty.

    b"" if that is not known, as without BTF.  Kernel: n_tty_read() reads the line
    discipline, to which flush_to_ldisc() brings what is in buffers of the port.
    """
    try:
        return _unread(kernel, pid, fd)
    except (KernelError, MemoryFault, KeyError, StopIteration):
        return b""


def _unread(kernel: KernelOnBoard, pid: int, fd: int) -> bytes:
    memory = kernel.memory

    def view(name: str, addr: int) -> View:
        return View(memory, kernel.structures[name], addr)

    tasks = TaskList(memory, kernel.symbols, kernel.structures)
    task = next(addr for addr in tasks.all() if tasks.row(addr).pid == pid)
    files = view("files_struct", memory.word(tasks.place(task, "files")))
    table = view("fdtable", files.word("fdt")).word("fd")
    file = view("file", memory.word(table + memory.model.long * fd))
    private = view("tty_file_private", file.word("private_data"))
    tty = view("tty_struct", private.word("tty"))
    line = view("n_tty_data", tty.word("disc_data"))
    text = memory.read(line.place("read_buf"), _LINE)
    tail = line.word("read_tail")
    count = min(line.word("read_head") - tail, _LINE)
    data = bytes(text[(tail + at) % _LINE] for at in range(count))
    buffer = view("tty_port", tty.word("port")).word("buf.head")
    for _ in range(_MOST_BUFFERS):
        if not buffer:
            break
        piece = view("tty_buffer", buffer)
        read = piece.number("read", 4)
        size = max(piece.number("commit", 4) - read, 0)
        data += memory.read(piece.place("data") + read, size)
        buffer = piece.word("next")
    return data
