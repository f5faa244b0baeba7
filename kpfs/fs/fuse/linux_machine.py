# SPDX-License-Identifier: GPL-2.0-or-later
"""machine/ over a real kernel: files of kpfs' own beside the guest's.

What they do needs no file of the guest, so they are there when it is dead, too.
"""

from __future__ import annotations

import errno
import stat
from collections.abc import Callable, Iterable

from kpfs.engine.errors import KernelError, MemoryFault
from kpfs.engine.ktypes import Symbol
from kpfs.fs import syscall_line
from kpfs.fs.syscall_line import Buffer
from kpfs.linux.kernel import syscalls as nr
from kpfs.linux.kernel.kernel import LinuxKernel
from kpfs.linux.kernel.machine import Argument, Op, Place
from kpfs.linux.kernel.tasks import Task
from kpfs.linux.memory.calls import call_numbers

ARCH = "x86"
BUFFER_SIZE = 4096
FUNCTION_TYPES = frozenset("tTwW")
# What would end the task, or have another run in its memory, which all tasks share.
REFUSED = frozenset(
    (
        "fork vfork clone clone3 execve execveat exit exit_group rt_sigreturn "
        "mmap munmap mremap mprotect brk"
    ).split()
)
MountTable = Callable[[int], bytes]  # of a process of the host


class OwnNode:
    """A file or directory."""

    mode = stat.S_IFREG | 0o444
    size = 0

    def names(self) -> Iterable[tuple[str, int]]:
        """Names and types of what is in a directory; ENOTDIR."""
        raise KernelError(errno.ENOTDIR, "a file")

    def find(self, name: str) -> OwnNode | None:
        """What is in a directory."""
        return None

    def text(self, pid: int) -> bytes:
        """What a process reads; EINVAL.  The lock is not held."""
        raise KernelError(errno.EINVAL, "not for reading")

    def store(self, data: bytes, task: Callable[[], Task]) -> None:
        """Take a write; task gives the writer's.  The lock is not held."""
        raise KernelError(errno.EINVAL, "not for writing")


class OwnDir(OwnNode):
    """A directory of files that are always there."""

    mode = stat.S_IFDIR | 0o755

    def __init__(self, nodes: dict[str, OwnNode]) -> None:
        self.nodes = nodes

    def names(self) -> Iterable[tuple[str, int]]:
        return [(name, stat.S_IFMT(node.mode)) for name, node in self.nodes.items()]

    def find(self, name: str) -> OwnNode | None:
        return self.nodes.get(name)


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


class Text(OwnNode):
    """text/SYMBOL: a function's text as it stands."""

    mode = stat.S_IFREG | 0o400

    def __init__(self, kernel: LinuxKernel, symbol: Symbol) -> None:
        self.kernel = kernel
        self.symbol = symbol

    def text(self, pid: int) -> bytes:
        from kpfs.engine.arch.arches import COMPARED

        kernel, (name, start, size, *_) = self.kernel, self.symbol
        try:
            with kernel.lock:
                live = kernel.memory.read(start, size)
                saved = kernel.saved_memory.read(start, size)
        except MemoryFault as fault:
            raise KernelError(errno.EFAULT, str(fault)) from None
        rows = COMPARED[ARCH](live, saved, start, kernel.symbols.name_of)
        return "\n".join((f"{name}:", *rows, "")).encode("latin-1")


class TextDir(OwnNode):
    """text/: a file for each function of the kernel itself that is in memory."""

    mode = stat.S_IFDIR | 0o755

    def __init__(self, kernel: LinuxKernel) -> None:
        self.kernel = kernel

    def names(self) -> Iterable[tuple[str, int]]:
        found = dict.fromkeys(self.kernel.symbols.functions())
        return [(name, stat.S_IFREG) for name in found]

    def find(self, name: str) -> OwnNode | None:
        for symbol in self.kernel.symbols.lookup_name(name):
            if symbol.type in FUNCTION_TYPES and symbol.size:
                return Text(self.kernel, symbol)
        return None


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
                "syscall": self.syscall,
                "reboot": Reboot(kernel),
                "mounts": Mounts(mount_table),
                "text": TextDir(kernel),
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


class OwnHandle:
    """An open file; what it shows is as of the first read from its begin."""

    def __init__(self, node: OwnNode, pid: int) -> None:
        self.node = node
        self.pid = pid
        self.content = b""

    def read(self, offset: int, size: int) -> bytes:
        if not offset:
            self.content = self.node.text(self.pid)
        return self.content[offset : offset + size]


def own_stat(node: OwnNode) -> nr.Stat:
    folder = stat.S_ISDIR(node.mode)
    return nr.Stat(node.mode, 2 if folder else 1, 0, 0, 0, 4096, 1, 0, 0, 0)
