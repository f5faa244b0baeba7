# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes to the mount's files: what is read of the caller, and where they go."""

import ctypes
import os
import stat
import threading

import pytest

from kpfs.backends.guest.vfs import Vfs
from kpfs.base import syscall_numbers as nr
from kpfs.base.ktypes import Caller
from kpfs.fs.node import Dir, File
from kpfs.fs.seqfile import WHOLE_MAX, SeqFile, ValueFile
from kpfs.fs.tree import EMPTY_WRITE
from kpfs.mirror import write
from kpfs.mirror.host import Host, MountPlace
from kpfs.mirror.seccomp import Notification
from kpfs.mirror.write import SEGMENTS_MAX
from tests.there import stand_in, there
from tests.unit.fakes import FakeKernel, writing

ME = Caller(os.getpid(), 0, 0)


# ---- the caller's side
@pytest.fixture
def host():
    yield (host := Host([]))
    host.close()


@pytest.fixture
def read_call(host):
    """Return what is read about a call of this process."""

    def read_call(nr, *args):
        words = (*args, 0, 0, 0, 0, 0, 0)[:6]
        return write.read_call(host, Notification(1, os.getpid(), nr, words))

    return read_call


def test_written_bytes_are_in_the_callers_memory(read_call):
    text = ctypes.create_string_buffer(b"0123456789")
    at = ctypes.addressof(text)
    assert read_call(nr.WRITE, 3, at, 4)[:3] == ("write", b"0123", [4])
    assert read_call(nr.WRITE, 3, at, 0)[:2] == ("write", b"")
    assert read_call(nr.WRITE, 3, 0, 0).data == b""
    assert read_call(nr.PWRITE64, 3, at, 2, 7) == ("pwrite64", b"01", [2], 7)
    assert read_call(nr.PWRITE64, 3, at, 2, 2**64 - 1).pos == -1


def test_segments(read_call):
    text = ctypes.create_string_buffer(b"0123456789")
    at = ctypes.addressof(text)
    words = (ctypes.c_uint64 * 6)(at + 5, 2, 0, 0, at, 1)
    vector = ctypes.addressof(words)
    assert read_call(nr.WRITEV, 3, vector, 3)[:3] == ("writev", b"560", [2, 0, 1])
    assert read_call(nr.WRITEV, 3, vector, 0)[:3] == ("writev", b"", [])
    assert read_call(nr.WRITEV, 3, 8, 1) is None
    assert read_call(nr.WRITEV, 3, vector, SEGMENTS_MAX + 1) is None


def test_unreadable_or_long_calls_go_on(read_call):
    text = ctypes.create_string_buffer(WHOLE_MAX + 1)
    at = ctypes.addressof(text)
    assert read_call(nr.WRITE, 3, 16, 5) is None
    assert len(read_call(nr.WRITE, 3, at, WHOLE_MAX).data) == WHOLE_MAX
    assert read_call(nr.WRITE, 3, at, WHOLE_MAX + 1) is None
    assert read_call(nr.WRITE, 3, at, 2**64 - 1) is None


def take(fd, *, device=None, pid=None):
    """take_writable() of a descriptor of ours, where the mount has that device."""
    device = os.stat("/dev").st_dev if device is None else device
    return Host([MountPlace("/none", device)]).take_writable(pid or os.getpid(), fd)


@pytest.fixture
def scratch(tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    return path, path.stat().st_dev


def test_a_duplicate_shares_the_position(scratch):
    path, device = scratch
    fd = os.open(path, os.O_RDWR)
    copy = take(fd, device=device)
    assert copy not in (-1, fd)
    assert not os.get_inheritable(copy)
    os.lseek(copy, 5, os.SEEK_SET)
    assert os.lseek(fd, 0, os.SEEK_CUR) == 5
    os.close(fd)
    os.close(copy)


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_PATH])
def test_not_to_be_written_to(scratch, flags):
    path, device = scratch
    before = os.listdir("/proc/self/fd")
    fd = os.open(path, flags)
    assert take(fd, device=device) == -1
    os.close(fd)
    assert os.listdir("/proc/self/fd") == before


def test_not_the_mounts(scratch):
    path, device = scratch
    fd = os.open(path, os.O_WRONLY)
    assert take(fd, device=device + 1) == -1
    assert take(900, device=device) == -1
    assert take(fd, device=device, pid=1 << 22) == -1
    os.close(fd)


def test_a_descriptor_of_a_thread(scratch):
    path, device = scratch
    fd = os.open(path, os.O_WRONLY)
    ready, end = threading.Event(), threading.Event()

    def until_the_end():
        ready.set()
        end.wait()

    thread = threading.Thread(target=until_the_end)
    thread.start()
    ready.wait()
    try:
        os.close(os.pidfd_open(there(thread.native_id), os.O_EXCL))
    except OSError:
        pytest.skip("PIDFD_THREAD needs Linux 6.9")
    else:
        copy = take(fd, device=device, pid=thread.native_id)
        assert copy >= 0
        os.close(copy)
    finally:
        end.set()
        thread.join()
        os.close(fd)


# ---- a mix of both ways
class Text(SeqFile):
    write_moves = 0
    text = "0123456789"

    def show(self):
        return self.text

    def store(self, data):
        return len(data)


def test_a_position_that_fuse_moved_is_put_right():
    kernel, root = stand_in(FakeKernel()), Dir()
    root.children["text"] = node = Text()
    node.mode = stat.S_IFREG | 0o600
    vfs = Vfs(kernel, root)
    opened = vfs.open(ME, "/text", os.O_RDWR)
    vfs.read(ME, opened, 2, 0)
    vfs.write(ME, opened, b"xyz", 2)  # leaves FUSE at 5, the kernel at 2
    assert vfs.write_call(ME, opened, writing("write", b"xyz"), 5) == (3, 2)
    assert vfs.read(ME, opened, 2, 2) == b"23"


@pytest.mark.parametrize(
    ("kind", "reader", "writer"), [(SeqFile, False, False), (ValueFile, True, True)]
)
def test_may_pwrite(kind, reader, writer):
    file = kind()
    assert (file.may_pwrite(os.O_RDWR), file.may_pwrite(os.O_WRONLY)) == (
        reader,
        writer,
    )
    file.seq_for_writers = False
    assert not file.may_pwrite(os.O_RDWR) or reader
    assert file.may_pwrite(os.O_WRONLY)


def test_a_file_without_a_position():
    class Stream(File):
        nonseekable = True

    assert not Stream().may_pwrite(os.O_WRONLY)


def test_the_ioctl_has_no_data_and_is_nobody_elses():
    assert EMPTY_WRITE >> 30 == 0
    assert EMPTY_WRITE & 0xFF == 0
    assert chr(EMPTY_WRITE >> 8) == "k"
