# SPDX-License-Identifier: GPL-2.0-or-later
"""The one exception that the engine, the guest and the files raise on purpose."""

import errno as _errno

# Errnos that the kernel uses inside.  The first few have a call made again, and no
# program sees them; others, as the last one, now and then get out to one.
ERESTARTSYS, ERESTART_RESTARTBLOCK = 512, 516
ENOTSUPP = 524


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
    """Guest memory that is not mapped was read or written by the engine.

    Internal: whoever reads guest memory on behalf of a probe catches it and answers
    as the kernel does (EFAULT, ``(fault)``, EILSEQ).
    """

    def __init__(self, addr: int) -> None:
        super().__init__(f"no memory at {addr:#x}")
        self.addr = addr
