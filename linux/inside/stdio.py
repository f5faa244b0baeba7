# SPDX-License-Identifier: GPL-2.0-or-later
"""Connect a command's standard input, output and error with the host's.

A terminal on the host is a pty in the kernel, and /dev/null is its own; everything else
is a pipe there.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import select
import socket
import stat
import termios
import weakref
from collections.abc import Callable

from kpfs.base import syscall_numbers as nr
from kpfs.linux.inside.loop import Loop, Worker
from kpfs.linux.inside.request import TerminalState
from kpfs.linux.inside.unread import left_in_pipe
from kpfs.linux.running.kernel_on_board import KernelOnBoard
from kpfs.linux.running.machine import Op, Out, Reply, SlotOffset

_CHUNK = 1 << 16
_SAFE = select.PIPE_BUF  # bytes that never block after poll() reported room
_PIPE, _INT = "2i", "i"
_FIRST = 1  # the lowest priority of SCHED_FIFO, which all ordinary tasks give way to
TIOCSPTLCK, TIOCGPTPEER = 0x40045431, 0x5441  # Python's termios lacks them
_AGAIN = {errno.EAGAIN, errno.EINTR}


def _nothing() -> None:
    pass


class Input:
    """Copies from a terminal of the host to the master of a pty, by a worker."""

    def __init__(
        self, loop: Loop, worker: Worker, target: int, fd: int, first: bytes = b""
    ) -> None:
        """first: comes before what is to be read."""
        self._loop = loop
        self._worker = worker
        self._target = target
        self._fd = fd
        self.lost = ""  # why the rest could not be read
        self._first = first
        self._wait()

    def add(self, data: bytes) -> None:
        """Copy this before what is to be read from now on."""
        self._first += data
        if not self._worker.busy:
            self._loop.unwatch(self._fd)
            self._wait()

    def _wait(self) -> None:
        if self._first:
            first, self._first = self._first, b""
            self._write(first)
            return
        try:
            self._loop.watch(self._fd, select.POLLIN, self._read)
        except PermissionError:
            self._read()

    def _look(self) -> bytes:
        """Return what there is to read. Raises OSError."""
        return os.read(self._fd, _CHUNK)

    def _read(self) -> None:
        self._loop.unwatch(self._fd)
        try:
            data = self._look()
        except OSError as error:
            if error.errno in _AGAIN:
                self._wait()
                return
            if not os.isatty(self._fd):  # a terminal that has hung up
                self.lost = os.strerror(error.errno or errno.EIO)
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


class PipeInput(Input):
    """Copies from what is no terminal to a pipe, but takes only what has been read.

    What the command leaves is for whoever reads next, as in a loop of a shell over the
    lines of a file. So the host's data stay where they are until they are gone from the
    pipe, which has room for one page: it can be written to again when that is gone.
    A command that has read _CHUNK bytes is one that reads all.
    """

    def __init__(self, loop: Loop, worker: Worker, target: int, fd: int) -> None:
        (self._size,) = worker.call(Op(nr.FCNTL, (target, fcntl.F_SETPIPE_SZ, 1)))
        self._peek, self._take = unread(fd)
        self._taken = 0
        self._in_pipe = 0  # bytes of the host that were written and not taken yet
        super().__init__(loop, worker, target, fd)

    @property
    def _reads_all(self) -> bool:
        return self._taken >= _CHUNK

    def _look(self) -> bytes:
        return super()._look() if self._reads_all else self._peek(self._size)

    def _written(self, data: bytes) -> None:
        if self._reads_all:
            super()._written(data)
            return
        count = self._worker.results(1)[0]
        if count < 0 and count != -errno.EINTR:
            return  # the command has closed its input
        self._in_pipe = max(count, 0)
        has_room = self._worker.model.struct("ihh")
        poll = has_room.pack(self._target, select.POLLOUT, 0)
        ops = [Op(nr.POLL, (poll, 1, -1)), self._ask(self._target)]
        self._places = self._worker.start(ops, self._was_read)

    def _ask(self, fd: int) -> Op:
        """Return the call that tells how many bytes are in the pipe."""
        size = self._worker.model.struct(_INT).size
        return Op(nr.IOCTL, (fd, termios.FIONREAD, Out(size)))

    def _take_read(self, reply: Reply, number: int) -> bool:
        """Take from the host what was read. Return True if nothing is in the pipe.

        number: that of the call _ask().
        """
        if reply.results[number] < 0:
            return False
        size = self._worker.model.struct(_INT)
        (left,) = size.unpack(reply.out(number, size.size))
        read, self._in_pipe = self._in_pipe - left, left
        self._take(read)
        self._taken += read
        return not left

    def finish(self, helper: Worker) -> None:
        """Take what was read: others may still have the command's input open."""
        if not self._in_pipe:
            return
        path = f"/proc/{self._worker.pid}/fd/{self._target}\0".encode()
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        (fd,) = helper.attempt(Op(nr.OPEN, (path, flags)))
        if fd >= 0:
            self._take_read(helper.request(self._ask(fd), Op(nr.CLOSE, (fd,))), 0)

    def finish_dead(self, kernel: KernelOnBoard) -> None:
        """Take what was read before the kernel died, if that is known."""
        if self._in_pipe:
            left = left_in_pipe(kernel, self._worker.pid, self._target)
            if left is not None:
                self._take(self._in_pipe - left)

    def _was_read(self) -> None:
        reply = Reply(self._loop.machine, self._worker.slot, self._places, 2)
        if not self._take_read(reply, 1):
            return  # the command has closed its input
        if self._reads_all:
            resize = Op(nr.FCNTL, (self._target, fcntl.F_SETPIPE_SZ, _CHUNK))
            self._worker.start([resize], self._wait)
        else:
            self._wait()


def unread(fd: int) -> tuple[Callable[[int], bytes], Callable[[int], object]]:
    """Return how to look at what is to be read from a descriptor, and how to take it.

    A device, or what Linux does not let be looked at, is read at once.
    """
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode) and _is_seekable(fd):
        return (
            lambda size: os.pread(fd, size, os.lseek(fd, 0, os.SEEK_CUR)),
            lambda count: os.lseek(fd, count, os.SEEK_CUR),
        )
    if stat.S_ISSOCK(mode):
        end = socket.socket(fileno=os.dup(fd))
        if end.type != socket.SOCK_STREAM:  # a message is taken as a whole
            return lambda _size: os.read(fd, _CHUNK), lambda _count: None
        flags = socket.MSG_PEEK | socket.MSG_DONTWAIT
        return lambda size: end.recv(size, flags), lambda count: _drop(end, count)
    if stat.S_ISFIFO(mode):
        copied = _Copied(fd)
        return copied.peek, copied.take
    return lambda size: os.read(fd, size), lambda _count: None


def _is_seekable(fd: int) -> bool:
    """Return False for files such as trace_pipe, which are gone once read."""
    try:
        os.lseek(fd, 0, os.SEEK_CUR)
    except OSError:
        return False
    return True


def _drop(end: socket.socket, count: int) -> None:
    """Take so many bytes from a stream, unless somebody else has read them."""
    with contextlib.suppress(OSError):
        while count and (data := end.recv(count, socket.MSG_DONTWAIT)):
            count -= len(data)


class _Copied:
    """Copies of what is in a pipe of the host, by tee(2), which Python lacks.

    Neither waits, should somebody else have read it.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._ours, self._copy = os.pipe()
        for end in (self._ours, self._copy):
            weakref.finalize(self, os.close, end)
        self._tee = ctypes.CDLL(None, use_errno=True).tee
        self._tee.restype = ctypes.c_ssize_t

    def peek(self, size: int) -> bytes:
        """Return what is at the pipe's begin; b"" at its end. Raises OSError."""
        room = ctypes.c_size_t(size)
        count = self._tee(self._fd, self._copy, room, os.SPLICE_F_NONBLOCK)
        if count < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return self._moved(count)

    def take(self, count: int) -> None:
        """Take so many bytes from the pipe's begin."""
        if count:
            where = self._fd, self._copy, count
            with contextlib.suppress(OSError):
                self._moved(os.splice(*where, flags=os.SPLICE_F_NONBLOCK))

    def _moved(self, count: int) -> bytes:
        """Return so many bytes, which were moved into our pipe."""
        data = b""
        while len(data) < count:  # packets of O_DIRECT come one by one
            data += os.read(self._ours, count - len(data))
        return data


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
            self._left -= count
            self.add(bytes(self._worker.memory[:count]))
            self._flush()

    def add(self, data: bytes) -> None:
        """Note that something is to be written."""
        self._pending += data
        if self.copy >= 0:
            os.write(self.copy, data)

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
