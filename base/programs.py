# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs of the user: the shell, and folders in which commands are looked for."""

from __future__ import annotations

import contextlib
import os

SBIN = "/usr/sbin", "/sbin"
NOT_EXECUTABLE, NOT_FOUND = 126, 127  # statuses of a shell
BASH = "/bin/bash", "/usr/bin/bash"


def search_path() -> str:
    """Return PATH with the folders of root's programs, which users often lack.

    Commands are root of the emulated kernel, so they look for modprobe and sysctl.
    """
    folders = os.environ.get("PATH", os.defpath).split(":")
    return ":".join([*folders, *(name for name in SBIN if name not in folders)])


def shell(root: str = "/") -> str:
    """Return the user's shell; bash in place of dash where there is one.

    root: the folder that the shell will have as its root. /bin/sh stands for a shell
    that is missing there.

    A write that the kernel refuses is "I/O error" to the echo of dash, whatever the
    errno.
    """
    found = os.environ.get("SHELL")
    if not found:
        import pwd

        with contextlib.suppress(KeyError):
            found = pwd.getpwuid(os.getuid()).pw_shell
    found = found or "/bin/sh"
    if root != "/":
        return found if os.path.lexists(root + found) else "/bin/sh"
    if os.path.basename(os.path.realpath(found)) == "dash":
        return next(filter(os.path.exists, BASH), found)
    return found
