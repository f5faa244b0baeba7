# SPDX-License-Identifier: GPL-2.0-or-later
"""Operations of FUSE, as libfuse calls them, without a mount."""

import errno
import logging
import os
import sys
from types import SimpleNamespace

import pytest

from kpfs.engine.errors import KernelError
from kpfs.fs.files.tree import build
from kpfs.fs.fuse import ops as fuse_ops
from kpfs.fs.fuse.ops import GETATTR, LOOKUP, LOOKUP_SIZE, Operations, answer
from kpfs.fs.vfs import EMPTY_WRITE
from tests.there import code, stand_in
from tests.unit.fakes import FakeKernel

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
    kernel = stand_in(FakeKernel())
    kernel.trace = SimpleNamespace(events=SimpleNamespace(group=lambda name: {}))
    return Operations(
        kernel, build(kernel), Libfuse(), stand_in(FakeLoop()), lambda: None
    )


def info(flags=os.O_RDWR, lock_owner=1):
    return SimpleNamespace(flags=flags, fh=0, nonseekable=0, lock_owner=lock_owner)


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


def test_a_write_of_a_thread_that_stands_for_another(ops):
    ops.files[1] = opened = SimpleNamespace(vfs=ops.vfs)
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
