# SPDX-License-Identifier: GPL-2.0-or-later
"""Mounts and namespaces of the host, by system calls.

Document: mount(2), unshare(2), user_namespaces(7), proc_pid_mountinfo(5).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
from collections.abc import Callable, Iterator

from kpfs.base.syscall_numbers import MS_BIND, MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_RDONLY
from kpfs.base.typed import NamedTuple

MS_REMOUNT, MS_REC, MS_PRIVATE = 0x20, 0x4000, 0x40000
MS_NOATIME, MS_NODIRATIME, MS_RELATIME = 1024, 2048, 1 << 21
MNT_FORCE, MNT_DETACH, UMOUNT_NOFOLLOW = 1, 2, 8
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MOUNT_FLAGS = ("rw", "ro", "nosuid", "nodev", "noexec", "relatime")
ST_RELATIME = 4096  # the one flag of statvfs(3) whose MS_ value differs

# tools look here for file systems of these types: parts of the tree lie there, and the
# first tracefs of the mount table is the one that tools take
LINUX_TYPES = {
    "/sys/kernel/debug": "debugfs",
    "/sys/kernel/tracing": "tracefs",
    "/sys/kernel/debug/tracing": "tracefs",
}
# The host kernel's build-id, under which perf would keep our symbols in ~/.debug.  Ours
# has none, and something empty covers it.
NOTES = "/sys/kernel/notes"
FUSE_DEVICE = "/dev/fuse"
CONNECTION = r"(?m)^fuse_connection:\t(\d+)$"  # Linux 6.18

_libc = ctypes.CDLL(None, use_errno=True)


class MountEntry(NamedTuple):
    """A line of /proc/self/mountinfo."""

    ident: int  # survives renames of directories above; used again later
    device: int  # st_dev of its files
    target: str
    fstype: str
    source: str


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def mount(
    source: str, target: str, fstype: str = "", flags: int = 0, data: str = ""
) -> None:
    names = os.fsencode(source), os.fsencode(target), fstype.encode()
    _check(_libc.mount(*names, ctypes.c_ulong(flags), data.encode()), target)


def umount(target: str, flags: int = 0) -> None:
    _check(_libc.umount2(os.fsencode(target), flags | UMOUNT_NOFOLLOW), target)


def abort(target: str) -> None:
    """Make all requests to a FUSE mount fail, now and later."""
    with contextlib.suppress(OSError):
        umount(target, MNT_FORCE)


def fusermount() -> str:
    """Return the program that mounts for an ordinary user, or nothing.

    Not all systems whose libfuse is 3 give it the old name, too.
    """
    import shutil

    return shutil.which("fusermount") or shutil.which("fusermount3") or ""


def detach(mount: MountEntry) -> None:
    """Unmount a FUSE mount from where it is now, even if it is in use.

    As an ordinary user by fusermount.  Errors are ignored: it may be gone.
    """
    with contextlib.suppress(OSError):
        if now := where_now(mount):
            try:
                umount(now.target, MNT_DETACH)
            except PermissionError:
                import subprocess

                words = [fusermount(), "-uz", now.target]
                subprocess.run(words, stderr=subprocess.DEVNULL)


def bind(source: str, target: str) -> None:
    """Make source appear at target: a file, or a directory with its mounts.

    A target that is a symbolic link is itself covered.
    """
    covered = os.open(target, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        mount(source, f"/proc/self/fd/{covered}", "", MS_BIND | MS_REC)
    except OSError as error:
        raise OSError(error.errno, error.strerror, target) from None
    finally:
        os.close(covered)


def make_read_only(target: str) -> None:
    """Refuse writes below target in this mount namespace, but not to other mounts."""
    if not os.path.ismount(target):
        bind(target, target)
    flags = os.statvfs(target).f_flag
    # flags that a user namespace may not clear must be said again
    atimes = MS_NOATIME | MS_NODIRATIME
    kept = flags & (MS_NOSUID | MS_NODEV | MS_NOEXEC | atimes)
    if flags & ST_RELATIME:
        kept |= MS_RELATIME
    mount("", target, "", MS_REMOUNT | MS_BIND | MS_RDONLY | kept)


def unshare(flags: int) -> None:
    """Call unshare(2). CLONE_NEWUSER needs a process with one thread."""
    _check(_libc.unshare(flags), "unshare")


def return_to_root() -> None:
    """Enter this process's own mount namespace again: / becomes its root."""
    own = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.setns(own, CLONE_NEWNS), "setns")
    finally:
        os.close(own)


def pivot_root(new: str, old: str) -> None:
    """Call pivot_root(2), which the C library lacks."""
    number = {"x86_64": 155}.get(os.uname().machine, 41)  # else as asm-generic has it
    _check(_libc.syscall(number, os.fsencode(new), os.fsencode(old)), "pivot_root")


def table(pid: int | str = "self") -> Iterator[MountEntry]:
    """Yield the mounts that a process sees. One that covers another comes later."""
    path = f"/proc/{pid}/mountinfo"
    with open(path, encoding="utf-8", errors="surrogateescape") as f:
        for line in f:
            left, _, right = line.partition(" - ")
            words = left.split()
            fstype, source = right.split()[:2]
            major, _, minor = words[2].partition(":")
            yield MountEntry(
                ident=int(words[0]),
                device=os.makedev(int(major), int(minor)),
                target=_unescape(words[4]),
                fstype=fstype,
                source=_unescape(source),
            )


def mount_at(path: str) -> MountEntry | None:
    """Return the mount at a directory, or None if it is no mount point.

    path is as os.path.realpath() gives it.
    """
    found = [entry for entry in table() if entry.target == path]
    return found[-1] if found else None


def where_now(mount: MountEntry) -> MountEntry | None:
    """Find a mount in the table, wherever it was moved; None if it is gone.

    Its ident alone is not enough: Linux gives it to the next mount.
    """
    same = mount.ident, mount.device, mount.source
    found = (e for e in table() if (e.ident, e.device, e.source) == same)
    return next(found, None)


def _unescape(word: str) -> str:
    """Undo the octal escapes of mountinfo (space, tab, newline, backslash)."""
    return re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), word)


def source_name(pid: int) -> str:
    """Return the source that the mount table shows for a tree of process pid."""
    return f"kpfs:{pid}"


def served_by(source: str) -> int:
    """Return the process in a source_name(), 0 for other sources."""
    name, _, pid = source.partition(":")
    return int(pid) if name == "kpfs" and pid.isdigit() else 0


def serves(pid: int, mount: MountEntry) -> bool:
    """Return True if a process serves a FUSE mount.

    The mount table may tell of another pid namespace, or of a process that is long
    dead.
    """
    with contextlib.suppress(OSError):
        return any(_is_of(pid, fd, mount) for fd in os.listdir(f"/proc/{pid}/fd"))
    return False


def _is_of(pid: int, fd: str, mount: MountEntry) -> bool:
    """Return True if a process serves a mount through this descriptor."""
    with contextlib.suppress(OSError):
        if os.readlink(f"/proc/{pid}/fd/{fd}") == FUSE_DEVICE:
            with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as info:
                said = re.search(CONNECTION, info.read())
            # older kernels do not say which
            return said is None or int(said[1]) == os.minor(mount.device)
    return False


def as_linux_shows(table: str, source: str) -> str:
    """Give the tree's parts in a mount table the types of Linux's file systems.

    source: the tree's. Mounts that Linux does not have are left out. Ours follow /sys,
    as on a system that boots, so that tools that take the first tracefs find ours.
    """
    others: list[str] = []
    parts: dict[str, str] = {}
    for line in table.splitlines(keepends=True):
        name, target, fstype, flags, *_ = line.split(" ")
        linux = LINUX_TYPES.get(target)
        if linux and (name == source or (name, fstype) == (linux, "tmpfs")):
            kept = ",".join(word for word in flags.split(",") if word in MOUNT_FLAGS)
            parts[target] = f"{linux} {target} {linux} {kept} 0 0\n"
        elif name != source and target != NOTES:
            others.append(line)
    targets = [line.split(" ")[1] for line in others]
    at = targets.index("/sys") + 1 if "/sys" in targets else 0
    ours = [parts[target] for target in LINUX_TYPES if target in parts]
    return "".join([*others[:at], *ours, *others[at:]])


def shown_table(pid: int, source: str) -> bytes:
    """Return the mount table of a process, changed by as_linux_shows()."""
    with open(f"/proc/{pid}/mounts", "rb") as table:
        text = os.fsdecode(table.read())
    return os.fsencode(as_linux_shows(text, source))


def is_dead(path: str) -> bool:
    """Return True if there is a FUSE mount at path whose daemon is gone."""
    try:
        os.stat(path)
        os.statvfs(path)  # Linux may have cached the answer to stat()
    except OSError as error:
        return error.errno in (errno.ENOTCONN, errno.ECONNABORTED)
    return False


def provide_directory(path: str) -> None:
    """Make a directory exist where its file system cannot create it.

    Its parent, in sysfs or procfs, is covered by a tmpfs, into which everything that
    was there is bound.
    """
    if not os.path.isdir(path):
        _cover(os.path.dirname(path))
        os.mkdir(path)


def provide_in_root(path: str, make: Callable[[str], None]) -> None:
    """Make path exist in this mount namespace alone; make() creates it.

    The directory above is covered as by provide_directory(). It is read-only then, as
    new files would be lost. If that directory is missing, nothing is done.
    """
    parent = os.path.dirname(path)
    if os.path.lexists(path) or not os.path.isdir(parent):
        return
    _cover(parent)
    make(path)
    flags = MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV
    mount("", parent, "", flags)


def _cover(parent: str) -> None:
    """Cover a directory by a tmpfs that shows its files and can be written."""
    below = os.open(parent, os.O_PATH | os.O_DIRECTORY)
    try:
        old = f"/proc/self/fd/{below}"
        with os.scandir(old) as entries:
            names = [(e.name, e.is_dir(follow_symlinks=False)) for e in entries]
        mount("tmpfs", parent, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
        for name, is_dir in names:
            _carry_over(f"{old}/{name}", f"{parent}/{name}", is_dir)
    finally:
        os.close(below)


def _carry_over(old: str, new: str, is_dir: bool) -> None:
    """Make an entry of the covering directory. Kernel: path_pts()"""
    if os.path.islink(old):
        os.symlink(os.readlink(old), new)
        return
    if os.path.basename(new) == "ptmx" and os.path.exists(f"{old[:-4]}pts/ptmx"):
        # opening it looks for pts beside the file itself, not beside what is bound
        os.symlink("pts/ptmx", new)
        return
    if is_dir:
        os.mkdir(new)
    else:
        make_file(new)
    bind(old, new)


def make_file(path: str) -> None:
    """Make an empty file, to bind over."""
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o444))
