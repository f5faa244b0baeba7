# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernels that were made, by name, below XDG_DATA_HOME.

Each is a folder (see kpfs.linux.store.image). It is made aside and put in place by
rename, so that machines that run an older one keep what they have mapped.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kpfs.base import aside, places
from kpfs.base.errors import of_file
from kpfs.linux.errors import UnfitError

if TYPE_CHECKING:
    from kpfs.linux.store import image

JOIN = "+"  # between a kernel's name and each of its parameters
NEW = ".new-"  # prefix of folders that are not whole yet
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+:=-]*")


def place() -> str:
    """Return the folder of all kernels, which may be missing."""
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.path.join(data, "kpfs", "kernels")


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UnfitError(f"{name!r} is no name for a kernel (letters, digits, .+_:=-)")
    return name


def names() -> list[str]:
    """Return the names of all kernels, sorted."""
    try:
        entries = os.listdir(place())
    except FileNotFoundError:
        return []
    return sorted(entry for entry in entries if _NAME.fullmatch(entry))


def folder(name: str, *, to_use: bool = True) -> str:
    """Return the folder of a kernel. Raises UnfitError that lists the kernels.

    to_use: say how to make one that is not there.
    """
    path = os.path.join(place(), check_name(name))
    if not os.path.isdir(path):
        raise _missing(name, to_use=to_use)
    return path


def _missing(name: str, *, to_use: bool) -> UnfitError:
    """Return the error about a kernel that is not there, with what helps."""
    from kpfs.linux.distribution import distributions
    from kpfs.linux.distribution.names import is_known, meant

    there = names()
    others = f"those that are there: {', '.join(there) or 'none yet'}"
    known = distributions.is_name(name) and is_known(name)
    if to_use and known is not False:
        how = f"kpfs kernel make {name}"
        if known is None:
            how += ", if 'kpfs kernel list --available' has it"
        return UnfitError(f"no kernel {name} ({how}); {others}")
    likely = meant(name, there)
    if made := [one for one in likely if one in there]:
        asked = " or ".join(made)
    elif likely and to_use:
        asked = f"{likely[0]} (kpfs kernel make {likely[0]})"
    else:
        return UnfitError(f"no kernel {name}; {others}")
    return UnfitError(f"no kernel {name}: did you mean {asked}? T{others[1:]}")


@contextlib.contextmanager
def scratch() -> Iterator[str]:
    """Make a folder beside the kernels, for a kernel that is made or removed."""
    places.make(place(), 0o700)
    with aside.folder(place(), NEW) as made:
        yield made


@contextlib.contextmanager
def new_folder(name: str) -> Iterator[str]:
    """Make a folder that gets this name unless the block fails."""
    try:
        with scratch() as made:
            yield made
            _put(made, os.path.join(place(), check_name(name)))
    except OSError as error:  # as where the disk is full
        raise of_file(error, str(error.filename or place())) from None


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
    with scratch() as made, contextlib.suppress(FileNotFoundError):
        os.rename(path, os.path.join(made, "kernel"))


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


def usage(path: str) -> dict[int, int]:
    """Return the bytes on the disk of each file in a folder, by inode.

    Kernels of one package share some files.
    """
    entries = (
        os.lstat(os.path.join(top, name))
        for top, folders, files in os.walk(path)
        for name in (*folders, *files)
    )
    return {entry.st_ino: entry.st_blocks * 512 for entry in entries}


def size(path: str) -> int:
    """Return the bytes that a folder takes on the disk."""
    return sum(usage(path).values())
