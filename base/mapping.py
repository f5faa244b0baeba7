# SPDX-License-Identifier: GPL-2.0-or-later
"""Map memory for machines, and unmap it at once.

A mapping of Python's stays as long as there are views of it, and these often stay until
the garbage collector finds them in a circle: gigabytes of addresses, and a descriptor.
So unmap() releases the views. A view does not know the others of its mapping, and a
look at all objects takes 35 to 150 ms for each million of them. Whoever keeps a view
therefore says so by known(), and unmap() looks at all objects only if there are others.
"""

from __future__ import annotations

import gc
import mmap
import weakref

from kpfs.base import limits

_known = dict[int, "weakref.ref[memoryview]"]()  # by the id of the view


def known(view: memoryview) -> memoryview:
    """Let unmap() find a view of a mapping quickly; return the view."""
    number = id(view)
    _known[number] = weakref.ref(view, lambda _: _known.pop(number, None))
    return view


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
    for find in (_known_views, gc.get_objects):
        if not viewed:
            return
        for view in find():
            if type(view) is memoryview:
                _release(view, viewed)
        viewed = [mapping for mapping in viewed if not _close(mapping)]
    for mapping in viewed:
        mapping.madvise(mmap.MADV_DONTNEED)


def empty(one: mmap.mmap) -> None:
    """Give the memory of a mapping back whose views are in use: they show zeros."""
    if not _close(one):
        one.madvise(mmap.MADV_DONTNEED)


def _known_views() -> list[object]:
    return [reference() for reference in _known.copy().values()]


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
