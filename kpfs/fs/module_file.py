# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse writes to machine/insmod and machine/rmmod, and read the file they name."""

from __future__ import annotations

import errno
import os
import stat

from kpfs.base.errors import KernelError
from kpfs.base.units import MODULE_MAX

NAME = rb"[A-Za-z0-9_-]+"
WORD = rb'(?:[^\s"]|"[^"]*")+'


def module_name(line: bytes) -> bytes:
    """Return the module that rmmod is to unload; EINVAL: it is not one name."""
    words = line.split(b"\0", 1)[0].split()
    if len(words) != 1:
        raise KernelError(errno.EINVAL, "not one name")
    return os.path.basename(words[0]).removesuffix(b".ko").replace(b"-", b"_")


def seen_by(pid: int, path: bytes) -> bytes:
    """Return a path as a process means it, by its root and working directory."""
    start = b"root" if path.startswith(b"/") else b"cwd"
    found = b"/proc/%d/%s/%s" % (pid, start, path.lstrip(b"/"))
    if os.path.exists(found) or not os.path.isabs(path):
        return found
    return path


def contents(path: bytes) -> bytes:
    """Return the bytes of a file; its own errno if it cannot be read."""
    try:
        # a FIFO must not make it wait
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise KernelError(errno.EINVAL, "no regular file")
            if status.st_size > MODULE_MAX:
                raise KernelError(errno.EFBIG, "the module is too large")
            return file.read(MODULE_MAX)
    except OSError as exc:
        why = f"{os.fsdecode(path)}: {exc.strerror}"
        raise KernelError(exc.errno or errno.EIO, why) from None
