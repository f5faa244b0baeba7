# SPDX-License-Identifier: GPL-2.0-or-later
"""The session loop of a mount, in threads of our own.

libfuse has a loop too, but its threads are strangers to Python (a thread state is made
and thrown away for each request), and it does not tell what it answers, which decides
what size a file has: see LOOKUP_SIZE in kpfs.fs.fuse.ops.  All that is used here is the
public interface of libfuse 2.9.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import logging
import os
import select
import signal
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

from kpfs.host import mounts
from kpfs.host.guard import ENDING

log = logging.getLogger(__name__)

HEADER = struct.Struct("=IIQQ")  # fuse_in_header: length, opcode, unique, nodeid
RELEASE = 18  # opcode
MAX_IDLE = 10  # threads
ANSWER_TIMEOUT = 1.0  # s
JOIN_TIMEOUT = (
    0.5  # s for all; longer where somebody still uses the mount: then leave it
)


class FuseBuf(ctypes.Structure):
    """struct fuse_buf"""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("flags", ctypes.c_int),
        ("mem", ctypes.c_void_p),
        ("fd", ctypes.c_int),
        ("pos", ctypes.c_longlong),
    )


class Loop:
    """Serves one mount.

    ``request`` says in ``opcode`` and ``nodeid`` what the current thread answers.
    """

    def __init__(self, libfuse: Any, *, in_order: bool = False) -> None:
        """in_order: a close() takes effect before the next thing its process does.

        Linux does not wait for the answer to it.  This costs a hand-over per request.
        """
        self.libfuse = libfuse
        self._turn = threading.Lock() if in_order else contextlib.nullcontext()
        self._in_order = in_order
        self.request = threading.local()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._busy = 0
        self._closing = False
        self._guard = threading.Lock()
        self._answered = threading.Condition(self._guard)
        self._main = 0  # the thread that waits for the end
        self._ended = False  # main() knows that the mount ends, or has been told
        self._session = self._channel = ctypes.c_void_p()

    def main(
        self,
        on_end: Callable[[], object],
        argc: int,
        argv: Any,
        operations: Any,
        size: int,
        data: Any,
    ) -> int:
        """Mount, serve and unmount, in place of libfuse's fuse_main_real().

        on_end is called before it is unmounted.
        """
        lib = self.libfuse
        for name in ("fuse_setup", "fuse_get_session", "fuse_session_next_chan"):
            getattr(lib, name).restype = ctypes.c_void_p
        lib.fuse_chan_bufsize.restype = ctypes.c_size_t
        mountpoint, threaded = ctypes.c_char_p(), ctypes.c_int()
        fuse = lib.fuse_setup(
            argc,
            argv,
            operations,
            ctypes.c_size_t(size),
            ctypes.byref(mountpoint),
            ctypes.byref(threaded),
            data,
        )
        if not fuse:
            return 1
        self._session = ctypes.c_void_p(lib.fuse_get_session(ctypes.c_void_p(fuse)))
        self._channel = ctypes.c_void_p(lib.fuse_session_next_chan(self._session, None))
        self._main = threading.get_ident()
        place = os.fsdecode(mountpoint.value or b"")
        # not by mount_at(), which looks at the place itself: nobody answers there yet
        ours = [entry.ident for entry in mounts.table() if entry.target == place]
        # blocked in all threads to come, too: this thread alone ends the mount
        old = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            self._spawn()
            _await_end(old)
            lib.fuse_session_exit(self._session)
            self._finish_answers()
            on_end()
            if not self._is_unmounted():
                self._unmount(ours[-1])
            deadline = time.monotonic() + JOIN_TIMEOUT
            for thread in list(self._threads):
                thread.join(max(0, deadline - time.monotonic()))
        finally:
            lib.fuse_remove_signal_handlers(self._session)
            for number in ENDING:  # there is nothing left for them to end
                signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_SETMASK, old)
        return 0

    def _unmount(self, ident: int) -> None:
        """Take the mount away from where it is now: not always where it was made."""
        for entry in mounts.table():
            if entry.ident == ident:
                # no channel is passed: it would be freed while other threads receive
                self.libfuse.fuse_unmount(os.fsencode(entry.target), None)
                return

    def _is_unmounted(self) -> bool:
        """Whether somebody else has unmounted it: what is there now is not ours."""
        device = select.poll()
        device.register(self.libfuse.fuse_chan_fd(self._channel), 0)
        return bool(device.poll(0))

    def _finish_answers(self) -> None:
        """Wait until all have answered: nobody may once the channel is gone."""
        with self._guard:
            self._closing = self._ended = True
            self._answered.wait_for(lambda: not self._busy, ANSWER_TIMEOUT)

    def _spawn(self) -> None:
        """Start one more thread that waits for a request."""
        thread = threading.Thread(target=self._serve, name="fuse", daemon=True)
        try:
            thread.start()
        except RuntimeError as e:  # some limit: then the threads that run must do
            log.warning("no further thread: %s", e)
            return
        self._idle += 1
        self._threads.append(thread)

    def _serve(self) -> None:
        """The body of a thread; when the session is over, so is the mount."""
        try:
            if not self._answer_requests():
                return
        except BaseException:
            log.exception("the loop failed")
        self.libfuse.fuse_session_exit(self._session)
        with self._guard:
            if not self._ended:
                self._ended = True
                signal.pthread_kill(self._main, signal.SIGTERM)

    def _answer_requests(self) -> bool:
        """Receive and answer; False: this thread is one too many.

        Before it answers it sees to it that somebody else receives.
        """
        lib, session = self.libfuse, self._session
        size = lib.fuse_chan_bufsize(self._channel)
        memory = ctypes.create_string_buffer(size)
        buf, channel = FuseBuf(), ctypes.c_void_p()
        receive, process = lib.fuse_session_receive_buf, lib.fuse_session_process_buf
        request = self.request
        args = session, ctypes.byref(buf), ctypes.byref(channel)
        while not lib.fuse_session_exited(session):
            buf.size, buf.flags, buf.fd = size, 0, -1
            buf.mem = ctypes.addressof(memory)
            channel.value = self._channel.value
            with self._turn:
                got = receive(*args)
                if got in (-errno.EINTR, -errno.EAGAIN):
                    continue
                if got <= 0 or not self._begin():
                    break
                _, request.opcode, _, request.nodeid = HEADER.unpack_from(memory)
                first = self._in_order and request.opcode == RELEASE
                if first:
                    process(session, args[1], channel)
            if not first:
                process(session, args[1], channel)
            if not self._end():
                return False
        return True

    def _begin(self) -> bool:
        """Note that this thread has a request; False: it is too late to answer."""
        with self._guard:
            if self._closing:
                return False
            self._busy += 1
            self._idle -= 1
            if not self._idle:
                self._spawn()
            return True

    def _end(self) -> bool:
        """Note that this thread has answered; False: it is one too many."""
        with self._guard:
            self._busy -= 1
            if self._closing:
                self._answered.notify_all()
            if self._idle >= MAX_IDLE:
                self._threads.remove(threading.current_thread())
                return False
            self._idle += 1
            return True

    def keep_size(self) -> None:
        """Let Linux pass on the attributes of the answer, but not take over their size.

        Linux drops the size of an answer if an invalidation comes in between.
        """
        self.libfuse.fuse_lowlevel_notify_inval_inode(
            self._channel,
            ctypes.c_ulong(self.request.nodeid),
            ctypes.c_longlong(-1),
            ctypes.c_longlong(0),
        )


def _await_end(mask: set[int | signal.Signals]) -> None:
    """Wait for one of the signals that end the mount, which are blocked.

    mask: the signal mask to wait with.  They get a handler of Python, as the guard
    (kpfs.host.guard) learns of no others.
    """
    told, tell = os.pipe()
    try:
        for number in ENDING:
            signal.signal(number, lambda *_: os.write(tell, b"!"))
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.read(told, 1)
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    finally:
        os.close(told)
