# SPDX-License-Identifier: GPL-2.0-or-later
"""Errors that are raised on purpose: for callers of system calls, and for the user."""

import errno as _errno
import os as _os
from collections.abc import Iterator
from contextlib import contextmanager

# Errnos that the kernel uses inside.  The first few have a call made again, and no
# program sees them; others, as the last one, now and then get out to one.
ERESTARTSYS, ERESTART_RESTARTBLOCK = 512, 516
ENOTSUPP = 524


EXIT_TROUBLE = 2  # status of a command of ours that could not do what was asked


class KernelError(Exception):
    """A request is refused, for a reason that the kernel tells as an errno.

    ``errno`` is positive, as in the errno module; ``why`` is for the debug log and
    for ``kpfs explain``; the caller of a system call sees the number alone.
    """

    def __init__(self, errno: int, why: str = "") -> None:
        super().__init__(errno, why)
        self.errno = errno
        self.why = why

    def __str__(self) -> str:
        # errorcode has the name of the C library's alias for this one
        name = _errno.errorcode.get(self.errno, str(self.errno))
        name = {"ENOTSUP": "EOPNOTSUPP"}.get(name, name)
        return f"{name}: {self.why}" if self.why else name


class MemoryFault(Exception):  # noqa: N818 (the kernel says fault)
    """An access of the engine to guest memory that is not mapped.

    Internal: code that reads guest memory for a probe catches it and answers
    as the kernel does (EFAULT, ``(fault)``, EILSEQ).
    """

    def __init__(self, addr: int) -> None:
        super().__init__(f"no memory at {addr:#x}")
        self.addr = addr


class SetupError(Exception):
    """One line that tells the user what is wrong, and what mends it."""

    def __init__(self, cause: str, mend: str = "") -> None:
        super().__init__(f"{cause}: {mend}" if mend else cause)
        self.cause = cause
        self.mend = mend  # "": the cause says how


@contextmanager
def told_to_user(name: str = "") -> Iterator[None]:
    """Raise an OSError as SetupError: the name, or else the error's file, and why."""
    try:
        yield
    except OSError as error:
        # of two files the second one is to be made
        raise of_file(error, name or str(error.filename2 or error.filename)) from None


def of_file(error: OSError, name: str) -> SetupError:
    """Return an error that tells the user about a file."""
    if error.errno == _errno.ENOTCONN:
        cause = f"{name}: the daemon of the mount there is gone"
        return SetupError(cause, f"kpfs umount {_dead_mount(name)}")
    return SetupError(f"{name}: {error.strerror}")


def _dead_mount(path: str) -> str:
    """Return the mount point of a path below which nothing answers.

    Directories are opened, since Linux answers a stat of them for a while.
    """
    while True:
        try:
            above = _os.path.dirname(path) or "."
            _os.close(_os.open(above, _os.O_RDONLY | _os.O_DIRECTORY))
        except OSError as error:
            if error.errno == _errno.ENOTCONN and above != path:
                path = above
                continue
        return path
