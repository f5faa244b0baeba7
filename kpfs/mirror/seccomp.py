# SPDX-License-Identifier: GPL-2.0-or-later
"""Seccomp user notification, as little of it as ``kpfs run`` needs.

The command installs a filter that reports some system calls to a listener and lets
all others through; the holder of the listener answers each report: by letting the call
go on, or by what it shall give.
Document: seccomp_unotify(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import select
import struct
from collections.abc import Iterable, Mapping, Sequence

from kpfs.base.errors import KernelError
from kpfs.base.syscall_numbers import CLOSE_RANGE, PR_SET_NO_NEW_PRIVS
from kpfs.base.typed import NamedTuple

AUDIT_ARCH_X86_64 = 0xC000003E
SYS_SECCOMP = 317
SECCOMP_SET_MODE_FILTER = 1
SECCOMP_FILTER_FLAG_NEW_LISTENER = 8
SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV = 32
SECCOMP_RET_ALLOW = 0x7FFF0000
SECCOMP_RET_USER_NOTIF = 0x7FC00000
SECCOMP_IOCTL_NOTIF_RECV = 0xC0502100
SECCOMP_IOCTL_NOTIF_SEND = 0xC0182101
SECCOMP_IOCTL_NOTIF_ID_VALID = 0x40082102
SECCOMP_IOCTL_NOTIF_SET_FLAGS = 0x40082104
SECCOMP_IOCTL_NOTIF_ADDFD = 0x40182103
SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP = 1
SECCOMP_USER_NOTIF_FLAG_CONTINUE = 1
NOTIF_SIZE = 80
NOT_RECEIVED = frozenset((errno.ENOENT, errno.EINTR, errno.EAGAIN))
NOTIF = struct.Struct("=QIIiIQ6Q")
RESPONSE = struct.Struct("=QqiI")

# BPF: load a word of struct seccomp_data, jump if equal, return
LD_W_ABS, JEQ_K, RET_K = 0x20, 0x15, 0x06
OFFSET_NR, OFFSET_ARCH, OFFSET_SECOND, OFFSET_SECOND_HIGH = 0, 4, 24, 28
OUR_OWN = 1 << 32  # in the second argument of close_range(2), which takes 32 bits of it
MAX_SYSCALLS = 250
NO_MEANINGS: Mapping[int, Sequence[int]] = {}


class Notification(NamedTuple):
    """A reported system call.  Kernel: struct seccomp_notif."""

    id: int
    pid: int  # the thread's
    nr: int
    args: tuple[int, ...]  # six words


def build_filter(
    syscalls: Iterable[int], meanings: Mapping[int, Sequence[int]] = NO_MEANINGS
) -> bytes:
    """Return BPF code that reports the given x86-64 system calls and allows the rest.

    They are at most MAX_SYSCALLS: the jumps are eight bits wide.  Calls of other
    architectures, as of 32-bit programs, are let through.
    meanings: those that are reported only where the low half of their second argument
    has one of these values.  What close_unreported() does is let through.
    """
    numbers = sorted(set(syscalls) - meanings.keys())
    if len(numbers) > MAX_SYSCALLS:
        raise ValueError(f"{len(numbers)} system calls")
    code = [
        (LD_W_ABS, 0, 0, OFFSET_ARCH),
        (JEQ_K, 1, 0, AUDIT_ARCH_X86_64),
        (RET_K, 0, 0, SECCOMP_RET_ALLOW),
        (LD_W_ABS, 0, 0, OFFSET_NR),
    ]
    if CLOSE_RANGE in numbers:
        numbers.remove(CLOSE_RANGE)
        code += [
            (JEQ_K, 0, 4, CLOSE_RANGE),
            (LD_W_ABS, 0, 0, OFFSET_SECOND_HIGH),
            (JEQ_K, 1, 0, 0),
            (RET_K, 0, 0, SECCOMP_RET_ALLOW),
            (RET_K, 0, 0, SECCOMP_RET_USER_NOTIF),
        ]
    for number, values in meanings.items():
        count = len(values)
        code += [(JEQ_K, 0, count + 3, number), (LD_W_ABS, 0, 0, OFFSET_SECOND)]
        code += [(JEQ_K, count - n, 0, value) for n, value in enumerate(values)]
        code += [
            (RET_K, 0, 0, SECCOMP_RET_ALLOW),
            (RET_K, 0, 0, SECCOMP_RET_USER_NOTIF),
        ]
    code += [
        (JEQ_K, len(numbers) - index, 0, number) for index, number in enumerate(numbers)
    ]
    code += [(RET_K, 0, 0, SECCOMP_RET_ALLOW), (RET_K, 0, 0, SECCOMP_RET_USER_NOTIF)]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def install_listener(
    syscalls: Iterable[int], meanings: Mapping[int, Sequence[int]] = NO_MEANINGS
) -> int:
    """Put the filter on the calling thread and its children; return the listener.

    No program inherits it: Linux makes it so, and any call may be reported by now.

    Without CAP_SYS_ADMIN in its user namespace the caller gives up gaining privileges
    by exec.  errno: EBUSY when a listener is there already, ENOSYS or EINVAL where the
    host has no user notification.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    code = ctypes.create_string_buffer(build_filter(syscalls, meanings))
    length = (len(code) - 1) // 8
    program = ctypes.create_string_buffer(
        struct.pack("=HxxxxxxQ", length, ctypes.addressof(code))
    )
    # a signal shall not interrupt a call that is being looked at (Linux 5.19)
    flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV

    def seccomp() -> int:
        return int(libc.syscall(SYS_SECCOMP, SECCOMP_SET_MODE_FILTER, flags, program))

    listener = seccomp()
    if listener < 0 and ctypes.get_errno() == errno.EINVAL:
        flags = SECCOMP_FILTER_FLAG_NEW_LISTENER
        listener = seccomp()
    if listener < 0 and ctypes.get_errno() == errno.EACCES:
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        listener = seccomp()
    if listener < 0:
        raise KernelError(ctypes.get_errno(), "seccomp user notification")
    return listener


def close_unreported(fd: int) -> None:
    """Close a descriptor by a call that no filter of ours reports."""
    last = ctypes.c_ulong(fd | OUR_OWN)
    ctypes.CDLL(None).syscall(CLOSE_RANGE, fd, last, 0)


def wake_up_synchronously(listener: int) -> None:
    """Have Linux wake receiver and caller on one CPU, at a tenth of the cost.

    Linux has this from 6.6 on; an older one refuses, and goes on as before.
    """
    with contextlib.suppress(OSError):
        fcntl.ioctl(
            listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
        )


def report() -> ctypes.Array[ctypes.c_char]:
    """Return memory for a struct seccomp_notif."""
    return ctypes.create_string_buffer(NOTIF_SIZE)


def receive(listener: int) -> Notification | None:
    """Wait for the next report; return None if its caller died or there was none."""
    buffer = bytearray(NOTIF_SIZE)
    try:
        fcntl.ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, buffer)
    except OSError as error:
        if error.errno in NOT_RECEIVED:
            return None
        raise
    return parse(buffer)


def has_reports(listener: int) -> bool:
    """Return True if a report waits to be received."""
    return any(events & select.POLLIN for events in _poll(listener))


def is_abandoned(listener: int) -> bool:
    """Return True if no process has the filter any more."""
    return any(events & select.POLLHUP for events in _poll(listener))


def _poll(listener: int) -> list[int]:
    """Return the poll events of the listener now."""
    waiting = select.poll()
    waiting.register(listener, select.POLLIN)
    return [events for _fd, events in waiting.poll(0)]


def parse(buffer: bytes | bytearray | ctypes.Array[ctypes.c_char]) -> Notification:
    """Make a Notification of a struct seccomp_notif."""
    words = NOTIF.unpack(buffer)
    return Notification(words[0], words[1], words[3], words[6:])


def let_go_on(listener: int, ident: int) -> bool:
    """Let a call run on the host unchanged; return False if the caller is gone.

    There is none when its caller died, when another has answered, or before it was
    received.
    """
    return _send(listener, ident, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE)


def answer(listener: int, ident: int, value: int) -> bool:
    """Answer a call by value or -errno; return False if no caller waits."""
    return _send(listener, ident, max(value, 0), min(value, 0), 0)


def give_file(listener: int, ident: int, fd: int, flags: int) -> int:
    """Give the waiting caller a descriptor of our open file; return its number there.

    flags: O_CLOEXEC or 0.  OSError where the caller is gone, or Linux is before 5.9.
    """
    what = bytearray(struct.pack("=QIIII", ident, 0, fd, 0, flags))
    return int(fcntl.ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, what))


def is_valid(listener: int, ident: int) -> bool:
    """Return True if the caller waits for an answer; then its pid is still its own."""
    try:
        fcntl.ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, struct.pack("=Q", ident))
    except OSError as error:
        if error.errno == errno.ENOENT:
            return False
        raise
    return True


def _send(listener: int, ident: int, value: int, error: int, flags: int) -> bool:
    response = RESPONSE.pack(ident, value, error, flags)
    try:
        fcntl.ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, response)
    except OSError as refusal:
        if refusal.errno in (errno.ENOENT, errno.EINPROGRESS):
            return False
        raise
    return True
