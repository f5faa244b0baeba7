# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules: the list of them, and machine/insmod and machine/rmmod."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Sequence

from kpfs.engine.errors import KernelError
from kpfs.fs.files.proc import ProcFile
from kpfs.fs.node import File, Handle
from kpfs.guest.kernel.syscalls import HostTask
from kpfs.guest.machine import IMAGE_DIR

SHIPPED = os.path.join(IMAGE_DIR, "modules")
NAME = re.compile(rb"[A-Za-z0-9_-]+")
WORD = re.compile(rb'(?:[^\s"]|"[^"]*")+')
MODULE_MAX = 64 << 20
O_NONBLOCK, O_TRUNC = 0o4000, 0o1000


class Modules(ProcFile):
    """The modules that are loaded, newest first.  Kernel: m_show()."""

    def show(self) -> str:
        return self.kernel.guest.modules.show()


class ModuleFile(File):
    """A file that loads or unloads modules, each write one.

    It is done by the writing task after its write(), as it may sleep.
    """

    sleeps = True

    def handle(self, flags: int, pid: int) -> Handle:
        return ModuleHandle(self, flags, pid)

    def act(self, data: bytes, task: HostTask) -> None:
        raise NotImplementedError


class ModuleHandle(Handle):
    """Does what was written."""

    acts_later = True
    file: ModuleFile
    written_so_far: Sequence[bytes] = ()

    def take(self, data: bytes, pos: int) -> int:
        self.written_so_far = [*self.written_so_far, data]  # of one writev()
        return len(data)

    def written(self, task: HostTask) -> None:
        lines, self.written_so_far = self.written_so_far, ()
        for line in lines:
            self.file.act(line, task)


class Insmod(ModuleFile):
    """insmod: ``PATH-OR-NAME [PARAM=VALUE...]`` loads a module as the writing task.

    A name without slash and dot is that of a shipped module.  The path is as the
    writing process sees it.
    """

    def act(self, data: bytes, task: HostTask) -> None:
        words = WORD.findall(data.split(b"\0", 1)[0])
        if not words:
            raise KernelError(errno.EINVAL, "no module named")
        calls = self.kernel.syscalls
        image = self.read(words[0], calls.host_pid(task))
        calls.insmod(task, image, b" ".join(words[1:]))

    def read(self, name: bytes, pid: int) -> bytes:
        path = name.strip(b'"')
        if NAME.fullmatch(path):
            return _contents(os.path.join(os.fsencode(SHIPPED), path + b".ko"))
        return _contents(_seen_by(pid, path))


class Rmmod(ModuleFile):
    """rmmod: ``NAME`` unloads a module."""

    after_exits = True  # an open file in debugfs counts as a use of its module

    def act(self, data: bytes, task: HostTask) -> None:
        words = data.split(b"\0", 1)[0].split()
        if len(words) != 1:
            raise KernelError(errno.EINVAL, "not one name")
        name = os.path.basename(words[0]).removesuffix(b".ko").replace(b"-", b"_")
        self.kernel.syscalls.sleeping_call(task, "delete_module", name, O_NONBLOCK)


def _seen_by(pid: int, path: bytes) -> bytes:
    """A path as that process means it: its root, its working directory."""
    start = b"root" if path.startswith(b"/") else b"cwd"
    found = b"/proc/%d/%s/%s" % (pid, start, path.lstrip(b"/"))
    if os.path.exists(found) or not os.path.isabs(path):
        return found
    return path


def _contents(path: bytes) -> bytes:
    """The bytes of a file; its own errno if it cannot be read."""
    try:
        # a FIFO must not make it wait
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise KernelError(errno.EINVAL, "no regular file")
            if status.st_size > MODULE_MAX:
                raise KernelError(errno.EFBIG, "the module is too large")
            return file.read(MODULE_MAX)
    except OSError as exc:
        why = f"{os.fsdecode(path)}: {exc.strerror}"
        raise KernelError(exc.errno or errno.EIO, why) from None
