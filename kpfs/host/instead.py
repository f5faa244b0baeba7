# SPDX-License-Identifier: GPL-2.0-or-later
"""Name the commands that work where mounts or namespaces cannot be made.

A command that cannot work here names another one, which is tried first: containers
often deny both mounts and namespaces.  A command inside a Linux kernel needs neither.
"""

from __future__ import annotations

import errno
import os

from kpfs.host import mounts

MTAB = "/etc/mtab"  # without it fusermount does not unmount
USUAL = "6.12"  # a kernel for those who have none yet
_FOREIGN = (
    "-arm64",
    "-riscv64",
    "-s390x",
    "-ppc64el",
    "-armhf",
    "-i386",
    "-mips64el",
)  # ends of names whose kernels run no program of a host


def inside() -> str:
    """Return a command that works without mounts, devices and namespaces."""
    from kpfs.linux.store import store
    from kpfs.linux.store.store import JOIN

    made = [n for n in store.names() if not n.partition(JOIN)[0].endswith(_FOREIGN)]
    kernel = USUAL if USUAL in made else next(iter(made), f"{USUAL} --make")
    return f"'kpfs run --kernel {kernel} --inside'"


def of_run() -> str:
    """Return what works where namespaces are refused."""
    return _with("kpfs mount") if can_mount() else of_both()


def of_mount(*, namespaces: bool) -> str:
    """Return what works where a mount is refused.  namespaces: they can be made."""
    can_run = namespaces and _can_open_device()
    return _with("kpfs run") if can_run else of_both()


def of_both() -> str:
    """Return what works where there is no FUSE."""
    return f"{inside()} and 'kpfs matrix' do without"


def _with(command: str) -> str:
    return f"'{command}' and {inside()} do without"


def _can_open_device() -> bool:
    """Return True if requests of FUSE can be had."""
    try:
        os.close(os.open(mounts.FUSE_DEVICE, os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def can_mount() -> bool:
    """Return True if this user can mount where others see it."""
    if not _can_open_device():
        return False
    if os.geteuid() != 0:
        return bool(mounts.fusermount()) and os.path.exists(MTAB)
    return may_mount()


def may_mount() -> bool:
    """Return True if mount(2) does not refuse this process to mount."""
    try:  # with a type that there is not, so that only the right to mount is checked
        mounts.mount("none", "/", "nosuchfs")
    except OSError as error:
        return error.errno == errno.ENODEV
    return True
