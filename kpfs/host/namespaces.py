# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes the user and mount namespaces of ``kpfs run`` and of its CMD.

Document: user_namespaces(7), mount_namespaces(7).
"""

from __future__ import annotations

import contextlib
import errno
import os

from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import SetupError
from kpfs.base.signals import fork
from kpfs.host import instead, mounts

# those of Ubuntu and of Debian, with the value that lets users make namespaces
SYSCTLS = (
    ("apparmor_restrict_unprivileged_userns", "0"),
    ("unprivileged_userns_clone", "1"),
)


def enter_namespaces() -> None:
    """Move this process into namespaces of its own, as root of them."""
    uid, gid = os.geteuid(), os.getegid()
    writer = _MapWriter() if uid == 0 else None
    try:
        try:
            mounts.unshare(mounts.CLONE_NEWUSER | mounts.CLONE_NEWNS)
        except PermissionError:
            if writer is None:
                raise
            _unshare_in_chroot()
        if writer is None or not writer.write():
            _map_to_root(uid, gid)
        mounts.mount("", "/", "", mounts.MS_REC | mounts.MS_PRIVATE)
    except OSError as error:
        cause = f"no user and mount namespace ({error.strerror})"
        raise SetupError(cause, f"{_remedy(error)}; {instead.of_run()}") from None
    finally:
        if writer is not None:
            writer.close()


def instead_of_mount() -> str:
    """Return what works where a mount is refused."""
    return instead.of_mount(namespaces=can_be_made())


def can_be_made() -> bool:
    """Return True if a process like this one can have namespaces of its own."""
    pid = fork()
    if pid == 0:
        try:
            enter_namespaces()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _map_to_root(uid: int, gid: int) -> None:
    """Be root of the new user namespace, in which nobody else is; SetupError."""
    _write("/proc/self/setgroups", "deny")
    try:
        _write("/proc/self/uid_map", f"0 {uid} 1")
    except PermissionError:
        if uid != 0:
            raise
        cause = "no user namespace that has a root, as this root lacks a capability"
        mend = f"a container needs --cap-add SETFCAP; {instead.of_run()}"
        raise SetupError(cause, mend) from None
    _write("/proc/self/gid_map", f"0 {gid} 1")


def _remedy(error: OSError) -> str:
    """Return what helps if namespaces are refused."""
    if error.errno == errno.ENOSPC:
        return "sysctl user.max_user_namespaces is too low"
    for name, value in SYSCTLS:
        if _read(f"/proc/sys/kernel/{name}").strip() not in ("", value):
            return f"try sysctl kernel.{name}={value}"
    # the root of a chroot may be a mount; but containers filter system calls
    if mounts.mount_at("/") is None or "\nSeccomp:\t0" in _read("/proc/self/status"):
        return "Linux makes none in a chroot for an ordinary user: be root there"
    return "a container needs --cap-add SYS_ADMIN"


def _read(path: str) -> str:
    """Return the text of a file; "" if there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _unshare_in_chroot() -> None:
    """Make the namespaces although / is not the root of our mount namespace.

    Linux makes no user namespace for a process in a chroot, as it could leave the
    chroot that way. So the root of the chroot becomes the root of the new mount
    namespace.
    """
    here, there = os.getcwd(), os.open("/", os.O_PATH)
    mounts.return_to_root()
    os.fchdir(there)
    try:
        mounts.unshare(mounts.CLONE_NEWUSER | mounts.CLONE_NEWNS)
        root = os.getcwd()
        mounts.mount("", "/", "", mounts.MS_REC | mounts.MS_PRIVATE)
        mounts.mount(root, root, "", nr.MS_BIND | mounts.MS_REC)
        os.chdir(root)
        mounts.pivot_root(".", ".")
        mounts.umount(".", mounts.MNT_DETACH)
    except OSError:
        os.fchdir(there)
        os.chroot(".")
        raise
    finally:
        os.close(there)
    os.chdir(here)


class _MapWriter:
    """A process that stays outside and maps all ids one to one.

    From inside, only one id could be mapped, and the files of all others would be
    nobody's.
    """

    def __init__(self) -> None:
        parent = os.getpid()
        go, self.start = os.pipe()
        self.pid = fork()
        if self.pid:
            os.close(go)
            return
        status = 1
        try:
            os.close(self.start)
            if os.read(go, 1):
                for name in ("uid_map", "gid_map"):
                    _write(f"/proc/{parent}/{name}", self.identity(name))
                status = 0
        finally:
            os._exit(status)

    @staticmethod
    def identity(name: str) -> str:
        """Return a map of every id that exists here to itself."""
        with open(f"/proc/self/{name}", encoding="utf-8") as f:
            ranges = [line.split() for line in f]
        return "".join(f"{first} {first} {count}\n" for first, _, count in ranges)

    def write(self) -> bool:
        """Let the process write the maps. Return True if it could."""
        os.write(self.start, b"g")
        return os.waitpid(self.pid, 0)[1] == 0

    def close(self) -> None:
        os.close(self.start)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def lock_mounts() -> None:
    """Keep the command from unmounting our mounts: the host's may lie beneath.

    In a user namespace of its own it may add mounts, but not undo inherited ones:
    mount_namespaces(7).
    """
    writer = _MapWriter()
    try:
        mounts.unshare(mounts.CLONE_NEWUSER | mounts.CLONE_NEWNS)
        if not writer.write():
            raise OSError(errno.EPERM, "the ids of the command cannot be mapped")
    finally:
        writer.close()
