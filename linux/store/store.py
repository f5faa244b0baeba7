# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernels that were made, by name, below XDG_DATA_HOME.

Each is a folder (see kpfs.linux.store.image), which is made aside and put in place by
rename: machines that run an older one keep what they have mapped.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kpfs.linux.errors import UnfitError

if TYPE_CHECKING:
    from kpfs.linux.store import image

NEW = ".new-"  # what the name of a folder begins with that is not whole yet
FRESH = 10  # s
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


def place() -> str:
    """The folder of all kernels, which need not be there."""
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.path.join(data, "kpfs", "kernels")


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UnfitError(f"{name!r} is no name for a kernel (letters, digits, .+_-)")
    return name


def names() -> list[str]:
    """Those that are there."""
    try:
        entries = os.listdir(place())
    except FileNotFoundError:
        return []
    return sorted(entry for entry in entries if _NAME.fullmatch(entry))


def folder(name: str) -> str:
    """Where a kernel is; UnfitError says which there are."""
    path = os.path.join(place(), check_name(name))
    if not os.path.isdir(path):
        there = ", ".join(names()) or "there is none yet"
        raise UnfitError(
            f"no kernel {name} (kpfs kernel make {name}); those that are there: {there}"
        )
    return path


@contextlib.contextmanager
def new_folder(name: str) -> Iterator[str]:
    """A folder that takes the name's place if all goes well, and else vanishes."""
    import shutil
    import tempfile

    os.makedirs(place(), mode=0o700, exist_ok=True)
    _clear_away()
    made = tempfile.mkdtemp(prefix=NEW, dir=place())
    in_use = _lock(made)
    try:
        yield made
        _put(made, os.path.join(place(), check_name(name)))
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(in_use)


def _lock(folder: str) -> int:
    """A descriptor that says as long as it is open that somebody makes this folder.

    OSError where somebody else does.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd


def _clear_away() -> None:
    """Remove what those have left who were killed while they made a kernel."""
    import shutil

    for entry in os.listdir(place()):
        path = os.path.join(place(), entry)
        if not entry.startswith(NEW):
            continue
        with contextlib.suppress(OSError):
            if time.time() - os.stat(path).st_mtime < FRESH:
                continue  # who has just made it may not have locked it yet
            fd = _lock(path)
            shutil.rmtree(path, ignore_errors=True)
            os.close(fd)


def _put(made: str, path: str) -> None:
    """Rename a folder to where another one may be; whoever comes last wins."""
    while True:
        try:
            os.rename(made, path)
            return
        except OSError:
            remove_folder(path)


def remove_folder(path: str) -> None:
    """Take a kernel away at once; UnfitError where there is none."""
    import shutil
    import tempfile

    aside = tempfile.mkdtemp(prefix=".old-", dir=place())
    try:
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, os.path.join(aside, "kernel"))
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def metas() -> list[tuple[str, image.Meta | UnfitError]]:
    """Each kernel, and what it says of itself or what is wrong with it."""
    from kpfs.linux.store import image

    rows: list[tuple[str, image.Meta | UnfitError]] = []
    for name in names():
        try:
            rows.append((name, image.read_meta(os.path.join(place(), name))))
        except UnfitError as error:
            rows.append((name, error))
    return rows


def size(path: str) -> int:
    """Bytes that a folder takes on the disk."""
    return sum(
        os.lstat(os.path.join(top, name)).st_blocks * 512
        for top, _, files in os.walk(path)
        for name in files
    )
