# SPDX-License-Identifier: GPL-2.0-or-later
"""Wait for files that wait, in each way and state, and print what was told.

waits.py TRACING KMSG LIMIT WAYS STATES FILES: the first two are places of the files,
LIMIT is that of kernel.printk_devkmsg or empty, the last three are lists of names.
Each line has a file, a state, a way, and what each wait told: the events, "-" for none.
"""

import asyncio
import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import select
import signal
import struct
import sys
import threading
import time

SHORT, LONG = 0.02, 20.0  # s: nothing is to come, and something is to come
IN, PRI, OUT, ERR = select.POLLIN, select.POLLPRI, select.POLLOUT, select.POLLERR
WANTED = IN | PRI | OUT
CPU = 0


def shown(events):
    names = {IN: "in", PRI: "pri", OUT: "out", ERR: "err"}
    return "+".join(names[bit] for bit in names if events & bit) or "-"


class Poll:
    def __init__(self, fd):
        self.poll = select.poll()
        self.poll.register(fd, WANTED)

    def wait(self, seconds):
        return sum(events for _, events in self.poll.poll(seconds * 1000))

    def close(self):
        pass


class Select(Poll):
    def __init__(self, fd):
        self.fd = [fd]

    def wait(self, seconds):
        found = select.select(self.fd, self.fd, self.fd, seconds)
        return sum(bit for bit, fds in zip((IN, OUT, PRI), found, strict=True) if fds)


class Level(Poll):
    how = 0

    def __init__(self, fd):
        self.fd = fd
        self.epoll = select.epoll()
        self.epoll.register(fd, WANTED | self.how)

    def wait(self, seconds):
        return sum(events for _, events in self.epoll.poll(seconds))

    def close(self):
        self.epoll.close()


class Edge(Level):
    how = select.EPOLLET


class Once(Level):
    """Is told once, and asks again then."""

    how = select.EPOLLONESHOT

    def wait(self, seconds):
        found = super().wait(seconds)
        if found:
            assert not super().wait(0)
            self.epoll.modify(self.fd, WANTED | self.how)
        return found


class Asyncio(Poll):
    """A reader and a writer of a loop, for which the loop uses epoll."""

    def __init__(self, fd):
        self.fd = fd
        self.loop = asyncio.new_event_loop()

    async def _wait(self, seconds):
        first = self.loop.create_future()

        def ready(events):
            if not first.done():
                first.set_result(events)

        self.loop.add_reader(self.fd, ready, IN)
        self.loop.add_writer(self.fd, ready, OUT)
        try:
            return await asyncio.wait_for(first, seconds)
        except asyncio.TimeoutError:
            return 0
        finally:
            self.loop.remove_reader(self.fd)
            self.loop.remove_writer(self.fd)

    def wait(self, seconds):
        return self.loop.run_until_complete(self._wait(seconds))

    def close(self):
        self.loop.close()


class Uring(Poll):
    """IORING_OP_POLL_ADD, whose completion shows in the ring's own descriptor.

    Kernel: include/uapi/linux/io_uring.h
    """

    SETUP, ENTER = 425, 426
    POLL_ADD, POLL_REMOVE = 6, 7
    ENTRIES = 4
    libc = ctypes.CDLL(None, use_errno=True)

    def __init__(self, fd):
        self.fd = fd
        params = ctypes.create_string_buffer(120)
        self.ring = self.libc.syscall(self.SETUP, self.ENTRIES, params)
        assert self.ring >= 0, os.strerror(ctypes.get_errno())
        sizes = struct.unpack_from("<2I", params)
        sq, cq = (
            struct.unpack_from("<9I", params, 40),
            struct.unpack_from("<9I", params, 80),
        )
        self.sq_tail, self.array = sq[1], sq[6]
        self.cq_head, self.cq_tail, self.cqes = cq[0], cq[1], cq[5]
        length = max(self.array + 4 * sizes[0], self.cqes + 16 * sizes[1])
        self.rings = mmap.mmap(self.ring, length, offset=0)
        self.entries = mmap.mmap(self.ring, 64 * sizes[0], offset=0x10000000)
        self.outstanding = False
        self.sent = 0

    def _word(self, at):
        return struct.unpack_from("<I", self.rings, at)[0]

    def _submit(self, entry):
        index = self.sent % self.ENTRIES
        self.entries[64 * index : 64 * index + 64] = entry.ljust(64, b"\0")
        struct.pack_into("<I", self.rings, self.array + 4 * index, index)
        self.sent += 1
        struct.pack_into("<I", self.rings, self.sq_tail, self.sent)
        assert self.libc.syscall(self.ENTER, self.ring, 1, 0, 0, None, 0) == 1

    def wait(self, seconds):
        if not self.outstanding:
            head = struct.pack("<BBHiQQI", self.POLL_ADD, 0, 0, self.fd, 0, 0, 0)
            self._submit(head + struct.pack("<IQ", WANTED, 1))
            self.outstanding = True
        found = 0
        while not found and select.select([self.ring], [], [], seconds)[0]:
            head = self._word(self.cq_head)
            at = self.cqes + 16 * (head % (2 * self.ENTRIES))
            _, found, _ = struct.unpack_from("<QiI", self.rings, at)
            struct.pack_into("<I", self.rings, self.cq_head, head + 1)
            self.outstanding = False
        assert found >= 0, os.strerror(-found)
        return found

    def close(self):
        self.rings.close()
        self.entries.close()
        os.close(self.ring)


class Sigio(Poll):
    """O_ASYNC, which these files do not have: fcntl(2) takes it, and nothing comes."""

    def __init__(self, fd):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
        fcntl.fcntl(fd, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(fd, fcntl.F_GETFL)
        fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_ASYNC)
        self.taken = bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ASYNC)

    def wait(self, _seconds):
        # sigtimedwait() of CPython tells a signal that was none, if its time ends just
        # as the kernel wakes the task for a completion of io_uring
        time.sleep(SHORT)
        told = signal.SIGIO in signal.sigpending()
        if told:
            signal.sigwait([signal.SIGIO])
        return IN if told or self.taken else 0


WAYS = {
    "poll": Poll,
    "select": Select,
    "level": Level,
    "edge": Edge,
    "once": Once,
    "asyncio": Asyncio,
    "uring": Uring,
    "sigio": Sigio,
}


class Source:
    """A file that waits, with what writes to it.  place: below TRACING."""

    percent = "0"

    def __init__(self, tracing, place):
        self.array = os.path.join(tracing, *place.split("/")[:-1])
        self.array = self.array.partition("/per_cpu")[0]
        self.path = os.path.join(tracing, place)
        self.marker = os.open(f"{self.array}/trace_marker", os.O_WRONLY)
        self.set("buffer_size_kb", "16")

    def begin(self):
        """Empty it; and a record is enough for those who poll the file of a CPU."""
        self.set("tracing_on", "1")
        self.set("trace", "")
        if os.path.exists(f"{self.array}/buffer_percent"):
            self.set("buffer_percent", self.percent)

    def set(self, name, value):
        with open(f"{self.array}/{name}", "w") as file:
            file.write(value)

    def open(self):
        """Open it; a ring gives its file back a while after its own close."""
        until = time.monotonic() + LONG
        while True:
            try:
                return os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > until:
                    raise
                time.sleep(0.001)

    def write(self):
        os.write(self.marker, b"hello\n")

    def fill(self):
        for _ in range(100):
            os.write(self.marker, b"x" * 400)

    def drain(self, fd):
        with contextlib.suppress(BlockingIOError):
            while os.read(fd, 65536):
                pass

    def close(self):
        os.close(self.marker)


class Kmsg(Source):
    def __init__(self, path):
        self.path, self.array = path, ""
        self.marker = os.open(path, os.O_WRONLY)

    def begin(self):
        pass

    def open(self):
        fd = super().open()
        self.drain(fd)
        return fd

    def fill(self):
        for _ in range(20):
            self.write()


def at_rest(thread):
    """Wait until a thread or process sleeps, most likely in what it is to wait in."""
    until = time.monotonic() + LONG
    while time.monotonic() < until:
        with open(f"/proc/{thread}/stat") as stat:
            if stat.read().rpartition(")")[2].split()[0] == "S":
                return
        time.sleep(0.001)


def later(what):
    """Have another thread do something once this one waits."""
    me = threading.get_native_id()

    def run():
        at_rest(me)
        what()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


# ---- states: each yields what its waits have told
def empty(source, fd, way):
    yield way.wait(SHORT)
    yield way.wait(0)


def one(source, fd, way):
    """A record that comes while nobody waits; it is there until it is read."""
    yield way.wait(SHORT)
    for _ in range(2):
        source.write()
        yield way.wait(LONG)
    yield way.wait(SHORT)
    source.drain(fd)
    yield way.wait(SHORT)


def full(source, fd, way):
    source.fill()
    yield way.wait(LONG)
    source.drain(fd)
    yield way.wait(SHORT)
    source.write()
    yield way.wait(LONG)


def dies(source, fd, way):
    """The writer is killed after its record."""
    child = os.fork()
    if not child:
        os.close(fd)
        at_rest(os.getppid())
        source.write()
        os.kill(os.getpid(), signal.SIGKILL)
    yield way.wait(LONG)
    os.waitpid(child, 0)
    source.drain(fd)
    yield way.wait(SHORT)


def reader(source, fd, way):
    """Another thread reads what comes, of the same open file, and waits for more."""
    os.set_blocking(fd, True)
    got = []
    thread = threading.Thread(target=lambda: got.append(os.read(fd, 65536)))
    thread.start()
    at_rest(thread.native_id)
    yield way.wait(SHORT)
    source.write()
    thread.join(LONG)
    os.set_blocking(fd, False)
    assert got, "the reader has nothing"
    source.drain(fd)
    way.wait(SHORT)  # it may have been told before the reader had the record
    yield way.wait(SHORT)
    writer = later(source.write)
    yield way.wait(LONG)
    writer.join()


STATES = {state.__name__: state for state in (empty, one, full, dies, reader)}


def main(tracing, kmsg, limit, ways, states, files):
    os.sched_setaffinity(0, [CPU])
    if limit:
        with open(limit, "w") as file:
            file.write("on\n")  # else kmsg takes ten lines in five seconds
    with contextlib.suppress(FileExistsError):
        os.mkdir(f"{tracing}/instances/waits")
    for file in files.split():
        source = Kmsg(kmsg) if file == "kmsg" else Source(tracing, file)
        for state in states.split():
            for name in ways.split():
                source.begin()
                fd = source.open()
                way = WAYS[name](fd)
                told = [shown(found) for found in STATES[state](source, fd, way)]
                print(file, state, name, *told, flush=True)
                way.close()
                os.close(fd)
        source.close()
    os.rmdir(f"{tracing}/instances/waits")


if __name__ == "__main__":
    main(*sys.argv[1:])
