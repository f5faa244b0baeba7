# SPDX-License-Identifier: GPL-2.0-or-later
"""The memory that this process has allocated, resident or not.

Resident memory says little: libunicorn asks for huge pages, so the first byte of a new
one counts two megabytes.
"""

import ctypes
import gc
import sys


class _Mallinfo2(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def native() -> int | None:
    """Bytes that malloc() has given out; None: this C library does not say."""
    mallinfo2 = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo2 is None:
        return None
    mallinfo2.restype = _Mallinfo2
    info = mallinfo2()
    return int(info.uordblks + info.hblkhd)


def python() -> int:
    """Blocks that Python's allocator has given out."""
    gc.collect()
    return sys.getallocatedblocks()
