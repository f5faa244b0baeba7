# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel in this process, whose files are used without a mount."""

from __future__ import annotations

import os
from pathlib import Path

from kpfs.backends.guest.root.guest_kernel import DEFAULTS, GuestKernel
from kpfs.backends.guest.tree import build
from kpfs.backends.guest.vfs import Vfs
from kpfs.base.ktypes import Caller
from kpfs.config import Config


class Box:
    """A quiet kernel; reads and writes are system calls in it, as on a mount."""

    def __init__(self, nr_cpus: int = 2, config: Config = DEFAULTS) -> None:
        self.kernel = GuestKernel(nr_cpus=nr_cpus, quiet=True, config=config)
        self.vfs = Vfs(self.kernel, build(self.kernel))
        self.caller = Caller(os.getpid(), 0, 0)

    def close(self) -> None:
        self.kernel.stop()

    def read(self, path: str) -> str:
        opened = self.vfs.open(self.caller, path, os.O_RDONLY)
        data = b""
        try:
            while piece := self.vfs.read(self.caller, opened, 65536, len(data)):
                data += piece
        finally:
            self.vfs.release(opened)
        return data.decode()

    def write(self, path: str, text: str) -> None:
        opened = self.vfs.open(self.caller, path, os.O_WRONLY | os.O_APPEND)
        try:
            self.vfs.write(self.caller, opened, text.encode(), 0)
        finally:
            self.vfs.release(opened)

    def insmod(self, path: Path | str, *parameters: str) -> None:
        self.write("/machine/insmod", " ".join((str(path), *parameters)) + "\n")

    def address(self, name: str) -> int:
        return self.kernel.guest.kallsyms.lookup_name(name)[0].addr

    def call(self, function: str, *args: int) -> int:
        """Run a function of the guest; its value, signed."""
        value = self.kernel.guest.call(self.address(function), *args)
        return value - (1 << 64) if value >> 63 else value
