# SPDX-License-Identifier: GPL-2.0-or-later
"""Serve GDB's remote serial protocol on a socket, for a kernel that others run.

The kernel runs in the threads that use it; this one does all that concerns gdb. The
kernel stands still for gdb in one of two ways. A thread that runs it comes to a
breakpoint, a watchpoint or the end of a step, or to the end of a turn after Ctrl-C: it
is *parked* there, in the middle of its work, and holds the kernel's lock. Or nothing
runs: then this thread takes the lock itself.

What must always hold:
- The stub is used only while the kernel stands still in one of the two ways.
- A parked thread goes on when gdb lets it go on, goes away, or the server ends.
- Whoever waits for the lock meanwhile is refused after some time, if it may be.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import stat
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kpfs.base.errors import SetupError
from kpfs.base.log import Log
from kpfs.gdb.packets import Mark, NotGdbError, PacketReader, encode
from kpfs.gdb.past import Past
from kpfs.gdb.sockets import (
    LOCALHOST,
    NOT_YET,
    answers,
    forget_dead,
    parse_address,
    socket_path,
)
from kpfs.gdb.stub import Stub, StubReply, Then

if TYPE_CHECKING:
    from kpfs.emulator.stops import Stop
    from kpfs.gdb.debugged import Debugged

log = Log(__name__)

_CONNECTIONS = "/proc/self/net/tcp"
_ESTABLISHED = "01"
_UCRED = struct.Struct("=3i")
# s that a request waits for a kernel that gdb has stopped; 'kpfs umount' waits longer
REFUSED_AFTER = 1.5
LOOK = 0.25  # s between looks for such requests
PATIENCE = 0.1  # s for work of the kernel to end, before it is stopped in its middle
TRY = 0.01  # s in which to take the lock, before looking whether a thread was parked
RECEIVE = 1 << 16
MAX_UNSENT = 30.0  # s for a client to take a reply


class GdbAddress:
    """An address of gdb, at which nobody answers before open().

    gdb does not wait for long: a kernel that cannot answer yet must not take it in.
    """

    def __init__(self, address: str) -> None:
        """address: a path, for this user alone, or 127.0.0.1:PORT; SetupError."""
        self.path, port = parse_address(address)
        try:
            if self.path:
                self.socket = _bind(self.path)
                return
            os.stat(_CONNECTIONS)  # without which nobody could be let in
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind((LOCALHOST, port))
        except OSError as error:
            why = error.strerror or str(error)  # no call was made with a long path
            why = f"{error.filename}: {why}" if error.filename else why
            raise SetupError(f"--gdb-at {address}: {why}") from None

    def accept(self) -> socket.socket | None:
        """Return a connection of this user or root; None: there is none."""
        try:
            client, _ = self.socket.accept()
        except OSError:  # it is gone already
            return None
        if self.path or _is_ours(client):
            return client
        log.warning("%s: another user wanted to attach", self.socket.getsockname())
        client.close()
        return None

    def open(self) -> None:
        self.socket.listen()
        if self.path:
            os.rename(f"{self.path}{NOT_YET}", self.path)

    def close(self) -> None:
        """Close it, and remove its path."""
        self.socket.close()
        for path in (self.path, f"{self.path}{NOT_YET}") if self.path else ():
            with contextlib.suppress(OSError):
                os.unlink(path)


def _peer(client: socket.socket) -> int:
    """Return the process at the other end of a connection; 0: it is not known."""
    if client.family != socket.AF_UNIX:
        _, inode = _other_end(client)
        return _holder(f"socket:[{inode}]")
    ucred = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, _, _ = _UCRED.unpack(ucred)
    return int(pid)


def _holder(link: str) -> int:
    """Return a process that has a descriptor with a link; 0: none that we may see.

    The last one that began is the one that uses it: others have handed it on.
    """
    for pid in sorted(map(int, filter(str.isdigit, os.listdir("/proc"))), reverse=True):
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{pid}/fd"):
                if os.readlink(f"/proc/{pid}/fd/{fd}") == link:
                    return pid
    return 0


def _is_ours(client: socket.socket) -> bool:
    """Return True if a connection on this host was made by this user or root."""
    return _other_end(client)[0] in (0, os.geteuid())


def _other_end(client: socket.socket) -> tuple[int, str]:
    """Return the user that made a connection on this host, and its socket's inode.

    -1: it is not known. Linux tells them while that end is open.
    Format: proc_pid_net(5)
    """
    ends = [_in_table(end) for end in (client.getpeername(), client.getsockname())]
    with contextlib.suppress(OSError, ValueError), open(_CONNECTIONS) as table:
        for line in table:
            _, local, remote, state, _, _, _, uid, _, inode, *_ = line.split()
            if [local, remote] == ends:
                if state == _ESTABLISHED and inode != "0":
                    return int(uid), inode
    return -1, "0"


def _in_table(end: tuple[str, int]) -> str:
    host, port = end
    return f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{port:04X}"


def _bind(path: str) -> socket.socket:
    """Return a socket beside a path, which only a socket of nobody may be in."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode) or answers(path):
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{path}{NOT_YET}")
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        bound.bind(f"{path}{NOT_YET}")
    finally:
        os.umask(before)
    return bound


class _Parking:
    """The place where a thread that runs the kernel stands while gdb looks."""

    def __init__(self) -> None:
        self._told, self._tell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._guard = threading.Lock()  # guards the pipe, and whether it is closed
        self._go = threading.Event()
        self.stop: Stop | None = None
        self.is_taken = False
        self.is_new = False  # gdb has not been told of it
        self._is_closed = False

    @property
    def fd(self) -> int:
        """A descriptor that can be read when a thread has parked, or wake() called."""
        return self._told

    def park(self, stop: Stop | None) -> None:
        """Stand still until let_go().  Context: the thread that runs the kernel."""
        self._go.clear()
        if self._is_closed:
            return
        self.stop, self.is_taken, self.is_new = stop, True, True
        self.wake()
        self._go.wait()

    def let_go(self) -> None:
        self.is_taken = False
        self._go.set()

    def wake(self) -> None:
        with self._guard, contextlib.suppress(BlockingIOError):
            if not self._is_closed:
                os.write(self._tell, b"!")

    def drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._told, RECEIVE)

    def close(self) -> None:
        """Let a thread go on that has parked meanwhile, or is about to."""
        with self._guard:
            self._is_closed = True
            os.close(self._told)
            os.close(self._tell)
        self._go.set()


class Server(threading.Thread):
    """A server for one kernel, and one gdb at a time."""

    def __init__(self, debugged: Debugged, listeners: Sequence[GdbAddress]) -> None:
        super().__init__(name="gdb", daemon=True)
        self._debugged = debugged
        self._listeners = listeners
        self._parking = _Parking()
        self._client: socket.socket | None = None
        self.client_pid = 0  # the process of gdb, if that is known
        self._reader = PacketReader()
        self._stub: Stub | None = None  # while there is a client
        self._past: Past | None = None  # likewise
        self._has_lock = False
        self._last = b""  # the last packet sent, to be sent again
        self._is_open = False
        self._closing = False
        self._wanted = False  # the kernel is to stop
        self._held = threading.Event()  # set while nobody has to wait for gdb
        self._held.set()
        self._on_stand: Callable[[bool], object] = lambda _: None
        debugged.follow(self._replaced)

    # ---- from other threads
    def open(
        self,
        hold: bool = False,
        on_stand: Callable[[bool], object] = lambda _: None,
    ) -> None:
        """Let gdb in: the mount does not need the kernel any more to come up.

        hold: wait until it has attached and let the kernel go on.
        on_stand: called with True while calls have to wait for gdb, then with False.
        """
        self._on_stand = on_stand
        if hold:  # before it can do either
            self._held.clear()
        if self._closing:
            return
        if not self._is_open:
            for listener in self._listeners:
                listener.open()
            self._is_open = True
        self._parking.wake()
        self._held.wait()

    def close(self) -> None:
        """End it: the kernel goes on."""
        self._closing = True
        self._held.set()
        self._parking.wake()
        if self.is_alive() and threading.current_thread() is not self:
            self.join()

    def _replaced(self) -> None:
        """Follow to another machine.  Context: lock held."""
        stub = self._stub
        if stub is not None:
            self._watch(stub)
            stub.replaced()

    def _on_stop(self, stop: Stop) -> None:
        """Park, if gdb is to know of a stop.  Context: the thread that runs it."""
        stub = self._stub
        if stub is None or self._closing or stub.passes(stop):
            return
        past = self._past
        self._parking.park(stop)
        if past is not None and past is self._past:
            past.go_on(stop.moment)

    def _between_turns(self) -> None:
        """Park if gdb wants the kernel to stop.  Context: the thread that runs it."""
        if self._wanted and not self._closing:
            self._parking.park(None)

    # ---- the thread
    def run(self) -> None:
        try:
            while not self._closing:
                self._await_events()
        except Exception:
            log.exception("the server of gdb failed")
        finally:
            self._drop_client()
            self._closing = True
            self._held.set()
            for listener in self._listeners:
                listener.close()
            self._parking.close()

    @property
    def _stands(self) -> bool:
        return self._has_lock or self._parking.is_taken

    def _await_events(self) -> None:
        """Wait for gdb, and for the kernel to stop; do what there is to do."""
        self._on_stand(self._stands or not self._held.is_set())
        events = select.poll()
        listening = {
            each.socket.fileno(): each
            for each in (self._listeners if self._is_open else ())
        }
        for fd in (*listening, self._parking.fd):
            events.register(fd, select.POLLIN)
        if self._client is not None:
            events.register(self._client.fileno(), select.POLLIN)
        waits = LOOK * 1000 if self._stands else None
        ready = {fd for fd, _ in events.poll(waits)}
        if self._stands:
            self._debugged.lock.refuse_waiting(REFUSED_AFTER)
        if self._parking.fd in ready:
            self._parking.drain()
            if self._parking.is_new and self._stub is not None:
                self._report(self._stub, self._parking.stop)
        if self._client is not None and self._client.fileno() in ready:
            self._receive(self._client)
        for fd in ready & listening.keys():
            self._accept(listening[fd])

    def _accept(self, listener: GdbAddress) -> None:
        client = listener.accept()
        if client is None:
            return
        if self._stub is not None:
            client.close()  # one at a time
            return
        self._drop_client()  # it has said nothing yet
        client.settimeout(MAX_UNSENT)
        with contextlib.suppress(OSError):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client, self._reader = client, PacketReader()
        self.client_pid = _peer(client)

    def _attach(self) -> None:
        """Begin to debug a kernel that has just stopped.

        It stops when gdb says something, and for nothing else that may connect.
        """
        self._stub = stub = Stub(self._debugged)
        self._parking.is_new = False  # gdb asks by itself
        if self._has_lock:
            self._debugged.catch_up()
        self._debugged.see_all(True)
        self._watch(stub)

    def _watch(self, stub: Stub) -> None:
        """Be told of what happens to the machine."""
        stub.stops.on_stop = self._on_stop
        if self._past is not None:
            self._past.close()
        self._past = Past(self._debugged, stub)

    # ---- the kernel
    def _stop_kernel(self, then: Callable[[], None]) -> None:
        """Stop the kernel wherever it is."""
        debugged = self._debugged
        if not self._stands and debugged.lock.take_within(PATIENCE):
            self._has_lock = True
        if not self._stands:
            self._wanted = True
            debugged.call_between_turns(self._between_turns)
            while not self._parking.is_taken and not self._closing:
                if debugged.lock.take_within(TRY):
                    self._has_lock = True
                    break
            self._wanted = False
            debugged.call_between_turns(None)
        if self._stands:
            then()

    def _let_go(self) -> None:
        """Let the kernel go on."""
        self._held.set()
        if self._has_lock:
            self._has_lock = False
            self._debugged.lock.__exit__()
        elif self._parking.is_taken:
            self._parking.let_go()
        self._on_stand(False)

    # ---- the client
    def _report(self, stub: Stub, stop: Stop | None) -> None:
        """Tell gdb of a stop."""
        self._parking.is_new = False
        self._send(stub.stopped(stop))

    def _interrupt(self, stub: Stub) -> None:
        """Stop as Ctrl-C wants it, if the kernel runs."""
        if not self._stands:
            self._stop_kernel(lambda: None)
            if self._stands:
                self._report(stub, None if self._has_lock else self._parking.stop)

    def _receive(self, client: socket.socket) -> None:
        try:
            data = client.recv(RECEIVE)
        except OSError:
            data = b""
        if not data:
            self._drop_client()
            return
        try:
            for found in self._reader.feed(data):
                if self._stub is None and self._client is not None:
                    self._stop_kernel(self._attach)
                if self._client is None or self._stub is None:
                    return
                self._take(found, self._stub)
        except NotGdbError:
            self._drop_client()

    def _take(self, found: bytes | Mark, stub: Stub) -> None:
        """Act on a packet, or on what is between packets."""
        if found is Mark.INTERRUPT:
            self._interrupt(stub)
        elif found is Mark.AGAIN:
            if stub.is_acknowledging:
                self._send_raw(self._last)
        elif found is Mark.DAMAGED:
            if stub.is_acknowledging:
                self._send_raw(b"-")
            else:  # nobody would send it again
                self._drop_client()
        elif isinstance(found, bytes):
            if stub.is_acknowledging:
                self._send_raw(b"+")
            stub.monitor.at_rest = self._has_lock
            # gdb sends nothing but Ctrl-C while the kernel runs
            self._answer(self._reply(found) if self._stands else StubReply(b"E01"))

    def _reply(self, packet: bytes) -> StubReply:
        assert self._past is not None
        stop = None if self._has_lock else self._parking.stop
        return self._past.receive(packet, stop.moment if stop else None)

    def _answer(self, reply: StubReply) -> None:
        if reply.text is not None:
            self._send(reply.text)
        if reply.then is Then.RUN:
            self._let_go()
        elif reply.then is Then.LEAVE:
            self._drop_client()

    def _send(self, text: bytes) -> None:
        self._forget_impatience()
        self._last = encode(text)
        self._send_raw(self._last)

    def _forget_impatience(self) -> None:
        """Forget that gdb has asked again for the reply that it is about to get.

        It does so each 2 s (its remotetimeout), and would take a second one for the
        reply to its next packet.
        """
        client, ready = self._client, select.poll()
        if client is None:
            return
        ready.register(client, select.POLLIN)
        if not ready.poll(0):
            return
        with contextlib.suppress(OSError):
            waiting = client.recv(RECEIVE, socket.MSG_PEEK)
            if asked := len(waiting) - len(waiting.lstrip(b"-")):
                client.recv(asked)

    def _send_raw(self, data: bytes) -> None:
        if self._client is None:
            return
        try:
            self._client.sendall(data)
        except OSError:
            self._drop_client()

    def _drop_client(self) -> None:
        """Forget gdb and all that it has set; the kernel goes on."""
        client, self._client = self._client, None
        if client is None:
            return
        client.close()
        self.client_pid = 0
        if self._stub is not None:
            self._stop_kernel(self._release)
        if self._stands:
            self._let_go()

    def _release(self) -> None:
        stub, self._stub = self._stub, None
        past, self._past = self._past, None
        if past is not None:
            past.close()
        if stub is not None:
            stub.release()
            self._debugged.see_all(False)


def start(debugged: Debugged, folder: str, at: str = "") -> Server:
    """Serve gdb in a thread, which lets nobody in yet; SetupError: there is no socket.

    folder: of the sockets of this user. at: another address, "": none.
    """
    forget_dead(folder)
    addresses = [socket_path(folder, os.getpid(), debugged.arch)]
    addresses += [at] if at else []
    server = Server(debugged, [GdbAddress(address) for address in addresses])
    server.start()
    return server
