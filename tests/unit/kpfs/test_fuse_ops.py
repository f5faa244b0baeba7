# SPDX-License-Identifier: GPL-2.0-or-later
"""Operations of FUSE: without a mount, and what Linux makes of them on one."""

import ctypes
import errno
import logging
import os
import select
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from kpfs.engine.errors import KernelError
from kpfs.fs.files.tree import build
from kpfs.fs.fuse import ops as fuse_ops
from kpfs.fs.fuse.ops import GETATTR, LOOKUP, LOOKUP_SIZE, Operations, answer
from kpfs.fs.node import File, Handle
from kpfs.fs.vfs import EMPTY_WRITE
from tests.unit.kpfs.fakes import FakeKernel

SETATTR = 4


class Libfuse:
    def fuse_get_context(self):
        context = SimpleNamespace(pid=100, uid=0, gid=0, fuse=None)
        return SimpleNamespace(contents=context)

    def fuse_interrupted(self):
        return 0

    def fuse_exited(self, _fuse):
        return 0


class FakeLoop:
    def __init__(self):
        self.request = SimpleNamespace(opcode=GETATTR)
        self.kept = 0

    def keep_size(self):
        self.kept += 1


@pytest.fixture
def ops():
    kernel = FakeKernel()
    kernel.trace = SimpleNamespace(events=SimpleNamespace(group=lambda name: {}))
    return Operations(kernel, build(kernel), Libfuse(), FakeLoop(), lambda: None)


def info(flags=os.O_RDWR, lock_owner=1):
    return SimpleNamespace(flags=flags, fh=0, nonseekable=0, lock_owner=lock_owner)


def code(function, *args):
    with pytest.raises(KernelError) as error:
        function(*args)
    return errno.errorcode[error.value.errno]


def test_no_attribute_is_taken_for_an_operation(ops):
    names = {"lock", "access", "poll", "ioctl", "flush", "statfs"}
    assert all(callable(getattr(ops, n)) or getattr(ops, n) is None for n in names)


def test_size_is_0_but_when_looked_up(ops):
    path, loop = "/kprobes/enabled", ops.loop
    assert (ops.getattr(path)["st_size"], loop.kept) == (0, 1)
    loop.request.opcode = LOOKUP
    assert ops.getattr(path)["st_size"] == LOOKUP_SIZE
    assert ops.getattr("/kprobes")["st_size"] == 0
    ops.truncate(path, 10)
    loop.request.opcode = SETATTR
    assert (ops.getattr(path)["st_size"], loop.kept) == (10, 1)


def test_read_and_write(ops):
    fi = info()
    ops.open("/kprobes/enabled", fi)
    assert ops.read("", 100, 0, fi) == b"1\n"
    assert ops.write("", b"0\n", 2, fi) == 2
    assert ops.read("", 1, 0, fi) == b"0"
    assert code(ops.fsync, "", 0, fi) == "EINVAL"
    ops.release("", fi)
    assert not ops.files


def test_the_page_cache_is_refused(ops):
    fi = info(lock_owner=0)
    ops.open("/kprobes/enabled", fi)
    assert code(ops.read, "", 4096, 0, fi) == "EINVAL"


def test_seek_end(ops):
    for path, result in (("/kprobes/list", "EINVAL"), ("/kprobes/enabled", 0)):
        fi = info()
        ops.open(path, fi)
        if result:
            assert code(ops.getattr, path, fi) == result
        else:
            assert ops.getattr(path, fi)["st_size"] == 0
        ops.loop.request.opcode = SETATTR
        ops.truncate(path, 0, fi)
        assert ops.getattr(path, fi)["st_size"] == 0
        ops.loop.request.opcode = GETATTR


def test_mutations(ops):
    for function, args, expected in (
        (ops.mkdir, ("/kprobes/d", 0), "EPERM"),
        (ops.create, ("/kprobes/new", 0), "EACCES"),
        (ops.unlink, ("/kprobes/list",), "EPERM"),
        (ops.rename, ("/kprobes/list", "/kprobes/x"), "EPERM"),
        (ops.mkdir, ("/sys/debug/d", 0), "ENOENT"),
        (ops.unlink, ("/sys/debug/kprobes-optimization",), "EACCES"),
        (ops.chmod, ("/sys/debug/kprobes-optimization", 0o600), "EPERM"),
        (ops.create, ("/nowhere/new", 0), "ENOENT"),
    ):
        assert code(function, *args) == expected


def test_readdir_gives_types(ops):
    entries = {name: st["st_mode"] for name, st, _ in ops.readdir("/kprobes", 0)}
    assert set(entries) == {".", "..", "list", "enabled", "blacklist"}
    assert entries["list"] == 0o100400


@pytest.mark.logs("bug in bug")
def test_answer(caplog):
    def refuse():
        raise KernelError(errno.EBUSY, "busy")

    def restart():
        raise KernelError(512, "ERESTARTSYS")

    def bug():
        raise KeyboardInterrupt

    assert answer(refuse) == -errno.EBUSY
    assert answer(lambda: None) == 0
    assert answer(restart) == -errno.EINTR
    with caplog.at_level(logging.ERROR):
        assert answer(bug) == -errno.EIO
    assert "bug" in caplog.text


def test_libfuse_3_is_refused(monkeypatch):
    fake = SimpleNamespace(
        FUSE=object, _libfuse=SimpleNamespace(fuse_version=lambda: 314)
    )
    monkeypatch.setitem(sys.modules, "fuse", fake)
    with pytest.raises(fuse_ops.FuseUnavailable, match="version 2"):
        fuse_ops._import_fuse()


# ---- on a mount


class Pipe(File):
    """Blocks until somebody writes."""

    nonseekable = True

    def __init__(self):
        super().__init__()
        self.lines = []

    def handle(self, flags, pid):
        return PipeHandle(self, flags, pid)


def test_a_write_of_a_thread_that_stands_for_another(ops):
    ops.files[1] = opened = SimpleNamespace()
    fi = SimpleNamespace(fh=1)
    made = []

    def in_place(vfs, file):
        made.append((vfs, file))
        return 5

    ops.writers[100] = in_place
    assert ops.write("/x", b"data", 3, fi) == 5
    assert made == [(ops.vfs, opened)]
    assert ops.writers == {}, "for one write"
    ops.writers[100] = in_place
    assert ops.ioctl("/x", EMPTY_WRITE, None, fi, 0, None) == 5
    assert len(made) == 2


def test_no_other_has_an_ioctl(ops):
    fi = SimpleNamespace(fh=1)
    tcgets = 0x5401
    for number, writers in ((EMPTY_WRITE, {}), (EMPTY_WRITE, {101: None})):
        ops.writers = writers
        assert code(ops.ioctl, "/x", number, None, fi, 0, None) == "ENOTTY"
    ops.writers = {100: None}
    assert code(ops.ioctl, "/x", tcgets, None, fi, 0, None) == "ENOTTY"
    assert ops.writers == {100: None}


class PipeHandle(Handle):
    def ready(self):
        return bool(self.file.lines)

    def read(self, size, offset):
        if not self.file.lines:
            raise KernelError(errno.EAGAIN, "")
        return self.file.lines.pop(0)

    def take(self, data, pos):
        self.file.lines.append(data)
        return len(data)


class MountKernel(FakeKernel):
    """Also waits and wakes."""

    on_wake = None

    def __init__(self):
        super().__init__()
        self.trace = SimpleNamespace(events=SimpleNamespace(group=lambda name: {}))

    def start(self, on_wake):
        self.on_wake = on_wake

    def call(self, *args, **more):
        result = super().call(*args, **more)
        if self.on_wake:
            self.on_wake()
        return result

    def wait(self, seconds):
        self.lock.release()
        time.sleep(seconds)
        self.lock.acquire()


def serve(mountpoint):
    """The process behind the mounts of these tests."""
    kernel = MountKernel()
    root = build(kernel)
    root.children["pipe"] = pipe = Pipe()
    pipe.mode = 0o100644
    fuse_ops.mount(kernel, root, mountpoint, lambda: print("ready", flush=True))
    print("ended", flush=True)


@pytest.fixture
def mounted(tmp_path):
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("/dev/fuse cannot be opened")
    tmp_path = tmp_path / "\u65e5\u672c"
    tmp_path.mkdir()
    script = f"from {__name__} import serve; serve({str(tmp_path)!r})"
    daemon = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    )
    assert daemon.stdout.readline() == "ready\n"
    yield SimpleNamespace(path=tmp_path, daemon=daemon)
    daemon.terminate()
    assert daemon.communicate(timeout=10)[0] == "ended\n"
    assert daemon.returncode == 0
    assert not os.path.ismount(tmp_path)


@pytest.mark.fuse
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


@pytest.mark.fuse
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


@pytest.mark.fuse
def test_names_are_bytes(mounted):
    with pytest.raises(FileNotFoundError):
        os.stat(os.fsencode(mounted.path) + b"/kprobes/\xff\xc3")
    assert mounted.path.name.startswith("\u65e5")


@pytest.mark.fuse
def test_open_with_o_trunc_and_append(mounted):
    sysctl = mounted.path / "sys/debug/kprobes-optimization"
    with open(sysctl, "ab", buffering=0) as file:
        assert file.write(b"0") == 1
    assert sysctl.read_text() == "0\n"
    with open(sysctl, "wb", buffering=0) as file:
        assert file.write(b"1 junk") == 2
    assert sysctl.read_text() == "1\n"


@pytest.mark.fuse
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


@pytest.mark.fuse
def test_a_blocked_reader_can_be_killed(mounted):
    reader = subprocess.Popen(["cat", mounted.path / "pipe"])
    time.sleep(0.3)
    assert reader.poll() is None
    reader.kill()
    assert reader.wait(timeout=5) == -9


@pytest.mark.fuse
def test_ending_with_a_blocked_reader(mounted):
    reader = subprocess.Popen(["cat", mounted.path / "pipe"], stderr=subprocess.DEVNULL)
    time.sleep(0.3)
    mounted.daemon.terminate()
    assert reader.wait(timeout=10) != 0
    assert mounted.daemon.wait(timeout=10) == 0


@pytest.mark.fuse
def test_umount_ends_the_daemon(mounted):
    umount2 = ctypes.CDLL(None).umount2
    if os.geteuid() != 0:
        pytest.skip("umount(2) is for root")
    assert umount2(os.fsencode(mounted.path), 0) == 0
    assert mounted.daemon.wait(timeout=10) == 0
