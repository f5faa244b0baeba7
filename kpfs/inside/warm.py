# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds the process that has a kernel ready, and starts it if need be.

There is one for each choice of a kernel. It listens at a socket of the user;
kpfs.inside.server tells what it does.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import socket
import struct
import time
from collections.abc import Iterator

from kpfs.base import host_process, limits, places
from kpfs.base.errors import SetupError
from kpfs.base.signals import fork
from kpfs.config import KernelChoice
from kpfs.host import process
from kpfs.linux.errors import UnfitError
from kpfs.linux.inside.request import GREETING, PATIENCE, RunRequest
from kpfs.linux.store import store

SECONDS = "KPFS_WARM"  # environment variable; 0: keep no process
DEFAULT_SECONDS = 60
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_FDS = 3
_RAM = "ram"  # image.RAM, whose import would take long
_UCRED = struct.Struct("3i")  # pid, uid, gid
_NAMESPACES = ("mnt", "user", "pid", "net", "uts")
_PRIVILEGES = (b"Cap", b"NoNewPrivs", b"Seccomp")  # lines of /proc/self/status


def seconds() -> int:
    """Return how long an idle process is kept."""
    text = os.environ.get(SECONDS, "")
    return int(text) if text.isdecimal() else DEFAULT_SECONDS


# ---- the socket
def _key(choice: KernelChoice) -> str:
    """Return a digest of everything that we and a process that serves us must share."""
    facts: list[object] = [choice]
    for root in map(os.stat, ("/", choice.root)):
        facts += [root.st_dev, root.st_ino]
    facts += [os.getuid(), os.getgid(), sorted(os.getgroups())]
    for path in (os.path.join(store.folder(choice.kernel), _RAM), *_sources()):
        st = os.stat(path)
        facts.append((path, st.st_dev, st.st_ino, st.st_mtime_ns, st.st_ctime_ns))
    for name in _NAMESPACES:
        with contextlib.suppress(OSError):
            facts.append(os.readlink(f"/proc/self/ns/{name}"))
    with contextlib.suppress(OSError), open("/proc/self/status", "rb") as status:
        facts += [line for line in status if line.startswith(_PRIVILEGES)]
    with contextlib.suppress(OSError), open("/proc/self/limits", "rb") as limit:
        facts.append(limit.read())
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:24]


def _sources() -> list[str]:
    """Return the files of this version: those of all rooms of kpfs.linux, and ours."""
    return sorted(
        os.path.join(folder, name)
        for top in ("linux", "inside")
        for folder, _, names in os.walk(os.path.join(_HERE, top))
        if not folder.endswith("__pycache__")
        for name in names
    )


def ready_at(choice: KernelChoice) -> str:
    """Return the path of the socket. Raises OSError, UnfitError."""
    return os.path.join(places.runtime(), _key(choice))


# ---- the client's side
def connect(choice: KernelChoice) -> socket.socket | None:
    """Connect to the process for such a kernel; None if there can be none."""
    if choice.quiet or not seconds():
        return None
    try:
        path = ready_at(choice)
        with contextlib.suppress(OSError):
            return _try(path)
        with _locked(f"{path}.lock"):
            with contextlib.suppress(OSError):
                return _try(path)
            if host_process.is_traced(os.getpid()):
                return None  # strace -f would wait until it ends
            _start(choice, path)
            return _try(path)
    except (OSError, UnfitError):
        return None  # the command starts its own kernel


def forget(choice: KernelChoice) -> None:
    """Have the next command start another process, as this one does not answer."""
    with contextlib.suppress(OSError, UnfitError):
        os.unlink(ready_at(choice))


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    """Hold a lock. Raises TimeoutError if a process keeps it that was stopped, say."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    lock = os.open(path, flags, 0o600)
    try:
        until = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if time.monotonic() > until:
                raise TimeoutError(path)
            time.sleep(0.01)
        yield
    finally:
        os.close(lock)


def _try(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(path)
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        if _UCRED.unpack(peer)[1] != os.getuid():  # it would get our streams
            raise PermissionError(f"{path} is somebody else's")
    except OSError:
        connection.close()
        raise
    return connection


def ask(connection: socket.socket, request: RunRequest) -> None:
    """Have the process run a command with our descriptors. Raises OSError.

    It gets them when it answers: a stopped one would keep them open.
    """
    connection.settimeout(PATIENCE)
    if connection.recv(len(GREETING)) != GREETING:
        raise ConnectionError
    data = json.dumps(request.packed()).encode() + b"\n"
    socket.send_fds(connection, [data[:1]], [*range(_FDS), *request.further])
    connection.sendall(data[1:])
    connection.settimeout(None)


def check_host(choice: KernelChoice) -> None:
    """Raise SetupError if a process with this one's limits could not run the kernel."""
    from kpfs.linux.store import image

    limits.check(image.read_meta(store.folder(choice.kernel)).memory)
    if not os.path.isdir("/proc/self/fd"):
        raise SetupError("--inside needs /proc: mount -t proc proc /proc")


def _start(choice: KernelChoice, path: str) -> None:
    """Start a process that listens there. It answers when its kernel is ready.

    Until then it ends with this process, which therefore keeps the end of a pipe open.
    """
    check_host(choice)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o077)
    try:
        listener.bind(path)
    finally:
        os.umask(before)
    listener.listen(64)
    waiting, _ = os.pipe()
    middle = fork()
    if middle == 0:
        status = 1
        try:
            if fork() == 0:
                _detach({listener.fileno(), waiting})
                from kpfs.inside.server import serve

                serve(choice, path, listener, seconds(), waiting)
            status = 0
        finally:
            os._exit(status)
    os.waitpid(middle, 0)
    os.close(waiting)
    listener.close()


def _detach(kept: set[int]) -> None:
    """Keep nothing of the process that started this one but some descriptors."""
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(_FDS):
        os.dup2(null, number)
    process.close_all_but({*range(_FDS), *kept})
    process.rename("kpfs-warm")
