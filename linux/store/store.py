# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernels that were made, by name, below XDG_DATA_HOME.

Each is a folder (see kpfs.linux.store.image). It is made aside and put in place by
rename, so that machines that run an older one keep what they have mapped.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kpfs.base.errors import of_file
from kpfs.linux.errors import UnfitError

if TYPE_CHECKING:
    from kpfs.linux.store import image

NEW = ".new-"  # prefix of folders that are not whole yet
FRESH = 10  # s in which a new folder may still be without its lock
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+:-]*")


def place() -> str:
    """Return the folder of all kernels, which may be missing."""
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.path.join(data, "kpfs", "kernels")


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UnfitError(f"{name!r} is no name for a kernel (letters, digits, .+_:-)")
    return name


def names() -> list[str]:
    """Return the names of all kernels, sorted."""
    try:
        entries = os.listdir(place())
    except FileNotFoundError:
        return []
    return sorted(entry for entry in entries if _NAME.fullmatch(entry))


def folder(name: str) -> str:
    """Return the folder of a kernel. Raises UnfitError that lists the kernels."""
    path = os.path.join(place(), check_name(name))
    if not os.path.isdir(path):
        there = ", ".join(names()) or "there is none yet"
        raise UnfitError(
            f"no kernel {name} (kpfs kernel make {name}); those that are there: {there}"
        )
    return path


@contextlib.contextmanager
def new_folder(name: str) -> Iterator[str]:
    """Make a folder that gets this name unless the block fails."""
    import shutil
    import tempfile

    os.makedirs(place(), mode=0o700, exist_ok=True)
    _clear_away()
    made = tempfile.mkdtemp(prefix=NEW, dir=place())
    in_use = _lock(made)
    try:
        yield made
        _put(made, os.path.join(place(), check_name(name)))
    except OSError as error:  # as where the disk is full
        raise of_file(error, str(error.filename or place())) from None
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(in_use)


def _lock(folder: str) -> int:
    """Lock a folder that is being made; return the descriptor with the lock.

    Raises OSError if another process has locked it.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd


def _clear_away() -> None:
    """Remove the folders of processes that were killed while they made a kernel."""
    import shutil

    for entry in os.listdir(place()):
        path = os.path.join(place(), entry)
        if not entry.startswith(NEW):
            continue
        with contextlib.suppress(OSError):
            if time.time() - os.stat(path).st_mtime < FRESH:
                continue
            fd = _lock(path)
            shutil.rmtree(path, ignore_errors=True)
            os.close(fd)


def _put(made: str, path: str) -> None:
    """Rename a folder, also over an existing one. The last of several wins."""
    while True:
        try:
            os.rename(made, path)
            return
        except OSError:
            remove_folder(path)


def remove_folder(path: str) -> None:
    """Remove a kernel, so that nobody sees half of it."""
    import shutil
    import tempfile

    aside = tempfile.mkdtemp(prefix=".old-", dir=place())
    try:
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, os.path.join(aside, "kernel"))
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def metas() -> list[tuple[str, image.Meta | UnfitError]]:
    """Return the name of each kernel with its description, or with what is wrong."""
    from kpfs.linux.store import image

    rows: list[tuple[str, image.Meta | UnfitError]] = []
    for name in names():
        try:
            rows.append((name, image.read_meta(os.path.join(place(), name))))
        except UnfitError as error:
            rows.append((name, error))
    return rows


def by_use() -> list[tuple[str, float]]:
    """Return all kernels with the times of their last use, the latest first."""
    from kpfs.linux.store import image

    times = []
    for name in names():
        with contextlib.suppress(FileNotFoundError):
            times.append((name, image.last_use(os.path.join(place(), name))))
    return sorted(times, key=lambda row: row[1], reverse=True)


def size(path: str) -> int:
    """Return the bytes that a folder takes on the disk."""
    return sum(
        os.lstat(os.path.join(top, name)).st_blocks * 512
        for top, _, files in os.walk(path)
        for name in files
    )
