# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's console: messages that are grave enough go to a file as they come.

Kernel: console_emit_next_record()
"""

from __future__ import annotations

import os
import select

from kpfs.base.shown import shown
from kpfs.base.typed import TYPE_CHECKING, Protocol
from kpfs.guest.running.klog import CONSOLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kpfs.guest.running.klog import LogRecord


class Levels(Protocol):
    """The part of KernelLog that a console reads."""

    def levels(self) -> tuple[int, ...]: ...


class Console:
    """A console on a descriptor.  Context: control, the lock is held."""

    def __init__(self, fd: int, log: Levels) -> None:
        self._fd = fd
        self._log = log
        self._dropped = 0

    def show(self, records: Sequence[LogRecord]) -> None:
        """Write the records whose level is below console_loglevel.

        Those for which a pipe has no room are dropped: the kernel must not wait.
        """
        level = self._log.levels()[CONSOLE]
        for record in records:
            if record.level >= level:
                continue
            seconds, rest = divmod(record.ts_nsec, 10**9)
            text = shown(os.fsdecode(bytes(record.text))).encode()
            line = b"[%5d.%06d] %s\n" % (seconds, rest // 1000, text)
            if self._dropped:
                line = b"** %d printk messages dropped **\n" % self._dropped + line
            if not select.select([], [self._fd], [], 0)[1]:
                self._dropped += 1
                continue
            self._dropped = 0
            try:
                os.write(self._fd, line)
            except OSError:  # nobody reads it any more
                return
