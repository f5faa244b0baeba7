# SPDX-License-Identifier: GPL-2.0-or-later
"""machine/ over a real kernel: files of kpfs' own beside the guest's.

What they do needs no file of the guest, so they are there when it is dead, too.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable

from kpfs.base.errors import KernelError
from kpfs.fs import syscall_line
from kpfs.fs.fuse.linux_memory import Probes, TextDir, VmlinuxFile
from kpfs.fs.fuse.linux_node import OwnDir, OwnNode
from kpfs.fs.module_file import NAME, WORD, contents, module_name, seen_by
from kpfs.fs.syscall_line import Buffer
from kpfs.linux.memory.calls import call_numbers
from kpfs.linux.running import loading
from kpfs.linux.running.linux_kernel import LinuxKernel
from kpfs.linux.running.machine import Argument, Op, Place
from kpfs.linux.running.tasks import Task

BUFFER_SIZE = 4096
# What would end the task, or have another run in its memory, which all tasks share.
REFUSED = frozenset(
    (
        "fork vfork clone clone3 execve execveat exit exit_group rt_sigreturn "
        "mmap munmap mremap mprotect brk"
    ).split()
)
MountTable = Callable[[int], bytes]  # of a process of the host


class Stats(OwnNode):
    """stats: what the machine has counted since it was started."""

    def __init__(self, kernel: LinuxKernel) -> None:
        self.kernel = kernel

    def text(self, pid: int) -> bytes:
        with self.kernel.lock:
            rows = self.kernel.stats()
        return "".join(f"{name} {value}\n" for name, value in rows.items()).encode()


class Reboot(OwnNode):
    """reboot: a write starts from the image again, though the guest is dead."""

    mode = stat.S_IFREG | 0o200

    def __init__(self, kernel: LinuxKernel) -> None:
        self.kernel = kernel

    def store(self, data: bytes, task: Callable[[], Task]) -> None:
        with self.kernel.lock:
            self.kernel.reboot()


class Syscall(OwnNode):
    """syscall: each line is a system call of the writing task.

    The first that fails ends the write, with its errno.  ENOSYS: there is no such call;
    EPERM: the task could not go on after it.
    """

    mode = stat.S_IFREG | 0o200

    def __init__(self, kernel: LinuxKernel) -> None:
        self.kernel = kernel
        self.numbers: dict[str, int] = {}

    def store(self, data: bytes, task: Callable[[], Task]) -> None:
        for line in data.split(b"\n"):
            call = syscall_line.parse(line)
            if call is None:
                continue
            with self.kernel.lock:
                op = Op(self.number(call.name), tuple(map(_argument, call.args)))
                self.kernel.always_watched = True  # who knows what it has begun
                made = self.kernel.request(task(), [op], bytes(BUFFER_SIZE)).results[0]
            if made < 0:
                raise KernelError(-made, call.name)

    def number(self, name: str) -> int:
        if name in REFUSED:
            raise KernelError(errno.EPERM, f"{name}: the task could not go on")
        if not self.numbers:
            self.numbers = call_numbers(self.kernel.memory, self.kernel.symbols)
        number = self.numbers.get(name)
        if number is None:
            raise KernelError(errno.ENOSYS, f"no system call {name}")
        return number


def _argument(value: int | bytes | Buffer) -> Argument:
    if isinstance(value, bytes):
        return value + b"\0"
    return Place(0) if isinstance(value, Buffer) else value


class Insmod(OwnNode):
    """insmod: ``PATH-OR-NAME [PARAM=VALUE...]`` loads a module as the writing task.

    A name without slash and dot is that of a module of the kernel's package, which is
    loaded behind those that it needs.  The path is as the writing process sees it.
    """

    mode = stat.S_IFREG | 0o200

    def __init__(self, kernel: LinuxKernel) -> None:
        self.kernel = kernel

    def store(self, data: bytes, task: Callable[[], Task]) -> None:
        words = WORD.findall(data.split(b"\0", 1)[0])
        if not words:
            raise KernelError(errno.EINVAL, "no module named")
        path, parameters = words[0].strip(b'"'), b" ".join(words[1:])
        with self.kernel.lock:
            writer = task()
            if NAME.fullmatch(path):
                name = os.fsdecode(path)
                loading.load_named(self.kernel, writer, name, parameters)
                return
            image = contents(seen_by(writer.host_pid, path))
            loading.load(self.kernel, writer, image, parameters)


class Rmmod(OwnNode):
    """rmmod: ``NAME`` unloads a module."""

    mode = stat.S_IFREG | 0o200

    def __init__(self, kernel: LinuxKernel) -> None:
        self.kernel = kernel

    def store(self, data: bytes, task: Callable[[], Task]) -> None:
        name = os.fsdecode(module_name(data))
        with self.kernel.lock:
            loading.unload(self.kernel, task(), name)


class Mounts(OwnNode):
    """mounts: under ``kpfs run`` it lies at /proc/mounts."""

    def __init__(self, table: MountTable) -> None:
        self.table = table

    def text(self, pid: int) -> bytes:
        try:
            return self.table(pid)
        except OSError as error:
            why = f"the mount table of {pid}"
            raise KernelError(error.errno or errno.EIO, why) from None


class LastLog(OwnNode):
    """kmsg of a guest that is dead."""

    mode = stat.S_IFREG | 0o644

    def __init__(self, kernel: LinuxKernel) -> None:
        self.kernel = kernel

    def text(self, pid: int) -> bytes:
        with self.kernel.lock:
            records = self.kernel.dmesg()
        return "".join(record.kmsg() for record in records).encode("latin-1")


class OwnTree:
    """Finds the nodes by their paths in the mount."""

    def __init__(self, kernel: LinuxKernel, mount_table: MountTable) -> None:
        self.kernel = kernel
        self.syscall = Syscall(kernel)
        self.machine = OwnDir(
            {
                "insmod": Insmod(kernel),
                "rmmod": Rmmod(kernel),
                "syscall": self.syscall,
                "reboot": Reboot(kernel),
                "mounts": Mounts(mount_table),
                "text": TextDir(kernel),
                "probes": Probes(kernel),
                "vmlinux": VmlinuxFile(kernel),
                "stats": Stats(kernel),
            }
        )
        self.last_log = LastLog(kernel)

    def find(self, path: str) -> OwnNode | None:
        """None: the path is the guest's; ENOENT."""
        first, *rest = path.strip("/").split("/")
        if first == "kmsg" and self.kernel.machine.dead:
            return self.last_log
        if first != "machine":
            return None
        node: OwnNode = self.machine
        for name in rest:
            found = node.find(name)
            if found is None:
                raise KernelError(errno.ENOENT, path)
            node = found
        return node
