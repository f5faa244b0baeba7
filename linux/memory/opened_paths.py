# SPDX-License-Identifier: GPL-2.0-or-later
"""Names the kernel's own files that tasks have open: those of tracefs, sysfs and so on.

Kernel: struct file, struct dentry.
"""

from __future__ import annotations

import errno

from kpfs.base.errors import KernelError
from kpfs.linux.memory.stack import stack_size
from kpfs.linux.memory.structures import Reader
from kpfs.linux.memory.tasks import TaskList

# by the file system's magic number: where it is mounted
MOUNTED = {
    0x74726163: "/sys/kernel/tracing",
    0x64626720: "/sys/kernel/debug",
    0x73636673: "/sys/kernel/security",
    0x63677270: "/sys/fs/cgroup",
    0x62656572: "/sys",
    0x9FA0: "/proc",
}
_MAX_DEPTH = 64  # directories
_MAX_NAME = 256


class OpenedPaths(Reader):
    """Reads which files tasks have open."""

    needs = "dentry", "d_parent"

    def task_on(self, stack: int) -> int:
        """Return the address of the task on whose stack an address is.

        Raises KernelError(ESRCH) if it is on none.
        """
        begin = stack & -stack_size(self._memory.model)
        field = self._structures["task_struct"].at["stack"]
        tasks = TaskList(self._memory, self._symbols, self._structures)
        for task in tasks.all():
            if self._memory.word(task + field) == begin:
                return task
        raise KernelError(errno.ESRCH, f"no task has the stack of {stack:#x}")

    def file(self, task: int, fd: int) -> int:
        """Return the address of the struct file of a task's descriptor; 0: none."""
        field = self._structures["task_struct"].at["files"]
        files = self._view("files_struct", self._memory.word(task + field))
        table = self._view("fdtable", files.word("fdt"))
        return self._memory.word(table.word("fd") + self._memory.model.long * fd)

    def path_of(self, task: int, fd: int) -> str:
        """Return the path of an open file, "" if it is on no MOUNTED file system."""
        file = self.file(task, fd)
        return (
            self._path(self._view("file", file).word("f_path.dentry")) if file else ""
        )

    def directory(self, task: int) -> str:
        """Return the path of a task's current directory, likewise."""
        field = self._structures["task_struct"].at["fs"]
        fs = self._view("fs_struct", self._memory.word(task + field))
        return self._path(fs.word("pwd.dentry"))

    def _path(self, at: int) -> str:
        entry, names = self._view("dentry", at), list[str]()
        magic = self._view("super_block", entry.word("d_sb")).word("s_magic")
        if magic not in MOUNTED:
            return ""
        while entry.word("d_parent") != entry.addr and len(names) < _MAX_DEPTH:
            names.append(self._memory.string(entry.word("d_name.name"), _MAX_NAME))
            entry = self._view("dentry", entry.word("d_parent"))
        return "/".join([MOUNTED[magic], *reversed(names)])
