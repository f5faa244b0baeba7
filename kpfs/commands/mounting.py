# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs mount`` and ``kpfs umount``."""

from __future__ import annotations

import contextlib
import enum
import errno
import fcntl
import os
import select
import signal
import sys
from collections.abc import Iterator
from functools import partial

from kpfs.base.errors import SetupError, told_to_user
from kpfs.base.signals import held
from kpfs.commands.daemon import check_fuse, serve, start
from kpfs.config import DEVICE, Settings
from kpfs.host import guard, mounts, patience
from kpfs.host.ending import ended_by_signals
from kpfs.host.instead import MTAB
from kpfs.host.mounts import served_by
from kpfs.host.namespaces import instead_of_mount
from kpfs.host.progress import waiting_for

# s, as kpfs.host.patience counts them
ANSWER_PATIENCE = 2.0
OTHERS_PATIENCE = 0.5
END_PATIENCE = 1.5  # before the daemon's guard (kpfs.host.guard) loses its own
DEATH_PATIENCE = 3.0


def mount(settings: Settings, name: str, target: str, *, foreground: bool) -> int:
    """Do ``kpfs mount NAME``, whose real path is target; SetupError."""
    if settings.transport == DEVICE:
        check_fuse()
    take_away_dead(target)
    with contextlib.ExitStack() as alone:
        alone.enter_context(_alone_at(target))
        _check_mount_point(target, name)
        if foreground:
            guard.start(log=2)
            serve(settings, target, alone.close)
            return 0
        with held():
            daemon = start(settings, target, die_with_parent=False)

            def end() -> None:
                daemon.stop()
                take_away_dead(target)

            with ended_by_signals(end):
                daemon.wait_ready()
    return 0


@contextlib.contextmanager
def _alone_at(target: str) -> Iterator[None]:
    """Let other mounts at this directory wait, to find the one that is being made."""
    fd = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)  # a child may have the description, too
        os.close(fd)


def take_away_dead(target: str) -> None:
    """Unmount what daemons that were killed have left at target."""
    while mounts.is_dead(target):
        if mounts.mount_at(target) is None:
            return
        _unmount(target, lazy=True)


def _check_mount_point(target: str, name: str) -> None:
    entry = mounts.mount_at(target)
    if entry is not None and served_by(entry.source):
        raise SetupError(f"{name}: mounted already (kpfs umount {name})")
    with told_to_user(name):
        if os.listdir(target):
            raise SetupError(f"{name}: the directory is not empty")
    if os.geteuid() == 0:
        return
    if not mounts.fusermount():
        raise SetupError(
            "mounting needs fusermount (Debian: apt install fuse3)",
            instead_of_mount(),
        )
    if not os.path.exists(MTAB):
        raise SetupError(
            f"fusermount does not unmount without {MTAB}",
            f"have root make it (ln -s /proc/self/mounts {MTAB}); {instead_of_mount()}",
        )


def _unmount(target: str, *, lazy: bool) -> None:
    """Unmount target; as an ordinary user through fusermount."""
    try:
        mounts.umount(target, mounts.MNT_DETACH if lazy else 0)
        return
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise SetupError(f"{target}: in use; leave it first") from None
        if error.errno == errno.EINVAL and mounts.mount_at(target) is None:
            return  # its daemon has ended meanwhile
        if error.errno != errno.EPERM:
            raise SetupError(f"{target}: {error.strerror}") from None
    import subprocess

    if not (program := mounts.fusermount()):
        raise SetupError("fusermount is missing (Debian: apt install fuse3)")
    flags = "-uz" if lazy else "-u"
    done = subprocess.run(
        [program, flags, target],
        stderr=subprocess.PIPE,
        text=True,
        errors="surrogateescape",
    )
    if done.returncode != 0:
        raise SetupError(done.stderr.strip() or f"{target}: cannot be unmounted")


def umount(name: str) -> int:
    """Do ``kpfs umount NAME``; SetupError."""
    target = _place(name)
    entry = mounts.mount_at(target)
    pid = served_by(entry.source) if entry else 0
    if not entry or not pid:
        raise SetupError(f"{name}: no mount of kpfs")
    daemon = _daemon(pid, entry)
    if daemon is None:
        _unmount(target, lazy=True)
        return 0
    with waiting_for("waiting for its daemon"):
        answer = _ask(target, pid)
    if answer is DaemonAnswer.DEAD:
        _unmount(target, lazy=True)
        return 0
    stuck = answer is DaemonAnswer.NONE
    if not stuck:
        _unmount(target, lazy=False)
        # it goes on if a mount namespace made since then has the mount too
        with waiting_for("waiting for its daemon to end"):
            stuck = not _ends(daemon, pid, OTHERS_PATIENCE) and not _end(daemon, pid)
    if stuck:
        mounts.abort(target)
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(daemon, signal.SIGKILL)
        if not _ends(daemon, pid, DEATH_PATIENCE):
            raise SetupError(f"its daemon (pid {pid}) goes on, although it was killed")
        mounts.detach(entry)
        print(
            f"kpfs: {name}: its daemon (pid {pid}) was stuck: killed", file=sys.stderr
        )
    return 0


def _daemon(pid: int, entry: mounts.MountEntry) -> int | None:
    """Return a pidfd of a mount's process; None: it is gone, or elsewhere."""
    try:
        daemon = os.pidfd_open(pid)
    except OSError:
        return None
    if mounts.serves(pid, entry) and not _has_ended(daemon, 0):
        return daemon
    os.close(daemon)
    return None


def _place(name: str) -> str:
    """Return the real path of a directory, without asking a daemon that serves it."""
    with told_to_user(name):
        place = os.open(name, os.O_PATH | os.O_DIRECTORY)
    try:
        return os.readlink(f"/proc/self/fd/{place}")
    finally:
        os.close(place)


def _has_ended(daemon: int, seconds: float) -> bool:
    """Return True if the process of a pidfd ends within so many seconds."""
    waiting = select.poll()
    waiting.register(daemon, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))


def _ends(daemon: int, pid: int, seconds: float) -> bool:
    """Return True if a process, and its pidfd, ends in time."""
    return patience.comes(pid, seconds, partial(_has_ended, daemon))


def _end(daemon: int, pid: int) -> bool:
    """Tell a process to end; return True if it does in time."""
    with contextlib.suppress(OSError):
        signal.pidfd_send_signal(daemon, signal.SIGTERM)
    return _ends(daemon, pid, END_PATIENCE)


class DaemonAnswer(enum.Enum):
    """The answer of the daemon that serves a mount to a question for a file."""

    SOME = enum.auto()  # be it an error
    NONE = enum.auto()  # in time
    DEAD = enum.auto()  # nobody serves it


def _ask(target: str, pid: int) -> DaemonAnswer:
    """Ask the daemon that serves target.

    A thread does, as it waits for as long as the daemon does not answer.
    """
    import threading

    answer = DaemonAnswer.NONE

    def ask() -> None:
        nonlocal answer
        try:
            with open(f"{target}/kprobes/enabled", "rb") as file:
                file.read()
            answer = DaemonAnswer.SOME
        except OSError as error:
            gone = error.errno in (errno.ENOTCONN, errno.ECONNABORTED)
            answer = DaemonAnswer.DEAD if gone else DaemonAnswer.SOME

    question = threading.Thread(target=ask, daemon=True)
    question.start()

    def answered(step: float) -> bool:
        question.join(step)
        return not question.is_alive()

    patience.comes(pid, ANSWER_PATIENCE, answered)
    return answer
