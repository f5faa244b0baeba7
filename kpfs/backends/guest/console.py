# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's console: messages that are grave enough go to a file as they come.

Kernel: console_emit_next_record()
"""

from __future__ import annotations

import os

from kpfs.base.shown import shown
from kpfs.base.typed import TYPE_CHECKING, Protocol
from kpfs.guest.running.klog import CONSOLE
from kpfs.host.outlet import Outlet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kpfs.guest.running.klog import LogRecord


class Levels(Protocol):
    """The part of KernelLog that a console reads."""

    def levels(self) -> tuple[int, ...]: ...


class Console:
    """A console on a descriptor.  Context: control, the lock is held."""

    def __init__(self, fd: int, log: Levels) -> None:
        self._outlet = Outlet(fd, b"** %d printk messages dropped **\n")
        self._log = log

    def show(self, records: Sequence[LogRecord]) -> None:
        """Write the records whose level is below console_loglevel.

        Those for which a pipe has no room are dropped: the kernel must not wait.
        """
        level = self._log.levels()[CONSOLE]
        for record in records:
            if record.level < level:
                seconds, rest = divmod(record.ts_nsec, 10**9)
                text = shown(os.fsdecode(bytes(record.text))).encode()
                self._outlet.write(b"[%5d.%06d] %s\n" % (seconds, rest // 1000, text))
