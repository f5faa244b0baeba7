# SPDX-License-Identifier: GPL-2.0-or-later
"""syslog(2) of a command: the guest's log, and the level of its console.

Like kmsg it is read from the guest's memory, so that no probe keeps anybody from the
log.  Kernel: do_syslog()
"""

from __future__ import annotations

import errno
import time
from typing import TYPE_CHECKING

from kpfs.base.errors import ERESTARTSYS
from kpfs.guest.running.klog import CONSOLE
from kpfs.mirror.host import signed

if TYPE_CHECKING:
    from kpfs.backends.guest.root.guest_kernel import GuestKernel
    from kpfs.guest.running.klog import KernelLog, LogRecord
    from kpfs.mirror.host import Host
    from kpfs.mirror.kernel import Commit, Replayed
    from kpfs.mirror.seccomp import Notification

CLOSE, OPEN, READ, READ_ALL, READ_CLEAR, CLEAR = range(6)
CONSOLE_OFF, CONSOLE_ON, CONSOLE_LEVEL, SIZE_UNREAD, SIZE_BUFFER = range(6, 11)
FOR_ALL = frozenset((READ_ALL, SIZE_BUFFER))  # kernel: dmesg_restrict is 0
LEVEL_MAX = 8
LOOK = 0.05  # s


def line_of(record: LogRecord) -> bytes:
    """Return a record as text.  Kernel: record_print_text()"""
    seconds, rest = divmod(record.ts_nsec, 10**9)
    priority = record.facility << 3 | record.level
    head = b"<%d>[%5d.%06d] " % (priority, seconds, rest // 1000)
    return head + bytes(record.text) + b"\n"


class GuestSyslog:
    """The answers to that call, and what it remembers of a kernel's log."""

    def __init__(self, kernel: GuestKernel, host: Host) -> None:
        self._host = host
        self.follow(kernel)

    def follow(self, kernel: GuestKernel) -> None:
        """Read another kernel's log from now on.  Context: control, lock held."""
        self._kernel = kernel
        self._clear_seq = 0
        self._read_seq = 0  # the first record that READ has not given
        self._saved_level = -1

    def __call__(self, note: Notification, commit: Commit) -> Replayed:
        """Return the call's value or -errno.  Context: the lock is not held."""
        action, size = signed(note.args[0]), signed(note.args[2])
        with self._kernel.lock:
            if not commit():
                return -errno.EINTR  # the caller is gone
            if action not in FOR_ALL and self._host.uid(note.pid):
                return -errno.EPERM
            if action in (READ, READ_ALL, READ_CLEAR):
                if not note.args[1] or size < 0:
                    return -errno.EINVAL
                if not size:
                    return 0
                if action == READ and not self._unread():
                    return lambda: self._wait(note, size)
                found = (self._read if action == READ else self._read_all)(size)
            else:
                return self._control(action, size)
        return self._give(note, *found)

    def _give(self, note: Notification, text: bytes, last: int) -> int:
        """Give the caller lines, and note what that changes; return the call's value.

        last: see _read_all() and _read().
        Context: the lock is not held, as the caller's memory may be a file's of the
        mount.
        """
        action = signed(note.args[0])
        given = self._host.write(note.pid, note.args[1], text)
        with self._kernel.lock:
            if given and action == READ_CLEAR:
                self._clear_seq = max(self._clear_seq, last)
            if not given and action == READ:
                self._read_seq = min(self._read_seq, last)
        return len(text) if given else -errno.EFAULT

    # ---- the log
    def _unread(self) -> list[LogRecord]:
        return self._kernel.guest.log.records(self._read_seq)

    def _read_all(self, size: int) -> tuple[bytes, int]:
        """Return the newest lines that fit, and the number of the next record.

        Kernel: syslog_print_all()
        """
        records = self._kernel.guest.log.records(self._clear_seq)
        lines, room = [], size
        for record in reversed(records):
            line = line_of(record)
            room -= len(line)
            if room < 0:
                break
            lines.append(line)
        return b"".join(reversed(lines)), records[-1].seq + 1 if records else 0

    def _read(self, size: int) -> tuple[bytes, int]:
        """Take the oldest lines that nobody has read; return the second one's number.

        If the caller's memory is bad, only the first is lost.  Kernel: syslog_print()
        """
        text = b""
        unread = self._unread()
        for record in unread:
            line = line_of(record)
            if text and len(text) + len(line) > size:
                break
            text += line[:size]
            self._read_seq = record.seq + 1
        return text, unread[0].seq + 1

    def _wait(self, note: Notification, size: int) -> int:
        """Read once there is something.  Context: the lock is not held."""
        while not self._host.has_signal(note.pid):
            with self._kernel.lock:
                found = self._read(size) if self._unread() else None
            if found is not None:
                return self._give(note, *found)
            time.sleep(LOOK)
        return -ERESTARTSYS

    def _control(self, action: int, value: int) -> int:
        log: KernelLog = self._kernel.guest.log
        level, _, minimum, _ = log.levels()
        if action in (OPEN, CLOSE):
            return 0
        if action == CLEAR:
            self._clear_seq = log.next_seq()
            return 0
        if action == SIZE_UNREAD:
            return sum(len(line_of(record)) for record in self._unread())
        if action == SIZE_BUFFER:
            return log.size
        if action == CONSOLE_OFF:
            if self._saved_level < 0:
                self._saved_level = level
            log.set_level(CONSOLE, minimum)
        elif action == CONSOLE_ON:
            if self._saved_level >= 0:
                log.set_level(CONSOLE, self._saved_level)
                self._saved_level = -1
        elif action == CONSOLE_LEVEL and 1 <= value <= LEVEL_MAX:
            log.set_level(CONSOLE, max(value, minimum))
            self._saved_level = -1
        else:
            return -errno.EINVAL
        return 0
