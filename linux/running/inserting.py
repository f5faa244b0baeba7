# SPDX-License-Identifier: GPL-2.0-or-later
"""Puts the file of a module into a kernel, by the system calls of any task."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence

from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError
from kpfs.linux.running.machine import Op, Reply

Request = Callable[[Sequence[Op]], Reply]  # makes system calls of a task
_PIECE = 128 << 10  # bytes of one write


def make_file(request: Request, data: bytes) -> int:
    """Make a nameless file with these data; return a task's descriptor of it.

    Raises KernelError.  ENOMEM: the kernel has no room for it.
    """
    (fd,) = request([Op(nr.MEMFD_CREATE, (b"module\0", 0))]).results
    if fd < 0:
        raise KernelError(-fd, "no file in the guest")
    for at in range(0, len(data), _PIECE):
        part = data[at : at + _PIECE]
        if request([Op(nr.WRITE, (fd, part, len(part)))]).results != [len(part)]:
            request([Op(nr.CLOSE, (fd,))])
            raise KernelError(errno.ENOMEM, "no room for a file in the guest")
    return fd


def insert(request: Request, data: bytes, words: bytes = b"") -> int:
    """Have a task load a module's file; return what finit_module(2) returns."""
    fd = make_file(request, data)
    loading = Op(nr.FINIT_MODULE, (fd, words + b"\0", 0))
    return request([loading, Op(nr.CLOSE, (fd,))]).results[0]
