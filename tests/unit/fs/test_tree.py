# SPDX-License-Identifier: GPL-2.0-or-later
"""The common part of every Tree; fuse/test_ops.py tests the mount's side."""

import os
import stat
from types import SimpleNamespace

import pytest

from kpfs.base.fuse_wire import SetattrRequest
from kpfs.base.ktypes import KAddr, Symbol
from kpfs.fs import machine
from kpfs.fs.machine import ProbeRow
from kpfs.fs.syscall_line import Buffer
from tests.there import code
from tests.unit.backends.trees import KINDS, MAKE, child
from tests.unit.fakes import ME, FakeInfo


@pytest.fixture(params=KINDS)
def tree(request, tmp_path):
    return MAKE[request.param](tmp_path)


def look_up(tree, path):
    entry = tree.root
    for name in path.split("/"):
        entry = child(tree, entry, name)
        tree.attributes(ME.pid, entry)
    return entry


def test_names(tree):
    folder = look_up(tree, "kprobes")
    assert look_up(tree, "kprobes").key == folder.key
    assert look_up(tree, "kprobes/list").key != folder.key
    assert code(look_up, tree, "none") == "ENOENT"
    assert code(look_up, tree, "kprobes/none") == "ENOENT"
    assert code(look_up, tree, "kprobes/enabled/none") == "ENOTDIR"


def test_attributes(tree):
    found = tree.attributes(ME.pid, tree.root)
    assert found.mode == stat.S_IFDIR | 0o755
    assert found.nlink >= 2
    found = tree.attributes(ME.pid, look_up(tree, "kprobes"))
    assert stat.S_ISDIR(found.mode)
    assert (found.is_file, found.stays, found.steady) == (False, True, True)
    found = tree.attributes(ME.pid, look_up(tree, "kprobes/enabled"))
    assert (found.is_file, found.stays, found.steady) == (True, True, True)
    assert not found.constant


def test_attributes_are_changed(tree):
    entry = look_up(tree, "kprobes/enabled")
    found = tree.set_attributes(ME, entry, None, SetattrRequest(mode=0o640))
    assert stat.S_IMODE(found.mode) == 0o640
    found = tree.set_attributes(ME, entry, None, SetattrRequest(atime=-5))
    mtime = found.mtime
    assert found.atime == -5
    found = tree.set_attributes(ME, entry, None, SetattrRequest(mtime=7))
    assert mtime != 7
    assert (found.atime, found.mtime) == (-5, 7)


def test_directories(tree):
    found = dict(tree.entries(ME.pid, tree.root))
    assert stat.S_ISDIR(found["kprobes"])
    assert stat.S_ISDIR(found["machine"])
    assert stat.S_ISREG(found["version"])
    found = dict(tree.entries(ME.pid, look_up(tree, "kprobes")))
    assert set(found) == {".", "..", "list", "enabled", "blacklist"}
    assert stat.S_ISREG(found["list"])
    assert code(tree.entries, ME.pid, look_up(tree, "kprobes/list")) == "ENOTDIR"


def test_a_file_is_read_and_written(tree):
    file = tree.open(ME, look_up(tree, "kprobes/enabled"), os.O_RDWR)
    assert (file.nonseekable, file.constant, file.sleeps) == (False, False, False)
    assert tree.read(ME, file, 100, 0) == b"1\n"
    assert tree.read(ME, file, 100, 1) == b"\n"
    assert tree.write(ME, file, b"0\n", 0) == 2
    assert tree.read(ME, file, 100, 0) == b"0\n"
    assert tree.poll(ME, file, 1, None) & 1
    made = []

    def make(files, opened):
        made.append((files, opened))
        return 5

    assert tree.write_in_place(make, file) == 5
    assert [opened for _, opened in made] == [file]
    tree.release(file)


@pytest.mark.parametrize("path", ["kprobes/enabled", "machine/stats"])
def test_flags_that_fcntl_has_set(tree, path):
    file = tree.open(ME, look_up(tree, path), os.O_RDONLY)
    for flag in (os.O_NONBLOCK, os.O_APPEND, 0):
        tree.set_flags(ME, file, os.O_RDONLY | flag)
        assert file.flags == os.O_RDONLY | flag
    tree.release(file)


def test_the_size_is_where_seek_end_goes(tree):
    entry = look_up(tree, "kprobes/enabled")
    file = tree.open(ME, entry, os.O_RDONLY)
    found = tree.seek_end(ME, entry, file)
    assert found.size == tree.attributes(ME.pid, entry).size
    tree.release(file)


def test_what_cannot_be_opened(tree):
    folder = look_up(tree, "kprobes")
    assert code(tree.open, ME, folder, os.O_WRONLY) == "EISDIR"
    assert code(tree.read_link, ME.pid, look_up(tree, "kprobes/list")) == "EINVAL"


def test_poller_is_woken(tree):
    tree.start(SimpleNamespace(directories_changed=lambda: None))
    file = tree.open(ME, look_up(tree, "kprobes/enabled"), os.O_RDONLY)
    assert tree.poll(ME, file, 1, lambda: pytest.fail("it is there")) & 1
    tree.release(file)


# ---- machine/, over a kernel that says FakeInfo of itself
def read(tree, path):
    file = tree.open(ME, look_up(tree, path), os.O_RDONLY)
    try:
        return tree.read(ME, file, 4096, 0)
    finally:
        tree.release(file)


def write(tree, path, data):
    file = tree.open(ME, look_up(tree, path), os.O_WRONLY)
    try:
        return tree.write(ME, file, data, 0)
    finally:
        tree.release(file)


def info_of(tree):
    file = tree.open(ME, look_up(tree, "machine/stats"), os.O_RDONLY)
    tree.release(file)
    return file.handle.file.info


def test_the_machine_is_shown(tree):
    names = {name for name, _ in tree.entries(ME.pid, look_up(tree, "machine"))}
    assert names - {".", ".."} == {name for name, _, _ in machine.FILES}
    assert read(tree, "machine/stats") == b"syscalls 0\n"
    assert read(tree, "machine/text/vfs_read") == b"vfs_read:\n"
    assert code(look_up, tree, "machine/text/none") == "ENOENT"
    assert ("vfs_read", stat.S_IFREG) in tree.entries(
        ME.pid, look_up(tree, "machine/text")
    )
    assert code(read, tree, "machine/mounts") == "ENOENT"
    assert code(read, tree, "machine/insmod") == "EINVAL"
    assert code(write, tree, "machine/stats", b"1") == "EINVAL"


def test_probes_of_the_machine_are_a_table(tree):
    symbol = Symbol("f", KAddr(0x1000), 32, "T", "m")
    info_of(tree).rows = [
        ProbeRow(0x1004, "k", symbol, "g/e", [0, 2], 1, 0x5000, None, 3, 0),
        ProbeRow(0x9000, "r", None, "-", [7], None, 0, None, None, 12),
    ]
    head, *rows = (line.split() for line in read(tree, "machine/probes").splitlines())
    assert [word.decode() for word in head] == list(machine.COLUMNS)
    assert rows[0][2:] == [
        *(b"f+0x4:m", b"g/e", b"-,HIT_SS", b"1", b"0000000000005000", b"-", b"3", b"0")
    ]
    assert rows[1][1:] == [b"r", b"-", b"-", b"7", *[b"-"] * 4, b"12"]


def test_the_image_of_the_kernel_can_be_mapped(tree):
    entry = look_up(tree, "machine/vmlinux")
    found = tree.attributes(ME.pid, entry)
    assert (found.size, found.constant) == (len(FakeInfo.image), True)
    file = tree.open(ME, entry, os.O_RDONLY)
    assert file.constant
    assert tree.read(ME, file, 4, 1) == FakeInfo.image[1:5]
    tree.release(file)


def test_tasks_act_after_a_write(tree, tmp_path):
    (tmp_path / "m.ko").write_bytes(b"image")
    write(tree, "machine/syscall", b"getppid\nread 3 buf\n")
    write(tree, "machine/insmod", b"crc7 a=1 b=2")
    info_of(tree).host_pid = lambda task: os.getpid()
    write(tree, "machine/insmod", os.fsencode(tmp_path / "m.ko"))
    write(tree, "machine/rmmod", b"crc7")
    write(tree, "machine/reboot", b"1")
    assert info_of(tree).done == [
        (ME.pid, "getppid", []),
        (ME.pid, "read", [3, Buffer.BUF]),
        (ME.pid, "insmod_named", "crc7", b"a=1 b=2"),
        (ME.pid, "insmod", b"image", b""),
        (ME.pid, "rmmod", b"crc7"),
        ("reboot",),
    ]
    assert code(write, tree, "machine/insmod", b" ") == "EINVAL"
    assert code(write, tree, "machine/rmmod", b"two words") == "EINVAL"
