# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules: the list of them, and machine/insmod and machine/rmmod."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from kpfs.base.errors import KernelError
from kpfs.fs.files.proc import ProcFile
from kpfs.fs.module_file import NAME, WORD, contents, module_name, seen_by
from kpfs.fs.node import File, Handle
from kpfs.guest.machine import IMAGE_DIR
from kpfs.guest.running.syscalls import HostTask

SHIPPED = os.path.join(IMAGE_DIR, "modules")
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
            return contents(os.path.join(os.fsencode(SHIPPED), path + b".ko"))
        return contents(seen_by(pid, path))


class Rmmod(ModuleFile):
    """rmmod: ``NAME`` unloads a module."""

    after_exits = True  # an open file in debugfs counts as a use of its module

    def act(self, data: bytes, task: HostTask) -> None:
        name = module_name(data)
        self.kernel.syscalls.sleeping_call(task, "delete_module", name, O_NONBLOCK)
