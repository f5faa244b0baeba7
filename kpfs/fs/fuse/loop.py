# SPDX-License-Identifier: GPL-2.0-or-later
"""Receive a mount's requests, and choose the thread that serves each.

One thread receives a request, serves it, and receives the next: handing requests from
thread to thread would cost more than most of them.  So they are served in the order in
which they came, too: a close() takes effect before the next thing that its process
does, though Linux does not wait for the answer to it.  Where another thread has gone on
receiving while a close takes effect, what it receives waits for that.

Writes are an exception.  Linux keeps the inode of a file locked while a write waits for
its answer, so each of those who write to one file would wait for its turn among all
requests, one after the other.  Where several threads write, all that has come is
therefore received at once, and kpfs.fs.fuse.turns says what goes first.

The receiving thread has the baton.  It goes to another thread when a request has to
wait for something that may take long, or when it simply takes long, which the main
thread looks for while requests come.  A signal to the caller of a request that waits is
a request as well (FUSE_INTERRUPT), and so is received soon.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import signal
import struct
import threading
import time
from collections.abc import Callable

from kpfs.base import fuse_wire as wire
from kpfs.base.errors import KernelError, SetupError
from kpfs.base.ktypes import Caller
from kpfs.base.lock import FairLock, Waiter
from kpfs.base.log import Log
from kpfs.base.signals import ENDING
from kpfs.base.typed import NamedTuple
from kpfs.fs.fuse.turns import LOCKING, Turns
from kpfs.fs.seqfile import MAX_WRITE
from kpfs.host import guard, mounts

log = Log(__name__)

LOOK = 0.01  # s between looks whether a request takes long
MAX_IDLE = 10  # threads
AHEAD_MAX = 256  # requests that are received before it is their turn
AHEAD_EACH = 4  # requests from one look whether more have come to the next
BUFFER = MAX_WRITE + 4096  # bytes for one request
INTERRUPT, RELEASE = int(wire.Opcode.INTERRUPT), int(wire.Opcode.RELEASE)
CLOSE_TIMEOUT = 5.0  # s for which requests wait for a close that was received before
ANSWER_TIMEOUT = 1.0  # s
# s for all threads; they take longer only where somebody still uses the mount
JOIN_TIMEOUT = 0.5
WHOLE = 8192  # bytes of an answer that are rather copied than written apart
CLOCK_MONOTONIC, TFD_CLOEXEC, TFD_NONBLOCK = 1, 0o2000000, 0o4000
SignalMask = set[int | signal.Signals]
# errnos of a read of the device that is to be repeated
AGAIN = (errno.EINTR, errno.ENOENT)


class Request:
    """A request of a process, from its receipt to its answer."""

    __slots__ = (
        "body", "gid", "interrupted", "nodeid", "opcode", "pid", "uid", "unique",
        "waiter",
    )  # fmt: skip

    def __init__(self, header: tuple[int, ...], body: bytes) -> None:
        """header: the fields of wire.HEADER."""
        _, self.opcode, self.unique, self.nodeid, self.uid, self.gid, self.pid = header
        self.body = body
        self.interrupted = False
        self.waiter: Waiter | None = None  # while it waits

    @property
    def caller(self) -> Caller:
        return Caller(self.pid, self.uid, self.gid)

    def interrupt(self) -> None:
        """End its wait: its caller has got a signal, or the mount is going away."""
        self.interrupted = True
        waiter = self.waiter
        if waiter is not None:
            waiter.interrupt()


class Answer(NamedTuple):
    """The outcome of a request."""

    error: int = 0
    payload: bytes = b""
    undo: Callable[[], object] | None = None  # if Linux does not want it any more
    then: Callable[[], object] | None = None  # once it is given


class _Server(threading.Thread):
    """A thread that serves requests, with or without the baton."""

    def __init__(self, body: Callable[[_Server], None]) -> None:
        super().__init__(name="fuse", daemon=True)
        self._body = body
        self.request: Request | None = None
        self.go = threading.Lock()  # released when it gets the baton
        self.go.acquire()

    def run(self) -> None:
        self._body(self)


def current() -> Request:
    """Return the request that the calling thread serves."""
    thread = threading.current_thread()
    assert isinstance(thread, _Server)
    assert thread.request is not None
    return thread.request


class FuseLoop:
    """The service of one mount.

    device: the descriptor from kpfs.host.fusemount.  serve: what makes the answer to a
    request, None where there is none.  lock: what requests wait for.
    """

    def __init__(
        self,
        device: int,
        mountpoint: str,
        serve: Callable[[Request], Answer | None],
        lock: FairLock,
    ) -> None:
        self._device = device
        self._mountpoint = mountpoint
        self._serve = serve
        self._lock = lock
        lock.sleep_by(self._wait)
        self._guard = threading.Lock()  # guards the baton and the threads
        self._answered = threading.Condition(self._guard)
        self._threads: list[_Server] = []
        self._idle: list[_Server] = []
        self._holder: _Server | None = None  # has the baton
        self._current: Request | None = (
            None  # the one that the holder of the baton serves
        )
        self._running: dict[int, Request] = {}  # by unique
        # those that wait for each close that is being served
        self._closes: dict[Request, list[Waiter]] = {}
        self._turns: Turns[Request] = Turns()  # those that were received ahead
        self._locker = 0  # the thread whose request had an inode locked last
        self._crowded = False  # the current one has, and it is of another thread
        self._blocking = True  # to read the device may be to wait
        self._received = 0
        self._buffer = bytearray(BUFFER)  # the holder's
        self._view = memoryview(self._buffer)
        self._watch = _LookTimer()
        self._stuck = -1  # the turn of the lock that takes long
        self._closing = False
        self._why = ""  # the mount ends, which main() knows or has been told
        self._main = 0  # the thread that waits for the end

    def notify(self, code: int, payload: bytes) -> None:
        """Tell Linux something; it may not want to know."""
        try:
            os.write(self._device, wire.notification(code, payload))
        except OSError as error:
            log.debug("notification %d: %s", code, error)

    # ---- from the beginning to the end
    def main(self, mask: SignalMask) -> str:
        """Serve until a signal comes or it is unmounted; return which of them it was.

        Called by the main thread.

        The signals that end the mount are blocked, and stay so in all other threads:
        this one alone ends it.  mask: the signal mask to wait with.  SetupError: it
        cannot be served.
        """
        self._main = threading.get_ident()
        # not by mount_at(), which looks at the place itself: nobody answers there yet
        ours = [each for each in mounts.table() if each.target == self._mountpoint]
        try:
            try:
                self._serve_to_end(mask)
                self._finish_answers()
            finally:
                for mount in ours[-1:]:
                    mounts.detach(mount)
            deadline = time.monotonic() + JOIN_TIMEOUT
            for thread in list(self._threads):
                thread.join(max(0, deadline - time.monotonic()))
        finally:
            for number in ENDING:  # there is nothing left for them to end
                signal.signal(number, signal.SIG_IGN)
        return self._why

    def _serve_to_end(self, mask: SignalMask) -> None:
        """Serve until one of the signals comes that end the mount, which are blocked.

        They get a handler of Python, as the guard (kpfs.host.guard) learns of no
        others.
        """
        told, tell = os.pipe()
        guarded = guard.pipe()
        events = select.poll()
        events.register(told, select.POLLIN)
        events.register(self._watch.fd, select.POLLIN)
        if guarded >= 0:
            events.register(guarded, 0)

        def end(number: int, _frame: object) -> None:
            self._why = self._why or f"ended by {signal.Signals(number).name}"
            os.write(tell, b"!")

        try:
            for number in ENDING:
                signal.signal(number, end)
            try:
                events.poll(0)  # before anybody is answered
            except OSError as error:
                said = f"poll(): {error.strerror}; a sandbox has to allow it"
                raise SetupError(said) from None
            with self._guard:
                if not self._pass_on():
                    raise RuntimeError("no thread can be started")
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            while told not in (ready := [fd for fd, _ in events.poll()]):
                if guarded in ready:
                    events.unregister(guarded)
                    guard.give_up()
                if self._watch.fd in ready:
                    self._look()
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        finally:
            os.close(told)

    def _finish_answers(self) -> None:
        """Have all answered, and what waits refused; nothing is answered afterwards."""
        with self._guard:
            self._closing = True
            for request in list(self._running.values()):
                request.interrupt()
            self._answered.wait_for(lambda: not self._running, ANSWER_TIMEOUT)
            for thread in self._idle:
                thread.go.release()

    def _end(self, why: str) -> None:
        """Tell the main thread that the mount is gone, or cannot be served."""
        with self._guard:
            if not self._why:
                self._why = why
                signal.pthread_kill(self._main, signal.SIGTERM)

    # ---- the threads
    def _serve_requests(self, thread: _Server) -> None:
        """Serve requests while this thread has the baton: the body of a thread."""
        try:
            thread.go.acquire()
            while self._holder is thread:
                request = self._receive()
                if request is None:
                    self._end("unmounted, or aborted")
                    return
                for close in self._take(thread, request):
                    self._await(close)
                self._give(request, self._serve(request))
                if not self._finish(thread, request) and not self._rest(thread):
                    return
        except BaseException:
            log.exception("the loop failed")
            self._end("not served any more")

    def _receive(self) -> Request | None:
        """Return the next request; None: no more come.  Context: with the baton."""
        turns = self._turns
        if self._blocking and not self._crowded:
            return self._read()
        if self._crowded or not turns.count or self._received % AHEAD_EACH == 0:
            self._set_blocking(False)
            try:
                while turns.count < AHEAD_MAX:
                    if (request := self._read()) is None:
                        return None
                    turns.add(request.opcode, request)
            except BlockingIOError:
                pass
        if turns.count:
            return None if self._closing else turns.take()
        self._set_blocking(True)
        return self._read()

    def _set_blocking(self, blocking: bool) -> None:
        if blocking != self._blocking:
            self._blocking = blocking
            os.set_blocking(self._device, blocking)

    def _read(self) -> Request | None:
        """Read a request; None: no more come.  Context: with the baton.

        BlockingIOError: none is there, and the device is not to wait.
        """
        while True:
            try:
                length = os.readv(self._device, [self._buffer])
            except OSError as error:
                if error.errno == errno.EAGAIN:
                    raise
                if error.errno in AGAIN:
                    continue
                if error.errno != errno.ENODEV:
                    log.error("/dev/fuse: %s", error)
                return None
            if self._closing:
                return None
            header = wire.HEADER.unpack_from(self._buffer)
            body = bytes(self._view[wire.HEADER.size : length])
            if header[1] != INTERRUPT:
                return Request(header, body)
            # if it is not there it has been answered
            unique = wire.number(body)
            for each in self._running.get(unique), *self._turns:
                if each is not None and each.unique == unique:
                    each.interrupt()

    def _take(self, thread: _Server, request: Request) -> list[Request]:
        """Note that a thread serves a request; return the closes it has to wait for.

        It keeps the baton until _current is set, so the order is that of receipt.
        """
        before = list(self._closes)
        if request.opcode == RELEASE:
            self._closes[request] = []
        self._running[request.unique] = request
        self._received += 1
        self._crowded = request.opcode in LOCKING and request.pid != self._locker
        if request.opcode in LOCKING:
            self._locker = request.pid
        thread.request = self._current = request
        if not self._watch.wound:
            self._watch.wind()
        return before

    def _await(self, close: Request) -> None:
        """Wait until a close has taken effect.

        Linux would not have let a signal end this.  After CLOSE_TIMEOUT nobody waits
        for that close any more.
        """
        waiter = Waiter()
        with self._guard:
            if close not in self._closes:
                return
            self._closes[close].append(waiter)
            if self._holder is threading.current_thread():
                self._pass_on()
        waiter.sleep(CLOSE_TIMEOUT)
        if not waiter.awake:
            self._closes.pop(close, None)

    def _give(self, request: Request, answer: Answer | None) -> None:
        """Write an answer; whatever becomes of it, others are to be served."""
        if answer is None:
            return
        try:
            self._write(request, answer)
        except Exception:
            log.exception("request %d was not answered", request.opcode)

    def _write(self, request: Request, answer: Answer) -> None:
        payload, length = answer.payload, wire.ANSWER.size + len(answer.payload)
        head = wire.ANSWER.pack(length, -answer.error, request.unique)
        try:
            if length < WHOLE:
                os.write(self._device, head + payload)
            else:
                os.writev(self._device, [head, payload])
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENODEV):
                raise
            request.interrupted = False  # undoing waits as long as it takes
            if answer.undo is not None:
                answer.undo()
        else:
            if answer.then is not None:
                answer.then()

    def _finish(self, thread: _Server, request: Request) -> bool:
        """Note that a request is served; True if the thread still has the baton."""
        with self._guard:
            del self._running[request.unique]
            thread.request = None
            if request.opcode == RELEASE:
                for waiter in self._closes.pop(request, ()):
                    waiter.wake()
            if self._closing:
                self._answered.notify_all()
            if self._holder is not thread:
                return False
            self._current = None
            return True

    def _rest(self, thread: _Server) -> bool:
        """Wait for the baton; False: this thread is one too many."""
        with self._guard:
            if self._closing or len(self._idle) >= MAX_IDLE:
                self._threads.remove(thread)
                return False
            self._idle.append(thread)
        thread.go.acquire()
        return True

    def _pass_on(self) -> bool:
        """Give the baton to another thread, if there can be one.

        Context: _guard is held.
        """
        if self._idle:
            heir = self._idle.pop()
        else:
            heir = _Server(self._serve_requests)
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # for it, too
            try:
                heir.start()
            except RuntimeError as error:  # some limit
                log.warning("no further thread: %s", error)
                return False
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            self._threads.append(heir)
        self._holder, self._current = heir, None
        heir.go.release()
        return True

    # ---- what takes long
    def _wait(self, waiter: Waiter) -> None:
        """Wait, in any thread; what FairLock.wait is."""
        thread = threading.current_thread()
        request = thread.request if isinstance(thread, _Server) else None
        if request is None:
            waiter.sleep()
            return
        request.waiter = waiter
        waiter.may_be_refused = bool(waiter.patience)  # it waits for the lock
        if request.interrupted or self._closing:
            waiter.interrupt()
        elif not waiter.patience or self._lock.turns == self._stuck:
            with self._guard:
                alone = self._holder is thread and not self._pass_on()
            if alone and not waiter.patience:
                raise KernelError(errno.ENOMEM, "no other thread can be started")
        waiter.sleep()
        request.waiter = None

    def _look(self) -> None:
        """Let other requests be served if one takes long; called while they come.

        One that waits for the lock, which goes from one to the next, has no need of it.
        """
        watch, turn = self._watch, self._lock.turns
        watch.expired()
        with self._guard:
            request = self._current
            if (
                request is not None
                and request is watch.seen
                and (request.waiter is None or turn == watch.turn)
            ):
                self._stuck = turn
                self._pass_on()
            quiet = request is None and self._received == watch.received
            watch.seen, watch.turn, watch.received = request, turn, self._received
        if not quiet or self._current is not None:
            watch.wind()


class _LookTimer:
    """The timer of looks, and what was seen at the last one.

    It is wound by the first request that comes after a pause, and from then on at each
    look, as long as more requests come.
    """

    def __init__(self) -> None:
        library = ctypes.PyDLL(None, use_errno=True)  # which keeps the GIL
        flags = TFD_CLOEXEC | TFD_NONBLOCK
        self.fd: int = library.timerfd_create(CLOCK_MONOTONIC, flags)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._set = library.timerfd_settime
        spec = struct.pack("=4q", 0, 0, 0, int(LOOK * 1e9))
        self._arguments = ctypes.c_int(self.fd), 0, spec, None
        self.wound = False
        self.seen: Request | None = None
        self.turn = 0
        self.received = 0

    def wind(self) -> None:
        """Have fd be readable when it is time to look."""
        self.wound = True
        self._set(*self._arguments)

    def expired(self) -> None:
        """Note that the look has begun."""
        os.read(self.fd, 8)
        self.wound = False
