# SPDX-License-Identifier: GPL-2.0-or-later
"""A real kernel, and processes in it."""

import errno
import itertools
import os

import pytest

from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import Caller
from kpfs.linux.running.linux_kernel import LinuxKernel
from kpfs.linux.running.machine import FINALLY, STOP, Op, Out, Result
from tests import harness

SIZE = 60000


class Process:
    """A task of the guest that stands for no process of the host."""

    def __init__(self, kernel, pid):
        self.kernel = kernel
        with kernel.lock:
            self.task = kernel.tasks.fork(
                kernel.tasks.agent,
                Caller(pid, os.getuid(), os.getgid()),
                f"tester{pid}",
            )

    def call(self, *ops):
        """Make operations: the reply."""
        with self.kernel.lock:
            return self.kernel.tasks.request(self.task, ops)

    def open(self, path, flags=os.O_RDONLY):
        fd = self.call(Op(nr.OPENAT, (nr.AT_FDCWD, path.encode() + b"\0", flags, 0)))
        if fd.results[0] < 0:
            raise KernelError(-fd.results[0], path)
        return fd.results[0]

    def read(self, path):
        """Read a whole file as text."""
        data, fd = b"", self.open(path)
        while (reply := self.call(Op(nr.READ, (fd, Out(SIZE), SIZE)))).results[0] > 0:
            data += reply.out(0, reply.results[0])
        self.call(Op(nr.CLOSE, (fd,)))
        return data.decode()

    def write(self, path, text, flags=os.O_TRUNC):
        """echo TEXT > PATH: 0, or what went wrong as -errno."""
        data = text.encode() + b"\n"
        name = path.encode() + b"\0"
        flags |= os.O_WRONLY
        reply = self.call(
            Op(nr.OPENAT, (nr.AT_FDCWD, name, flags, 0), STOP),
            Op(nr.WRITE, (Result(0), data, len(data)), STOP),
            Op(nr.CLOSE, (Result(0),), FINALLY),
        )
        opened, taken, _ = reply.results
        if opened < 0:
            return opened
        return 0 if taken == len(data) else taken

    def echo(self, path, text, flags=os.O_TRUNC):
        """Write text to a file by write(), which must succeed."""
        assert self.write(path, text, flags) == 0, (path, errno.errorcode)

    def getppid(self, times=1):
        for _ in range(times):
            self.call(Op(nr.GETPPID))


@pytest.fixture
def boot():
    """Starts kernels, each a machine of its own."""
    started = []

    def start(name=harness.KERNEL, *, quiet=True, **options):
        started.append(LinuxKernel(name, quiet=quiet, **options))
        started[-1].start()  # or a longer wait would never end
        return started[-1]

    yield start
    for kernel in started:
        kernel.stop()


@pytest.fixture
def linux(boot):
    """A kernel whose time passes only by what it executes."""
    return boot()


@pytest.fixture
def process(linux):
    """Makes processes."""
    numbers = itertools.count(4_000_001)
    return lambda: Process(linux, next(numbers))


@pytest.fixture
def shell(process):
    return process()
