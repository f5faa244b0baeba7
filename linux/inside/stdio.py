# SPDX-License-Identifier: GPL-2.0-or-later
"""Connect a command's standard input, output and error with the host's.

A terminal on the host is a pty in the kernel; everything else is a pipe there.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import termios

from kpfs.base import syscall_numbers as nr
from kpfs.linux.inside.loop import Loop, Worker
from kpfs.linux.inside.request import TerminalState
from kpfs.linux.running.machine import Op, Out, SlotOffset

_CHUNK = 1 << 16
_SAFE = select.PIPE_BUF  # bytes that never block after poll() reported room
_PIPE, _INT = "2i", "i"
_FIRST = 1  # the lowest priority of SCHED_FIFO, which all ordinary tasks give way to
TIOCSPTLCK, TIOCGPTPEER = 0x40045431, 0x5441  # Python's termios lacks them
_AGAIN = {errno.EAGAIN, errno.EINTR}


def _nothing() -> None:
    pass


class Input:
    """Copies from a descriptor of the host to one of a worker."""

    def __init__(self, loop: Loop, worker: Worker, target: int, fd: int) -> None:
        self._loop = loop
        self._worker = worker
        self._target = target
        self._fd = fd
        self._wait()

    def _wait(self) -> None:
        try:
            self._loop.watch(self._fd, select.POLLIN, self._read)
        except PermissionError:
            self._read()

    def _read(self) -> None:
        self._loop.unwatch(self._fd)
        try:
            data = os.read(self._fd, _CHUNK)
        except OSError as error:
            if error.errno in _AGAIN:
                self._wait()
                return
            data = b""
        if data:
            self._write(data)
        else:
            self._worker.start([Op(nr.CLOSE, (self._target,))], _nothing)

    def _write(self, data: bytes) -> None:
        op = Op(nr.WRITE, (self._target, data, len(data)))
        self._worker.start([op], lambda: self._written(data))

    def _written(self, data: bytes) -> None:
        count = self._worker.results(1)[0]
        if count < 0 and count != -errno.EINTR:
            return  # the command has closed its input
        rest = data[max(count, 0) :]
        if rest:
            self._write(rest)
        else:
            self._wait()


class Output:
    """Copies from a descriptor of a worker to one of the host.

    The worker runs as soon as there is something to read, before any ordinary task:
    what the command has written last is what is asked for when the kernel dies, and no
    kernel hands it out afterwards. While the host takes nothing, it reads ahead for the
    same reason, up to _CHUNK.
    """

    def __init__(self, loop: Loop, worker: Worker, source: int, fd: int) -> None:
        self._loop = loop
        self._worker = worker
        self._source = source
        self.fd = os.dup(fd)  # an Input may watch the same descriptor
        self._waits = stat.S_ISREG(os.fstat(fd).st_mode)
        self._pending = b""
        self._left = 0  # bytes to read, after finish()
        self.ended = False
        self.copy = -1  # a file that gets all of it, too
        self.lost = ""  # why some of it could not be written
        first = worker.model.struct(_INT).pack(_FIRST)
        worker.attempt(Op(nr.SCHED_SETSCHEDULER, (0, os.SCHED_FIFO, first)))
        self._next()

    def finish(self) -> None:
        """Look how much is left to read: what comes later is not waited for.

        Context: the loop has settled, so a reader that still waits has read everything.
        """
        if self._worker.busy or self.ended:
            return
        self._loop.unwatch(self.fd)  # or _flush() would have the worker read
        number = self._worker.model.struct(_INT)
        op = Op(nr.IOCTL, (self._source, termios.FIONREAD, Out(number.size)))
        reply = self._worker.request(op)
        if reply.results[0] == 0:
            (self._left,) = number.unpack(reply.out(0, number.size))
        self._flush()

    @property
    def left(self) -> int:
        """Return how many bytes are to be written of what was there at finish()."""
        return len(self._pending) + (0 if self.ended else max(self._left, 0))

    @property
    def is_read(self) -> bool:
        """Return True unless the kernel may have more that nobody has read."""
        return self.ended or self._worker.busy

    def _next(self) -> None:
        """Read on, unless the worker does already, or enough is to be written."""
        if not self.is_read and len(self._pending) < _CHUNK:
            self._worker.start(
                [Op(nr.READ, (self._source, SlotOffset(0), _CHUNK))], self._came
            )

    def _came(self) -> None:
        count = self._worker.results(1)[0]
        if self.ended:
            self._close()
        elif count == -errno.EINTR:
            self._next()
        elif count <= 0:  # EIO: no task has the terminal open
            self.ended = True
        else:
            data = bytes(self._worker.memory[:count])
            self._pending += data
            self._left -= count
            if self.copy >= 0:
                os.write(self.copy, data)
            self._flush()

    def _flush(self) -> None:
        """Write as much as the host takes now, and the rest when it takes more."""
        self._loop.unwatch(self.fd)
        if not self._write():
            self._loop.watch(self.fd, select.POLLOUT, self._flush)
        self._next()

    def write_out(self) -> None:
        """Write as much as the host takes now. Context: the kernel is dead."""
        self.ended = True
        self._write()

    def _write(self) -> bool:
        """Return False if the host does not take all of it now."""
        poll = select.poll()
        if not self._waits:
            poll.register(self.fd, select.POLLOUT)
        try:
            while self._pending:
                if not self._waits and not poll.poll(0):
                    return False
                size = len(self._pending) if self._waits else _SAFE
                self._pending = self._pending[os.write(self.fd, self._pending[:size]) :]
        except OSError as error:  # closing the pipe gives the command SIGPIPE
            if error.errno != errno.EPIPE:  # else nobody reads on
                self.lost = os.strerror(error.errno or errno.EIO)
            self._pending = b""
            was_ended, self.ended = self.ended, True
            if not was_ended and not self._worker.busy:
                self._close()
        return True

    def _close(self) -> None:
        self._worker.start([Op(nr.CLOSE, (self._source,))], _nothing)


def open_pipe(worker: Worker) -> tuple[int, int]:
    """Open a pipe in a worker; return its read end and its write end."""
    pair = worker.model.struct(_PIPE)
    reply = worker.request(Op(nr.PIPE2, (Out(pair.size), os.O_CLOEXEC)))
    ends: tuple[int, int] = pair.unpack(reply.out(0, pair.size))
    return ends


def open_terminal(worker: Worker, like: TerminalState) -> tuple[int, int]:
    """Open a pty in a worker as its session's terminal; return master and slave."""
    flags = os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC
    (master,) = worker.call(Op(nr.OPEN, (b"/dev/ptmx\0", flags)))
    _, slave = worker.call(
        Op(nr.IOCTL, (master, TIOCSPTLCK, bytes(4))),
        Op(nr.IOCTL, (master, TIOCGPTPEER, flags)),
    )
    worker.call(
        Op(nr.IOCTL, (slave, termios.TCSETS, like.settings)),
        Op(nr.IOCTL, (slave, termios.TIOCSWINSZ, like.size)),
        Op(nr.IOCTL, (slave, termios.TIOCSCTTY, 0)),
    )
    return master, slave
