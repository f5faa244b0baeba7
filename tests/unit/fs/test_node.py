# SPDX-License-Identifier: GPL-2.0-or-later
"""Trees of nodes, and what open files make of show() and store()."""

import errno
import os
import stat

import pytest

from kpfs.base.errors import KernelError
from kpfs.fs.node import Dir, DynDir, File, Node, OpenHandle, encode, walk
from kpfs.fs.seqfile import MAX_WRITE, WHOLE_MAX, SeqFile, Sysctl, whole_lines
from kpfs.fs.traits import Constant, Sleeping
from tests.there import code, dir_at, stand_in
from tests.unit.fakes import Value


class Letters(DynDir):
    def entry(self, name):
        return File() if name in "abc" else None

    def entries(self):
        return "abc"


@pytest.fixture
def root():
    top, sub = Dir(), Letters(stand_in(None))
    top.children["sub"] = sub
    sub.children["fixed"] = File()
    return top


def test_walk(root: Dir):
    assert walk(root, "/") is root
    assert isinstance(walk(root, "/sub/b"), File)
    sub = dir_at(root, "/sub")
    assert walk(root, "/sub/fixed") is sub.children["fixed"]
    assert list(sub.names()) == ["fixed", "a", "b", "c"]
    assert code(walk, root, "/sub/d") == "ENOENT"
    assert code(walk, root, "/sub/b/x") == "ENOTDIR"


def test_attributes_stick():
    node = File()
    node.mode = stat.S_IFREG | 0o400
    node.chmod(0o100644)
    node.chown(5, -1)
    node.truncate(10)
    assert (node.mode, node.uid, node.gid, node.size) == (0o100644, 5, None, 10)


def test_a_file_without_methods_refuses_both():
    handle = File().open(os.O_RDWR)
    for operation in (lambda: handle.read(1, 0), lambda: handle.write(b"x", 0)):
        assert code(operation) == "EINVAL"


def test_o_trunc_resets_the_size_unless_refused():
    class Busy(File):
        def opened(self, flags):
            raise KernelError(errno.EBUSY, "")

    file, busy = File(), Busy()
    file.size = busy.size = 7
    file.open(os.O_WRONLY | os.O_TRUNC)
    with pytest.raises(KernelError):
        busy.open(os.O_WRONLY | os.O_TRUNC)
    assert (file.size, busy.size) == (0, 7)


def test_text_is_bytes_in_the_kernel():
    assert encode("a\xff") == b"a\xff"
    assert encode(b"\x80") == b"\x80"
    assert Node().blksize == 4096


# ---- kinds of files


class Counter(SeqFile):
    """Shows how often it was asked, then what was written."""

    write_moves = 0
    text = "0123456789"
    shown = 0
    written = b""

    def show(self):
        self.shown += 1
        return f"{self.shown}{self.text}{self.written.decode()}"

    def store(self, data):
        self.written += data


class Number(Sysctl):
    value = 1

    def get(self):
        return self.value

    def set(self, value):
        self.value = value


class Fuse:
    """Keeps the file position as FUSE does."""

    def __init__(self, file, flags=os.O_RDWR):
        self.handle = file.open(flags)
        self.pos = 0

    def read(self, size, at=None):
        offset = self.pos if at is None else at
        data = self.handle.read(size, offset)
        if at is None:
            self.pos += len(data)
            self.handle.moved(offset, len(data))
        return data

    def write(self, data):
        taken = self.handle.write(data, self.pos)
        self.handle.moved(self.pos, taken)
        self.pos += taken
        return taken


def test_seq_file_keeps_one_text_until_a_seek():
    file = Counter()
    fd = Fuse(file)
    assert fd.read(3) == b"101"
    file.text = "changed"
    assert fd.read(100) == b"23456789"
    assert fd.read(100) == b""
    fd.pos = 0
    assert fd.read(100) == b"2changed"
    fd.pos = 1
    assert fd.read(100) == b"changed"
    assert file.shown == 3


def test_a_growing_file_goes_on_after_its_end():
    class Events(SeqFile):
        grows = True
        text = "a\nb\n"

        def show(self):
            return self.text

    file = Events()
    fd = Fuse(file)
    assert fd.read(100) == b"a\nb\n"
    file.text = "A\nB\nc\n"
    assert fd.read(100) == b"c\n"
    assert fd.read(100) == b""


def test_seq_file_knows_no_end():
    assert code(Fuse(Counter()).handle.seek_end) == "EINVAL"


def test_value_whose_write_leaves_the_position():
    class Still(Value):
        write_moves = 0

    fd = Fuse(Still())
    assert fd.read(1) == b"1"
    fd.write(b"0")
    assert fd.read(9) == b"\n"


def test_appending_goes_on_from_the_position():
    file = Number()
    fd = Fuse(file, os.O_RDWR | os.O_APPEND)
    fd.pos = 1 << 20  # what FUSE takes for the end of the file
    assert fd.write(b"0") == 1
    assert file.value == 0
    fd.pos = 1 << 20
    assert fd.write(b"1") == 1
    assert file.value == 0
    assert fd.read(9) == b""
    fd.pos = 0
    assert fd.read(9) == b"0\n"


def test_writes_cut_by_fuse_end_with_a_line():
    assert whole_lines(b"p:a x\np:b y") == b"p:a x\np:b y"
    for size in (MAX_WRITE, WHOLE_MAX + 1):
        data = (b"line\n" * size)[:size]
        assert whole_lines(data) == data[: size // 5 * 5]
    data = (b"line\n" * WHOLE_MAX)[:WHOLE_MAX]
    assert whole_lines(data) == data
    assert whole_lines(b"x" * MAX_WRITE) == b"x" * MAX_WRITE


def test_an_open_file_says_what_its_file_is():
    class Kept(File, Constant, Sleeping):
        """A file with both."""

    for kind, both in ((File, False), (Kept, True)):
        opened = OpenHandle(kind().open(os.O_RDONLY))
        assert (opened.constant, opened.sleeps) == (both, both)
