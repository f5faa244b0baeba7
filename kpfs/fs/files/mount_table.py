# SPDX-License-Identifier: GPL-2.0-or-later
"""machine/mounts: under ``kpfs run`` it lies at /proc/mounts."""

from __future__ import annotations

import errno
import os

from kpfs.daemon import source_name
from kpfs.engine.errors import KernelError
from kpfs.fs.node import Handle
from kpfs.fs.seqfile import SeqFile, SeqHandle
from kpfs.host.mounts import as_linux_shows


class Mounts(SeqFile):
    """The mount table of who opens it, tracefs and debugfs under these names."""

    blksize = 1024

    def handle(self, flags: int, pid: int) -> Handle:
        return MountsHandle(self, flags, pid)


class MountsHandle(SeqHandle):
    """One reader; pid is of the host."""

    def make(self) -> bytes:
        try:
            with open(f"/proc/{self.pid}/mounts", "rb") as table:
                text = table.read()
        except OSError as error:
            why = f"/proc/{self.pid}/mounts"
            raise KernelError(error.errno or errno.EIO, why) from None
        shown = as_linux_shows(os.fsdecode(text), source_name(os.getpid()))
        return os.fsencode(shown)
