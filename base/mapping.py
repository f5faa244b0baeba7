# SPDX-License-Identifier: GPL-2.0-or-later
"""Map memory for machines, and unmap it at once.

A mapping of Python's stays as long as there are views of it, and these often stay until
the garbage collector finds them in a circle: gigabytes of addresses, and a descriptor.
"""

from __future__ import annotations

import gc
import mmap

from kpfs.base import limits


def make(
    size: int,
    flags: int = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,
    file: int = -1,
) -> mmap.mmap:
    """Map so many bytes of a file, or zeroed ones; SetupError: there is no room."""
    try:
        return mmap.mmap(file, size, flags, mmap.PROT_READ | mmap.PROT_WRITE)
    except OSError as error:
        raise limits.no_room(size, error) from None


def unmap(*mappings: mmap.mmap) -> None:
    """Unmap memory. Any use of it, and of views of it, is a ValueError from now on.

    No object of ctypes may have it any more: that would use addresses of others.
    Where the collector does not know a view, as it was told to forget it, the addresses
    stay as long as the view does, and read as zeros.
    """
    viewed = [mapping for mapping in mappings if not _close(mapping)]
    if not viewed:
        return
    for view in gc.get_objects():
        if type(view) is memoryview:
            _release(view, viewed)
    for mapping in viewed:
        if not _close(mapping):
            mapping.madvise(mmap.MADV_DONTNEED)


def _close(mapping: mmap.mmap) -> bool:
    try:
        mapping.close()
    except BufferError:
        return False
    return True


def _release(view: memoryview, mappings: list[mmap.mmap]) -> None:
    try:
        if any(view.obj is mapping for mapping in mappings):
            view.release()
    except (ValueError, BufferError):  # released already, or in use
        pass
