# SPDX-License-Identifier: GPL-2.0-or-later
"""The places of what kpfs can make again, and of the sockets of what runs."""

import contextlib
import errno
import os
import stat

_UNKNOWN = 65534  # in a user namespace, the owner of what is root's outside


def cache() -> str:
    """Return the folder, below XDG_CACHE_HOME, which may be missing."""
    above = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(above, "kpfs")


def make(folder: str, mode: int = 0o777) -> None:
    """Make a folder, and those above it, but no home of a user; OSError.

    A home that is not there was never meant to be, as /nonexistent of nobody.
    """
    home = os.path.expanduser("~")
    if f"{folder}/".startswith(f"{home}/") and not os.path.isdir(home):
        why = "there is no such home: name others in XDG_CACHE_HOME and XDG_DATA_HOME"
        raise FileNotFoundError(errno.ENOENT, why, home)
    os.makedirs(folder, mode, exist_ok=True)


def private_cache() -> str:
    """Return a folder for what others must not change: that of cache() if it is so.

    Where users share XDG_CACHE_HOME, it is the one of sockets. Raises OSError.
    """
    folder = cache()
    with contextlib.suppress(OSError):
        make(folder, 0o700)
        if os.stat(folder).st_uid == os.geteuid() and _only_we_change(folder):
            return folder
    return runtime()


def _only_we_change(folder: str) -> bool:
    """Return True if no other user can put another folder in the place of one."""
    at = folder = os.path.abspath(folder)
    while True:
        # of a link, its owner may change it
        for st in (os.lstat(at), os.stat(at)):
            if st.st_uid not in (0, os.geteuid(), _UNKNOWN):
                return False
        writers = stat.S_IWOTH
        if st.st_gid != os.getgid():  # umask 002 goes with a group for each user
            writers |= stat.S_IWGRP
        is_sticky = st.st_mode & stat.S_ISVTX and at != folder
        if st.st_mode & writers and not is_sticky:
            return False
        if at == "/":
            return True
        at = os.path.dirname(at)


def runtime() -> str:
    """Return the folder of sockets, which only this user can enter; OSError."""
    above = os.environ.get("XDG_RUNTIME_DIR", "")
    if not above or not _is_ours(above):  # su(1) keeps another user's
        above = os.environ.get("TMPDIR") or "/tmp"
    folder = os.path.join(above, f"kpfs-{os.getuid()}")
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    st = os.lstat(folder)
    if st.st_uid != os.getuid() or stat.S_IMODE(st.st_mode) != 0o700:
        raise PermissionError(f"{folder} is somebody else's")
    return folder


def _is_ours(folder: str) -> bool:
    with contextlib.suppress(OSError):
        return os.stat(folder).st_uid == os.getuid() and os.access(folder, os.W_OK)
    return False
