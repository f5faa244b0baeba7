# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes files and folders aside, beside the place that they get when they are whole.

Each is made in a folder of its own, whose maker holds a lock on it. A process that was
killed leaves such a folder without one, and the next that makes something in the same
place takes it away.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator

from kpfs.base.signals import held
from kpfs.base.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import IO

_FILES = ".kpfs-"  # prefix of folders in which a file is made
_NEW = "new"


@contextlib.contextmanager
def folder(place: str, prefix: str) -> Iterator[str]:
    """Make a folder in a place, which goes away with what is still in it; OSError.

    prefix: of its name, and of those that killed processes have left.
    """
    import shutil

    _clear_away(place, prefix)
    made, lock = "", -1
    try:
        with held():  # between making and knowing it, a signal would leave it
            made, lock = _make(place, prefix)
        yield made
    finally:
        if made:
            shutil.rmtree(made, ignore_errors=True)
            os.close(lock)


@contextlib.contextmanager
def replacing(path: str, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of path when the block ends without an error.

    What is no ordinary file, such as a device, is written itself.  OSError.
    """
    if not _is_replaced(path):
        with open(path, "wb") as file:
            yield file
        return
    path = os.path.realpath(path)
    with folder(os.path.dirname(path), _FILES) as made:
        new = os.path.join(made, _NEW)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(new, flags, mode), "wb") as file:
            yield file
        os.replace(new, path)


def check_room(path: str, size: int) -> None:
    """Raise OSError if replacing() could not write so many bytes there now."""
    if _is_replaced(path):
        with folder(os.path.dirname(os.path.realpath(path)), _FILES) as made:
            with open(os.path.join(made, _NEW), "wb") as file:
                _reserve(file.fileno(), size)


def _is_replaced(path: str) -> bool:
    """Return True for no file, or an ordinary one; OSError for a folder."""
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return os.path.isfile(path) or not os.path.exists(path)


def _reserve(fd: int, size: int) -> None:
    """Give a file so many bytes, where the file system can do so; OSError."""
    try:
        if size:
            os.posix_fallocate(fd, 0, size)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise


class LaterFile:
    """A file that is opened before there is something to write.

    It keeps what it had until then.  If the block of ``with`` ends with an error, or
    there is no room, a file that was not there before is taken away.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the file, or make it.  OSError."""
        self.path = os.path.abspath(path)
        self._is_new = not os.path.lexists(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o666)

    def __enter__(self) -> LaterFile:
        return self

    def __exit__(self, kind: object, *_rest: object) -> None:
        if kind is not None:
            self._take_away()
        os.close(self._fd)

    def write(self, data: bytes) -> None:
        """Write data in place of what the file has, of which a signal keeps no part.

        OSError: there is no room, and it is as it was.
        """
        is_ordinary = stat.S_ISREG(os.fstat(self._fd).st_mode)
        with held() if is_ordinary else contextlib.nullcontext():
            try:
                write_whole(self._fd, data)
            except OSError:
                self._take_away()
                raise

    def _take_away(self) -> None:
        """Remove the file if it is new, and nobody has written to it."""
        mine = os.fstat(self._fd)
        with contextlib.suppress(OSError):
            is_there = os.path.samestat(os.lstat(self.path), mine)
            if self._is_new and is_there and not mine.st_size:
                os.unlink(self.path)


def write_whole(fd: int, data: bytes) -> None:
    """Write data in place of what an open file has.

    For a file that was opened before there was something to write. OSError: there is no
    room, and the file is as it was.
    """
    before = os.fstat(fd)
    if not stat.S_ISREG(before.st_mode):
        while data:
            data = data[os.write(fd, data) :]
        return
    try:
        _reserve(fd, len(data))
    except OSError:
        os.ftruncate(fd, before.st_size)
        raise
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done:], done)
    os.ftruncate(fd, len(data))


def append_whole(fd: int, data: bytes) -> None:
    """Append data to a file that was opened for that.  OSError: it is as it was."""
    before = os.fstat(fd)
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError:
        if stat.S_ISREG(before.st_mode):
            os.ftruncate(fd, before.st_size)
        raise


def _make(place: str, prefix: str) -> tuple[str, int]:
    """Make a folder, and lock it; return it with the descriptor that has the lock."""
    import tempfile

    while True:
        made = tempfile.mkdtemp(prefix=prefix, dir=place)
        with contextlib.suppress(BlockingIOError, FileNotFoundError):
            lock = _lock(made)
            if os.path.isdir(made):
                return made, lock
            os.close(lock)  # another process has just taken it for one that was left


def _lock(path: str) -> int:
    """Lock a folder of this user; return the descriptor with the lock; OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_uid != os.geteuid():
            raise PermissionError(f"{path} is somebody else's")
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd


def _clear_away(place: str, prefix: str) -> None:
    """Remove the folders of processes that were killed."""
    import shutil

    for entry in os.listdir(place):
        if entry.startswith(prefix):
            path = os.path.join(place, entry)
            with contextlib.suppress(OSError):
                fd = _lock(path)
                shutil.rmtree(path, ignore_errors=True)
                os.close(fd)
