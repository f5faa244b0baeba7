# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests that are ready: one process for each kind, which is forked for a command.

It is made at the first use and listens at a socket of the user's.  From what commands
have read it learns what the next one will, and has that in the guest's page cache.  It
ends when it has been idle for a while, and when nobody could find it any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import select
import signal
import socket
import stat
import tempfile
from collections.abc import Iterator

from kpfs.engine.errors import KernelError
from kpfs.guest.emu.libunicorn import EmulatorError
from kpfs.inside.machine import Guest, Kind, Session, refuse
from kpfs.linux.errors import UnfitError
from kpfs.linux.inside.command import Request
from kpfs.linux.inside.learned import Learned
from kpfs.linux.inside.loop import CallError
from kpfs.linux.store import store

SECONDS = "KPFS_WARM"  # environment: how long one is kept; 0: there is none
DEFAULT_SECONDS = 60
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LIMIT = 1 << 20  # bytes of a request
_FDS = 3
_LESSON, _ROWS = 1 << 16, 100  # bytes of one, and what it tells at most
_NAMESPACES = ("mnt", "user", "pid", "net", "uts")


def seconds() -> int:
    """How long one is kept idle."""
    text = os.environ.get(SECONDS, "")
    return int(text) if text.isdecimal() else DEFAULT_SECONDS


# ---- where it is
def _key(kind: Kind) -> str:
    """What has to be the same for a process to serve us."""
    root = os.stat("/")
    facts: list[object] = [kind, root.st_dev, root.st_ino]
    facts += [os.getuid(), os.getgid(), sorted(os.getgroups())]
    for path in (store.folder(kind.kernel), *_sources()):
        st = os.stat(path)
        facts.append((path, st.st_dev, st.st_ino, st.st_mtime_ns))
    for name in _NAMESPACES:
        with contextlib.suppress(OSError):
            facts.append(os.readlink(f"/proc/self/ns/{name}"))
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:24]


def _sources() -> Iterator[str]:
    """The files of this version."""
    for folder in ("linux", "linux/image", "linux/inside", "inside"):
        with os.scandir(os.path.join(_HERE, folder)) as entries:
            yield from sorted(entry.path for entry in entries if entry.is_file())


def _folder() -> str:
    """Where sockets are: nobody else can come there."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if not runtime or not os.access(runtime, os.W_OK):
        runtime = tempfile.gettempdir()
    folder = os.path.join(runtime, f"kpfs-{os.getuid()}")
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    st = os.lstat(folder)
    if st.st_uid != os.getuid() or stat.S_IMODE(st.st_mode) != 0o700:
        raise PermissionError(f"{folder} is somebody else's")
    return folder


# ---- the client's side
def connect(kind: Kind) -> socket.socket | None:
    """A connection to the process for such a guest, started if need be; None: none."""
    if kind.quiet or not seconds():
        return None
    try:
        path = os.path.join(_folder(), _key(kind))
        with contextlib.suppress(OSError):
            return _try(path)
        with open(f"{path}.lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with contextlib.suppress(OSError):
                return _try(path)
            _start(kind, path)
            return _try(path)
    except (OSError, UnfitError):
        return None  # it goes without


def _try(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection


def ask(connection: socket.socket, request: Request) -> None:
    """Have it run a command that has our standard streams."""
    data = json.dumps(request.packed()).encode() + b"\n"
    socket.send_fds(connection, [data[:1]], range(_FDS))
    connection.sendall(data[1:])


def _start(kind: Kind, path: str) -> None:
    """Have another process listen there; it answers when the guest is ready."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o077)
    try:
        listener.bind(path)
    finally:
        os.umask(before)
    listener.listen(64)
    middle = os.fork()
    if middle == 0:
        status = 1
        try:
            if os.fork() == 0:
                _detach(listener.fileno())
                serve(kind, path, listener)
            status = 0
        finally:
            os._exit(status)
    os.waitpid(middle, 0)
    listener.close()


def _detach(listener: int) -> None:
    """Keep nothing of the process that started us but the socket."""
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(_FDS):
        os.dup2(null, number)
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in (*range(_FDS), listener):
            with contextlib.suppress(OSError):
                os.close(int(name))
    with contextlib.suppress(OSError), open("/proc/self/comm", "w") as comm:
        comm.write("kpfs-warm")


# ---- the process itself
def serve(kind: Kind, path: str, listener: socket.socket) -> None:
    """Run commands for those who ask, until nobody has for a while."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # they are nobody's zombies
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        guest = Guest(kind)
    except (UnfitError, EmulatorError, CallError, KernelError, OSError) as error:
        listener.settimeout(1)
        with contextlib.suppress(OSError):
            refuse(listener.accept()[0], str(error))
        return
    try:
        Server(guest, path, listener).run()
    finally:
        # who has connected meanwhile is not answered, and does without
        with contextlib.suppress(OSError):
            os.unlink(path)


class Server:
    """A ready guest.  Context: one thread."""

    def __init__(self, guest: Guest, path: str, listener: socket.socket) -> None:
        self._guest = guest
        self._path = path
        self._listener = listener
        self._learned = Learned(guest.loop, guest.worker)
        self._lessons, self._teach = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_SEQPACKET
        )

    def run(self) -> None:
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        poll.register(self._lessons, select.POLLIN)
        patience = seconds() * 1000
        while True:
            busy = self._learned.pending
            found = poll.poll(0 if busy else patience)
            if not found and not busy:
                return
            if not found:
                self._learned.step()
            for fd, _ in found:
                if fd == self._lessons.fileno():
                    self._learned.add(json.loads(self._lessons.recv(_LESSON)))
                else:
                    self._accept()

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return  # it is gone
        with client:
            if os.fork() == 0:
                try:
                    self._be_session(client)
                finally:
                    os._exit(0)

    def _be_session(self, client: socket.socket) -> None:
        """In a process of its own: one command."""
        self._listener.close()
        self._lessons.close()
        client.settimeout(10)
        data, fds, _, _ = socket.recv_fds(client, 1, _FDS)
        while not data.endswith(b"\n") and len(data) < _LIMIT:
            if not (piece := client.recv(65536)):
                return
            data += piece
        client.settimeout(None)
        if len(fds) != _FDS:
            return
        reads = self._guest.files.reads = []
        Session(self._guest, client).run(Request.unpacked(json.loads(data)), fds)
        client.close()
        self._teach.setblocking(False)
        with contextlib.suppress(OSError):
            for start in range(0, len(reads), _ROWS):
                lesson = json.dumps(reads[start : start + _ROWS]).encode()
                self._teach.send(lesson)
