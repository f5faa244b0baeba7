# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs mount`` and ``kpfs umount``."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import sys

from kpfs.daemon import Settings, check_fuse, serve, start
from kpfs.host import guard, mounts
from kpfs.host.errors import SetupError
from kpfs.host.mounts import served_by
from kpfs.host.progress import waiting_for

OTHERS_PATIENCE = 1_000  # ms
ANSWER_PATIENCE = 2.0  # s
END_PATIENCE = 1_500  # ms; before the daemon's guard (kpfs.host.guard) loses its own
UMOUNT_PATIENCE = 3_000  # ms


def mount(settings: Settings, name: str, target: str, *, foreground: bool) -> int:
    """``kpfs mount NAME``, whose real path is target; SetupError where it cannot be."""
    check_fuse()
    take_away_dead(target)
    _check_mount_point(target, name)
    if foreground:
        guard.start(log=2)
        serve(settings, target, lambda: None)
    else:
        start(settings, target, die_with_parent=False).wait_ready()
    return 0


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
    try:
        if os.listdir(target):
            raise SetupError(f"{name}: the directory is not empty")
    except OSError as error:
        raise SetupError(f"{name}: {error.strerror}") from None
    import shutil

    if os.geteuid() != 0 and not shutil.which("fusermount"):
        raise SetupError(
            "mounting needs fusermount (Debian: apt install fuse3); "
            "'kpfs run' does without"
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

    flags = "-uz" if lazy else "-u"
    try:
        done = subprocess.run(
            ["fusermount", flags, target], stderr=subprocess.PIPE, text=True
        )
    except FileNotFoundError:
        raise SetupError("fusermount is missing (Debian: apt install fuse3)") from None
    if done.returncode != 0:
        raise SetupError(done.stderr.strip() or f"{target}: cannot be unmounted")


def umount(name: str) -> int:
    """``kpfs umount NAME``; SetupError where it cannot be."""
    target = _place(name)
    entry = mounts.mount_at(target)
    pid = served_by(entry.source) if entry else 0
    if not entry or not pid:
        raise SetupError(f"{name}: no mount of kpfs")
    daemon = None
    with contextlib.suppress(OSError):
        daemon = os.pidfd_open(pid)
    if daemon is None or _has_ended(daemon, 0):
        _unmount(target, lazy=True)
        return 0
    with waiting_for("waiting for its daemon"):
        stuck = not _answers(target)
    if not stuck:
        _unmount(target, lazy=mounts.is_dead(target))
        # it goes on if a mount namespace made since then has the mount too
        with waiting_for("waiting for its daemon to end"):
            stuck = not _has_ended(daemon, OTHERS_PATIENCE) and not _end(daemon)
    if stuck:
        mounts.abort(target)
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(daemon, signal.SIGKILL)
        if not _has_ended(daemon, UMOUNT_PATIENCE):
            raise SetupError(f"its daemon (pid {pid}) goes on, although it was killed")
        _take_away(target, entry)
        print(
            f"kpfs: {name}: its daemon (pid {pid}) was stuck: killed",
            file=sys.stderr,
        )
    return 0


def _place(name: str) -> str:
    """The real path of a directory; unlike stat() it asks no daemon that serves it."""
    try:
        place = os.open(name, os.O_PATH | os.O_DIRECTORY)
    except OSError as error:
        raise SetupError(f"{name}: {error.strerror}") from None
    try:
        return os.readlink(f"/proc/self/fd/{place}")
    finally:
        os.close(place)


def _has_ended(daemon: int, patience: int) -> bool:
    """Whether the process of a pidfd ends within so many ms."""
    waiting = select.poll()
    waiting.register(daemon, select.POLLIN)
    return bool(waiting.poll(patience))


def _end(daemon: int) -> bool:
    """Tell the process of a pidfd to end; returns whether it does in time."""
    with contextlib.suppress(OSError):
        signal.pidfd_send_signal(daemon, signal.SIGTERM)
    return _has_ended(daemon, END_PATIENCE)


def _answers(target: str) -> bool:
    """Whether the daemon that serves target answers in time, if only by an error.

    A thread asks, as it waits for as long as the daemon does not answer.
    """
    import threading

    def ask() -> None:
        with contextlib.suppress(OSError), open(f"{target}/kprobes/enabled") as file:
            file.read()

    question = threading.Thread(target=ask, daemon=True)
    question.start()
    question.join(ANSWER_PATIENCE)
    return not question.is_alive()


def _take_away(target: str, entry: mounts.MountEntry) -> None:
    """Unmount what is still there of a mount whose daemon has ended."""
    if any(other.ident == entry.ident for other in mounts.table()):
        mounts.detach(target)
