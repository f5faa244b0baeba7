# SPDX-License-Identifier: GPL-2.0-or-later
"""Operations of FUSE: what Linux makes of them on a mount, by either transport.

This also tests kpfs.fs.fuse.loop and kpfs.fs.fuse.libfuse.
"""

import ctypes
import errno
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from kpfs.backends.guest.root.background import Background
from kpfs.backends.guest.tree import GuestTree, build
from kpfs.base.errors import KernelError
from kpfs.fs.node import READABLE, File, Handle
from kpfs.mirror.host import Host
from tests.harness import TIMEOUT, await_blocked, until
from tests.there import stand_in, there
from tests.unit.fakes import FakeKernel

pytestmark = pytest.mark.fuse


class Pipe(File):
    """Blocks until somebody writes."""

    nonseekable = True

    def __init__(self):
        super().__init__()
        self.lines: list[bytes] = []
        self.written = 0

    def handle(self, flags, pid):
        return PipeHandle(self, flags, pid)


class PipeHandle(Handle):
    file: Pipe

    def ready(self):
        return bool(self.file.lines)

    def read(self, size, offset):
        if not self.file.lines:
            raise KernelError(errno.EAGAIN, "")
        return self.file.lines.pop(0)

    def take(self, data, pos):
        self.file.lines.append(data)
        self.file.written += 1
        return len(data)

    def poll(self):
        return READABLE if self.file.lines else 0

    def news(self):
        return self.file.written


class Holder(File):
    """A write of a FIFO's path takes until that ends, all under the kernel's lock."""

    def handle(self, flags, pid):
        return HolderHandle(self, flags, pid)


class HolderHandle(Handle):
    def read(self, size, offset):
        return b"read\n"[offset:]

    def take(self, data, pos):
        with open(data, "rb") as fifo:
            fifo.read()
        return len(data)


class Late(File):
    """Has been written when a close that waits is over."""

    def __init__(self, lock):
        super().__init__()
        self.lock = lock
        self.text = b""

    def handle(self, flags, pid):
        return LateHandle(self, flags, pid)


class LateHandle(Handle):
    file: Late
    data = b""

    def read(self, size, offset):
        return self.file.text[offset:]

    def take(self, data, pos):
        self.data = data
        return len(data)

    def release(self):
        if self.data:
            self.file.lock.step_aside(0.2)
            self.file.text = self.data


class MountKernel(FakeKernel):
    """A kernel of a mount, which also waits and wakes."""

    def __init__(self):
        super().__init__()
        self.trace = SimpleNamespace(events=SimpleNamespace(group=lambda name: {}))
        idle = SimpleNamespace(
            sched=SimpleNamespace(still=False, note_words=lambda: None),
            next_deadline=lambda: None,
            log=SimpleNamespace(next_seq=lambda: 0, records=lambda first: []),
            requests=SimpleNamespace(tell=lambda ran: None),
        )
        self.work = Background(stand_in(idle), self.lock)
        self.background = stand_in(self.work)

    def call(self, *args, **more):
        result = super().call(*args, **more)
        self.work.guest_ran()
        return result


def serve(transport, mountpoint, said):
    """The process behind the mounts of these tests."""
    kernel = stand_in(MountKernel())
    root = build(kernel)
    root.children["pipe"] = pipe = Pipe()
    root.children["holder"] = holder = Holder()
    root.children["late"] = late = Late(kernel.lock)
    pipe.mode = holder.mode = late.mode = 0o100644
    tree = GuestTree(kernel, root)
    import_module(f"kpfs.fs.fuse.{transport}").mount(
        tree, mountpoint, lambda: said.send("ready")
    )
    said.send("ended")


@pytest.fixture(scope="module")
def forkserver():
    """Makes processes that need not import what each of them needs."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "kpfs.fs.fuse.server"])
    return context


@pytest.fixture(params=["server", pytest.param("libfuse", marks=pytest.mark.libfuse)])
def mounted(request, tmp_path, forkserver):
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("/dev/fuse cannot be opened")
    tmp_path = tmp_path / "\u65e5\u672c"
    tmp_path.mkdir()
    heard, said = forkserver.Pipe(duplex=False)
    words = request.param, str(tmp_path), said
    daemon = forkserver.Process(target=serve, args=words)
    daemon.start()
    said.close()
    assert heard.recv() == "ready"
    yield SimpleNamespace(path=tmp_path, daemon=daemon)
    daemon.terminate()
    assert heard.poll(TIMEOUT)
    assert heard.recv() == "ended"
    assert ended(daemon) == 0
    assert not os.path.ismount(tmp_path)


def ended(daemon):
    """Return the status of a process that comes to its end."""
    daemon.join(TIMEOUT)
    return daemon.exitcode


def test_sendfile_sends_its_callers_back_to_read(mounted):
    path = mounted.path / "kprobes/enabled"
    fd, null = os.open(path, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY)
    for _ in range(2):
        with pytest.raises(OSError, match="Invalid") as error:
            os.sendfile(null, fd, 0, 4096)
        assert error.value.errno == errno.EINVAL
        os.stat(path)
        path.read_text()
    assert os.fstat(fd).st_size == path.stat().st_size == 0
    assert os.read(fd, 100) == b"1\n"
    os.close(fd)
    os.close(null)


def test_sendfile_whatever_others_do(mounted):
    """Others stat, open, read and truncate the file, and it is not empty."""
    path, null = mounted.path / "kprobes/enabled", os.open(os.devnull, os.O_WRONLY)

    def refused():
        fd = os.open(path, os.O_RDONLY)
        subprocess.run(["stat", path], check=True, stdout=subprocess.DEVNULL)
        assert os.fstat(fd).st_size == 0
        try:
            os.sendfile(null, fd, 0, 4096)
        except OSError as error:
            return error.errno == errno.EINVAL
        finally:
            os.close(fd)
        return False

    assert refused()
    for way in (os.stat, os.listdir, open, chmod, truncate, size_by_seeking):
        way(path.parent if way is os.listdir else path)
        for _ in range(2):
            assert refused(), way
        assert path.stat().st_size == 0, way
    os.close(null)


def chmod(path):
    path.chmod(0o640)


def truncate(path):
    with path.open("wb", buffering=0):
        pass


def size_by_seeking(path):
    with path.open("rb", buffering=0) as file:
        assert file.seek(0, os.SEEK_END) == 0


def test_seeking_and_truncating_on_a_mount(mounted):
    fd = os.open(mounted.path / "kprobes/blacklist", os.O_RDWR)
    with pytest.raises(OSError, match="Invalid"):
        os.lseek(fd, 0, os.SEEK_END)
    os.ftruncate(fd, 10)
    assert os.fstat(fd).st_size == 10
    with pytest.raises(OSError, match="Invalid"):
        os.fsync(fd)
    os.close(fd)
    fd = os.open(mounted.path / "kprobes/enabled", os.O_RDONLY)
    assert os.lseek(fd, 0, os.SEEK_END) == 0
    os.close(fd)


def test_files_have_no_extended_attributes(mounted):
    """Linux says so of tracefs, debugfs and procfs."""
    path = mounted.path / "kprobes/list"
    assert os.listxattr(path) == []
    for name, value in (
        ("user.x", b""),
        ("security.capability", b"\1\0\0\2" + bytes(16)),
        ("trusted." + "x" * 247, b"x" * 65536),
    ):
        with pytest.raises(OSError, match="not supported"):
            os.setxattr(path, name, value)
        for call in (os.getxattr, os.removexattr):
            with pytest.raises(OSError, match="not supported"):
                call(path, name)


def test_names_are_bytes(mounted):
    with pytest.raises(FileNotFoundError):
        os.stat(os.fsencode(mounted.path) + b"/kprobes/\xff\xc3")
    assert mounted.path.name.startswith("\u65e5")


def test_open_with_o_trunc_and_append(mounted):
    sysctl = mounted.path / "sys/debug/kprobes-optimization"
    with open(sysctl, "ab", buffering=0) as file:
        assert file.write(b"0") == 1
    assert sysctl.read_text() == "0\n"
    with open(sysctl, "wb", buffering=0) as file:
        assert file.write(b"1 junk") == 2
    assert sysctl.read_text() == "1\n"


def test_poll_and_blocking_read(mounted):
    path = mounted.path / "pipe"
    fd = os.open(path, os.O_RDONLY)
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    assert poll.poll(0) == []
    # by another open file: a blocked read() keeps others off its own
    threading.Timer(0.2, path.write_text, ("line\n",)).start()
    assert poll.poll(5000) == [(fd, select.POLLIN)]
    assert os.read(fd, 100) == b"line\n"
    threading.Timer(0.2, path.write_text, ("more\n",)).start()
    assert os.read(fd, 100) == b"more\n"
    with pytest.raises(OSError, match="Illegal seek"):
        os.lseek(fd, 0, os.SEEK_SET)
    os.close(fd)


def test_each_write_is_an_edge_also_of_a_file_that_is_ready(mounted):
    path = mounted.path / "pipe"
    fd = os.open(path, os.O_RDONLY)
    edge, level = select.epoll(), select.epoll()
    edge.register(fd, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
    level.register(fd, select.EPOLLIN | select.EPOLLOUT)
    assert edge.poll(0.1) == level.poll(0.1) == []
    for _ in range(3):
        path.write_text("line\n")
        assert edge.poll(5) == level.poll(5) == [(fd, select.EPOLLIN)]
        assert edge.poll(0.1) == []
    for _ in range(3):
        assert level.poll(5) == [(fd, select.EPOLLIN)]
        os.read(fd, 100)
    assert edge.poll(0.1) == level.poll(0.1) == []
    os.close(fd)


def test_a_flag_that_fcntl_sets_after_the_open(mounted):
    path = mounted.path / "pipe"
    fd = os.open(path, os.O_RDONLY)
    os.set_blocking(fd, False)
    with pytest.raises(BlockingIOError):
        os.read(fd, 100)
    os.set_blocking(fd, True)
    threading.Timer(0.2, path.write_text, ("line\n",)).start()
    assert os.read(fd, 100) == b"line\n"
    os.close(fd)


def test_a_blocked_reader_can_be_killed(mounted):
    reader = subprocess.Popen(["cat", mounted.path / "pipe"])
    await_blocked(reader, mounted.path / "pipe")
    reader.kill()
    assert reader.wait(TIMEOUT) == -9


# open() or read() gets a signal, whose handler raises
INTERRUPTED = """
import os, signal, sys, time
def wake(*_): raise TimeoutError
signal.signal(signal.SIGALRM, wake)
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    print(os.read(os.open(sys.argv[1], os.O_RDONLY), 100))
except TimeoutError:
    print("interrupted")
"""


def interrupted(path):
    words = [sys.executable, "-c", INTERRUPTED, path]
    done = subprocess.run(words, stdout=subprocess.PIPE, timeout=TIMEOUT)
    return done.stdout == b"interrupted\n"


def test_a_blocked_reader_is_interrupted(mounted):
    assert interrupted(mounted.path / "pipe")
    (mounted.path / "pipe").write_text("line\n")  # nobody took it
    assert (mounted.path / "pipe").open("rb").read(5) == b"line\n"


class Held:
    """A thread whose write holds the lock until it is told that it is enough."""

    def __init__(self, path, fifo):
        os.mkfifo(fifo)
        self.writer = threading.Thread(target=path.write_text, args=(str(fifo),))
        self.writer.start()
        self.fifo = os.open(fifo, os.O_WRONLY)  # waits until the daemon has opened it

    def release(self):
        if self.fifo >= 0:
            os.close(self.fifo)
            self.fifo = -1
        self.writer.join()


@pytest.fixture
def held(mounted, tmp_path):
    yield (held := Held(mounted.path / "holder", tmp_path / "fifo"))
    held.release()


# adds a file of the mount to an epoll instance
POLLER = """
import os, select, sys
epoll = select.epoll()
fd = os.open(sys.argv[1], os.O_RDONLY)
print(epoll.fileno(), flush=True)
input()
epoll.register(fd, select.EPOLLIN)
"""


def test_descriptors_are_read_while_a_poll_waits_for_the_lock(mounted, tmp_path):
    """The reader may have the lock, so it must not wait for the poller."""
    words = [sys.executable, "-c", POLLER, mounted.path / "pipe"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as poller:
        number = int(there(poller.stdout).readline())
        held = Held(mounted.path / "holder", tmp_path / "fifo")
        there(poller.stdin).write("\n")
        there(poller.stdin).flush()
        doing = Path(f"/proc/{poller.pid}/wchan").read_text
        until(lambda: doing() == "request_wait_answer", "the poll does not wait")
        found: dict[int, bytes] = {}
        alike: list[bool] = []

        def look():
            host = Host([])
            found.update({fd.number: fd.link for fd in host.descriptors(poller.pid)})
            alike.append(host.same_descriptors(poller.pid, poller.pid))
            alike.append(host.can_read(poller.pid, number))
            host.close()

        thread = threading.Thread(target=look)
        thread.start()
        thread.join(TIMEOUT)
        ended = not thread.is_alive()
        held.release()
        thread.join()
    assert ended
    assert found[number] == b"anon_inode:[eventpoll]"
    assert alike == [True, True]


def test_waiting_for_the_lock_is_interrupted(mounted, held):
    assert interrupted(mounted.path / "holder")


def test_a_reader_that_waits_for_the_lock_is_killed(mounted, tmp_path):
    path = mounted.path / "holder"
    with path.open("rb") as reader:
        held = Held(path, tmp_path / "fifo")
        child = subprocess.Popen(["cat"], stdin=reader, stdout=subprocess.DEVNULL)
        time.sleep(0.2)
        child.terminate()
        assert child.wait(TIMEOUT) == -signal.SIGTERM
        held.release()
        assert reader.read(5) == b"read\n"


def test_reads_without_the_lock_are_served_meanwhile(mounted, held):
    path = mounted.path / "kprobes"
    waiting = [threading.Thread(target=(path / "enabled").read_text) for _ in range(20)]
    for thread in waiting:
        thread.start()
    time.sleep(0.1)
    assert set(os.listdir(path)) == {"list", "enabled", "blacklist"}
    assert (path / "list").stat().st_size == 0
    held.release()
    for thread in waiting:
        thread.join()


def test_many_readers_block(mounted):
    path = mounted.path / "pipe"
    texts: list[str] = []
    readers = [
        threading.Thread(target=lambda: texts.append(path.open("rb").read(5).decode()))
        for _ in range(30)
    ]
    for reader in readers:
        reader.start()
    time.sleep(0.2)
    assert (mounted.path / "kprobes/enabled").read_text() == "1\n"
    for _ in readers:
        path.write_text("line\n")
    for reader in readers:
        reader.join(10)
    assert texts == ["line\n"] * 30


def test_a_close_comes_before_what_follows_it(mounted):
    (mounted.path / "late").write_bytes(b"written\n")
    assert (mounted.path / "late").read_bytes() == b"written\n"


def test_ending_with_a_reader_that_waits_for_the_lock(mounted, held):
    path = mounted.path / "holder"
    reader = subprocess.Popen(["cat", path], stderr=subprocess.DEVNULL)
    time.sleep(0.3)
    for _ in range(3):  # the first is enough, and the others do no harm
        mounted.daemon.terminate()
        time.sleep(0.1)
    assert reader.wait(TIMEOUT) != 0


def test_ending_with_a_blocked_reader(mounted):
    reader = subprocess.Popen(["cat", mounted.path / "pipe"], stderr=subprocess.DEVNULL)
    await_blocked(reader, mounted.path / "pipe")
    mounted.daemon.terminate()
    assert reader.wait(TIMEOUT) != 0
    assert ended(mounted.daemon) == 0


def test_umount_ends_the_daemon(mounted):
    umount2 = ctypes.CDLL(None).umount2
    if os.geteuid() != 0:
        pytest.skip("umount(2) is for root")
    assert umount2(os.fsencode(mounted.path), 0) == 0
    assert ended(mounted.daemon) == 0
