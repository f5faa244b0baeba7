# SPDX-License-Identifier: GPL-2.0-or-later
"""machine/mounts: under ``kpfs run`` it lies at /proc/mounts."""

from __future__ import annotations

import errno

from kpfs.base.errors import KernelError
from kpfs.fs.node import Handle
from kpfs.fs.seqfile import SeqFile, SeqHandle


class Mounts(SeqFile):
    """The mount table of the opening process, with tracefs and debugfs as on Linux."""

    blksize = 1024

    def handle(self, flags: int, pid: int) -> Handle:
        return MountsHandle(self, flags, pid)


class MountsHandle(SeqHandle):
    """One reader, whose pid is that of a process of the host."""

    def make(self) -> bytes:
        try:
            return self.file.kernel.mount_table(self.pid)
        except OSError as error:
            why = f"the mount table of {self.pid}"
            raise KernelError(error.errno or errno.EIO, why) from None
