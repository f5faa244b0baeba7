# SPDX-License-Identifier: GPL-2.0-or-later
"""The position of a reader in a trace, read from the kernel's memory.

Kernel: struct trace_iterator, which each open file of a trace has.
"""

from __future__ import annotations

import errno

from kpfs.base.errors import KernelError
from kpfs.linux.memory.opened_paths import OpenedPaths
from kpfs.linux.memory.rings import Rings
from kpfs.linux.memory.structures import Reader
from kpfs.linux.memory.tasks import TaskList


class TraceFile(Reader):
    """An open ``trace``, ``trace_pipe`` or ``trace_pipe_raw``."""

    needs = "trace_iterator", "ts"

    def iterator(self, pid: int, fd: int) -> tuple[int, bool]:
        """Return the address of an open file's iterator, and True if it gives
        raw pages.

        Raises KernelError: ENOENT without such a task, EINVAL if the file is no trace.
        """
        file = self._view("file", self._file(pid, fd))
        private, kind = file.word("private_data"), file.word("f_op")
        if kind == self._symbols.address("tracing_fops"):
            return self._view("seq_file", private).word("private"), False
        for name in ("tracing_pipe_fops", "tracing_buffers_fops"):
            if kind == self._symbols.address(name):
                return private, name != "tracing_pipe_fops"
        raise KernelError(errno.EINVAL, "no trace")

    def _file(self, pid: int, fd: int) -> int:
        memory, fields = self._memory, self._structures["task_struct"].at
        for task in TaskList(memory, self._symbols, self._structures).leaders():
            if memory.number(task + fields["pid"], 4) == pid:
                return OpenedPaths(memory, self._symbols, self._structures).file(
                    task, fd
                )
        raise KernelError(errno.ENOENT, f"no task {pid}")

    def newest(self, iterator: int) -> int:
        """Return the time of the array's last record, by its clock."""
        array = self._view("trace_iterator", iterator).word("array_buffer")
        rings = Rings(self._memory, self._symbols, self._structures)
        return rings.newest(self._view("array_buffer", array).word("buffer"))

    def reached(self, iterator: int) -> int:
        """Return the time of the record that the reader saw last, 0 without one."""
        return self._view("trace_iterator", iterator).word("ts")
