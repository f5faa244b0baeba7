# SPDX-License-Identifier: GPL-2.0-or-later
"""Translate between paths of the mount and paths of Linux."""

from __future__ import annotations

# Where the guest's open() finds what is below a directory of the mount.
LINUX_PATHS = {
    "kprobes": "/sys/kernel/debug/kprobes",
    "sys": "/proc/sys",
    "tracing": "/sys/kernel/tracing",
    "kallsyms": "/proc/kallsyms",
    "version": "/sys/kernel/debug/kpfs/version",  # /proc/version is the guest's own
    "cmdline": "/sys/kernel/debug/kpfs/cmdline",  # likewise
    "config.gz": "/sys/kernel/debug/kpfs/config.gz",
    "module": "/sys/kernel/debug/kpfs/module",  # the guest has no /sys/module
    "modules": "/proc/modules",
    "kmsg": "/proc/kmsg",  # the guest has no /dev
    "messages": "/sys/kernel/debug/kpfs/messages",  # the guest has no /var/log
    "machine": "/sys/kernel/debug/kpfs/machine",
    "debug": "/sys/kernel/debug",  # after those that lie in it
}


def linux_path(path: str) -> str:
    """The path on Linux of an absolute path in the mount."""
    top, slash, rest = path.lstrip("/").partition("/")
    return LINUX_PATHS.get(top, "/" + top) + slash + rest


def mount_path(path: str) -> str:
    """The inverse of linux_path(); a path that is none of these is not there."""
    for top, linux in LINUX_PATHS.items():
        if path == linux or path.startswith(linux + "/"):
            return f"/{top}{path[len(linux) :]}"
    return f"/{path}"
