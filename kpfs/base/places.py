# SPDX-License-Identifier: GPL-2.0-or-later
"""Where kpfs keeps what it can make again, and the sockets of what runs."""

import contextlib
import os
import stat


def cache() -> str:
    """Return the folder, below XDG_CACHE_HOME, which may be missing."""
    above = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(above, "kpfs")


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
