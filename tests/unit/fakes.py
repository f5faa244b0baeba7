# SPDX-License-Identifier: GPL-2.0-or-later
"""A Kernel without a guest: file operations run at once, probes on the fake machine."""

import errno
import stat
from types import SimpleNamespace
from typing import Any

from kpfs.backends.guest.root.debugfs import DebugfsEntry
from kpfs.base import abi
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import Caller, KAddr, Symbol
from kpfs.base.lock import FairLock
from kpfs.base.skip_policy import NONE, Seen, SkipPolicy
from kpfs.config import Config
from kpfs.engine.state import State
from kpfs.fs.seqfile import ValueFile
from kpfs.fs.tree import WriteCall
from tests.fake import FakeArch, FakeMachine

ME = Caller(100, 0, 0)


def writing(name, *parts, pos=0):
    """A command's write(2) or the like, of these segments."""
    return WriteCall(name, b"".join(parts), [len(part) for part in parts], pos)


class Value(ValueFile):
    """A file of the mount that keeps what is written."""

    value = b"1"

    def show(self):
        return self.value + b"\n"

    def store(self, data):
        self.value = data


class FakeTask:
    def __init__(self, pid):
        self.pid = pid
        self.table = pid  # the table of descriptors
        self.gone = self.blocked = False
        self.buffer = 0x1000


class FakeKernel:
    """Implements what kpfs.backends.guest.vfs and the files ask of a GuestKernel."""

    def __init__(self):
        self.lock = FairLock()
        self.guest = FakeMachine()
        self.guest.add_function("vfs_read")
        self.guest.add_function("vfs_write")
        self.state = State(self.guest, FakeArch(self.guest))
        self.tasks = {}
        self.calls = []  # (pid, name, args) of each system call
        self.results = {}  # name -> what call() gives
        self.waits = []  # what happens while somebody waits, one at a time
        self.trace: Any = SimpleNamespace()
        self.config = Config()
        self.syscalls = self.background = self
        root = DebugfsEntry("", stat.S_IFDIR | 0o755, None)
        self.debugfs = SimpleNamespace(root=root)
        self.dead = ""  # why the guest is dead
        self.closed = False
        self.seen: Seen = NONE  # system calls that somebody can see
        self.skip_policy = SkipPolicy(self, self.lock)
        self.skip_policy.number_of = self.number_of  # type: ignore[method-assign]
        self.left_out = 0  # calls that are not made
        self.numbers: dict[int, int] = {}  # pid -> what number_of() gives

    @property
    def dynamic_events(self):
        return self.trace

    def task(self, caller):
        return self.tasks.setdefault(caller.pid, FakeTask(caller.pid))

    def all_tasks(self):
        return [*self.tasks.values()]

    def reap(self):
        """No process has vanished."""

    def update(self):
        return self.seen

    def leave_out(self):
        self.left_out += 1

    def number_of(self, pid, path, flags, others):
        return self.numbers.get(pid, -1)

    @property
    def lives(self):
        return not (self.closed or self.dead)

    def check_present(self):
        """Do nothing: the file is never gone."""

    def check(self):
        """The guest is never dead."""

    def attach_files(self, serve):
        self.host_files = serve

    def call(self, task, name, *args, host_op=None):
        assert not task.gone
        self.calls.append((task.pid, name, args))
        data = args[1][: args[2]] if name in ("write", "pwrite64") else b""
        request = SimpleNamespace(
            kind=abi.HOST_OPEN, flags=0, count=len(data), data=lambda: data
        )
        result = host_op(request) if host_op else self.results.get(name, 0)
        if isinstance(result, int) and result < 0:
            raise KernelError(-result, name)
        return len(result) if isinstance(result, bytes) else result

    def call_all(self, task, calls):
        for name, args in calls:
            self.call(task, name, *args)

    def prepare_to_wait(self, ready):
        return ready

    def wait(self, ready):
        while not ready():
            if not self.waits:
                raise KernelError(errno.EINTR, "a signal")
            self.waits.pop(0)()

    def stats(self):
        return {"syscalls": len(self.calls)}


class FakeInfo:
    """Implements kpfs.fs.machine.MachineInfo."""

    image = b"\x7fELF image"
    covers = False
    core = SimpleNamespace(size=5, read=lambda at, size: b"core\n"[at : at + size])

    def __init__(self, lock=None):
        self.lock = lock or FairLock()
        self.symbols = [Symbol("vfs_read", KAddr(0x1000), 32, "T")]
        self.rows = []
        self.done = []  # what tasks were made to do

    def functions(self):
        return [symbol.name for symbol in self.symbols]

    def functions_named(self, name):
        return [symbol for symbol in self.symbols if symbol.name == name]

    def text(self, symbol):
        return f"{symbol.name}:\n"

    def probes(self):
        return self.rows

    def lost(self):
        return []

    def stats(self):
        return "syscalls 0\n"

    def vmcore_size(self):
        return self.core.size

    def vmcore(self):
        return self.core

    def coverage(self):
        return "TN:\nend_of_record\n"

    def vmlinux_size(self):
        return len(self.image)

    def vmlinux(self):
        return self.image

    def mount_table(self, pid):
        raise FileNotFoundError(errno.ENOENT, "no mount")

    def reboot(self):
        self.done.append(("reboot",))

    def host_pid(self, task):
        return task.pid

    def make_calls(self, task, calls):
        self.done += [(task.pid, call.name, call.args) for call in calls]

    def insmod(self, task, image, parameters):
        self.done.append((task.pid, "insmod", image, parameters))

    def insmod_named(self, task, name, parameters):
        self.done.append((task.pid, "insmod_named", name, parameters))

    def rmmod(self, task, name):
        self.done.append((task.pid, "rmmod", name))
