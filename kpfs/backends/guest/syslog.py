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
    from kpfs.guest.running.klog import KernelLog, LogRecord
    from kpfs.mirror.host import Host
    from kpfs.mirror.kernel import Commit, Replayed
    from kpfs.mirror.seccomp import Notification
    from kpfs.root.guest_kernel import GuestKernel

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
        self._read_seq = 0  # of the first record that READ has not given
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
                if action != READ:
                    return self._read_all(note, size, clear=action == READ_CLEAR)
                if not self._unread():
                    return lambda: self._wait(note, size)
                return self._read(note, size)
            return self._control(action, size)

    # ---- the log
    def _unread(self) -> list[LogRecord]:
        return self._kernel.guest.log.records(self._read_seq)

    def _read_all(self, note: Notification, size: int, *, clear: bool) -> int:
        """Give the newest lines that fit.  Kernel: syslog_print_all()"""
        records = self._kernel.guest.log.records(self._clear_seq)
        lines, room = [], size
        for record in reversed(records):
            line = line_of(record)
            room -= len(line)
            if room < 0:
                break
            lines.append(line)
        text = b"".join(reversed(lines))
        if not self._host.write(note.pid, note.args[1], text):
            return -errno.EFAULT
        if clear and records:
            self._clear_seq = records[-1].seq + 1
        return len(text)

    def _read(self, note: Notification, size: int) -> int:
        """Give the oldest lines that nobody has read.  Kernel: syslog_print()"""
        text = b""
        read_seq = self._read_seq
        for record in self._unread():
            line = line_of(record)
            if text and len(text) + len(line) > size:
                break
            text += line[:size]
            read_seq = record.seq + 1
        if not self._host.write(note.pid, note.args[1], text):
            return -errno.EFAULT
        self._read_seq = read_seq
        return len(text)

    def _wait(self, note: Notification, size: int) -> int:
        """Read once there is something.  Context: the lock is not held."""
        while not self._host.has_signal(note.pid):
            with self._kernel.lock:
                if self._unread():
                    return self._read(note, size)
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
