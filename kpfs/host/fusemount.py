# SPDX-License-Identifier: GPL-2.0-or-later
"""Mounts a FUSE file system: by mount(2), else by the program fusermount.

Document: mount.fuse(8), fusermount(1).
"""

from __future__ import annotations

import os
import stat

from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import SetupError
from kpfs.host import mounts
from kpfs.host.namespaces import instead_of_mount

DEVICE = "/dev/fuse"
SUBTYPE = "kpfs"


def mount(mountpoint: str, source: str, *, allow_other: bool) -> int:
    """Mount at a directory; return the descriptor that requests come from.

    Raises SetupError.
    """
    options = "default_permissions" + (",allow_other" if allow_other else "")
    try:
        return _by_mount(mountpoint, source, options)
    except PermissionError as error:
        if os.geteuid() == 0:
            cause = f"{mountpoint}: {error.strerror}"
            mend = f"a container needs --cap-add SYS_ADMIN; {instead_of_mount()}"
            raise SetupError(cause, mend) from None
    except OSError as error:
        raise SetupError(f"{error.filename}: {error.strerror}") from None
    return _by_helper(mountpoint, f"fsname={source},subtype={SUBTYPE},{options}")


def _by_mount(mountpoint: str, source: str, options: str) -> int:
    device = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
    try:
        mode = stat.S_IFMT(os.stat(mountpoint).st_mode)
        words = f"fd={device},rootmode={mode:o},user_id={os.geteuid()}"
        words += f",group_id={os.getegid()},{options}"
        flags = nr.MS_NOSUID | nr.MS_NODEV
        mounts.mount(source, mountpoint, f"fuse.{SUBTYPE}", flags, words)
    except OSError:
        os.close(device)
        raise
    return device


def _by_helper(mountpoint: str, options: str) -> int:
    """Mount by fusermount, which may do so for an ordinary user."""
    import subprocess
    from contextlib import closing

    from kpfs.host import channel

    helper = mounts.fusermount()
    if not helper:
        raise SetupError(
            "fusermount is missing (Debian: apt install fuse3)",
            instead_of_mount(),
        )
    ours, theirs = channel.pair()
    with closing(ours), closing(theirs):
        done = subprocess.run(
            [helper, "-o", options, "--", mountpoint],
            env={**os.environ, "_FUSE_COMMFD": str(theirs.fileno())},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
        )
        if done.returncode:
            lines = done.stderr.splitlines() or [f"{helper} failed"]
            raise SetupError(f"{lines[-1]}; {instead_of_mount()}")
        (fd,) = channel.receive_fds(ours, 1)
        os.set_inheritable(fd, False)
        return fd
