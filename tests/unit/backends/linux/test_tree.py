# SPDX-License-Identifier: GPL-2.0-or-later
"""A Linux kernel's tree; ../test_tree.py has what all trees do.

This also tests kpfs.linux.running.poll_watcher.
"""

import fcntl
import os
import select
import stat
from types import SimpleNamespace

import pytest

from kpfs.backends.linux.tree import guest_path
from kpfs.base import syscall_numbers as nr
from tests.there import code
from tests.unit.backends.trees import child, linux_tree
from tests.unit.fakes import ME


@pytest.fixture
def tree(tmp_path):
    return linux_tree(tmp_path)


@pytest.fixture
def folder(tree):
    return child(tree, tree.root, "kprobes")


def test_where_paths_lead():
    assert guest_path("/tracing/trace") == b"/sys/kernel/tracing/trace\0"
    assert guest_path("version") == b"/proc/version\0"
    assert code(guest_path, "none") == "ENOENT"
    assert code(guest_path, "machine/none") == "EPERM"


def names(tree, folder):
    return {name for name, _ in tree.entries(ME.pid, folder)}


def test_names_change(tree, folder):
    tree.mkdir(ME, folder, "new", 0o700)
    tree.mknod(ME, folder, "node", stat.S_IFREG | 0o600, 0)
    tree.symlink(ME, folder, "symlink", b"to")
    tree.link(ME, folder, "link", child(tree, folder, "node"))
    assert {"new", "node", "symlink", "link"} <= names(tree, folder)
    assert tree.read_link(ME.pid, child(tree, folder, "symlink")) == b"to"
    assert tree.attributes(ME.pid, child(tree, folder, "link")).nlink == 2
    tree.rename(ME, folder, "link", child(tree, folder, "new"), "there")
    new = child(tree, folder, "new")
    assert "there" in names(tree, new)
    assert code(tree.rmdir, ME, folder, "new") == "ENOTEMPTY"
    tree.unlink(ME, new, "there")
    tree.rmdir(ME, folder, "new")
    file = tree.create(ME, folder, "file", os.O_RDWR, 0o600)
    assert tree.write(ME, file, b"text", 0) == 4
    tree.release(file)
    assert tree.attributes(ME.pid, child(tree, folder, "file")).size == 4


def test_a_path_lasts_once_directories_are_as_they_were_made(tree, folder):
    tree.kernel.directories = SimpleNamespace(as_made=False)
    entry = child(tree, folder, "list")
    assert not tree.attributes(ME.pid, entry).stays
    tree.kernel.directories = SimpleNamespace(as_made=True)
    assert tree.attributes(ME.pid, entry).stays
    tree.kernel.directories = SimpleNamespace(as_made=False)
    assert tree.attributes(ME.pid, entry).stays


def test_a_rebooted_machine_has_no_open_files(tree, folder):
    file = tree.open(ME, child(tree, folder, "enabled"), os.O_RDONLY)
    tree.kernel.machine = SimpleNamespace(dead="")
    assert code(tree.read, ME, file, 10, 0) == "ESHUTDOWN"
    tree.release(file)
    assert not tree.files.opened


@pytest.fixture
def pipe(tree):
    """A file that waits: a pipe at the place of a device; and what writes to it."""
    (tree.kernel.top_folder / "dev").mkdir()
    place = tree.kernel.top_folder / "dev/kmsg"
    os.mkfifo(place)
    tree.start(SimpleNamespace(directories_changed=lambda: None))
    file = tree.open(ME, child(tree, tree.root, "kmsg"), os.O_RDWR)
    assert file.nonseekable
    yield SimpleNamespace(file=file, write=place.write_bytes)
    if file in tree.files.opened:
        tree.release(file)


def test_flags_that_fcntl_has_set_are_those_of_the_kernels_file(tree, pipe):
    poll(tree, pipe.file, [])
    for flags in (os.O_RDWR | os.O_NONBLOCK, os.O_RDWR):
        tree.set_flags(ME, pipe.file, flags)
        found = {fcntl.fcntl(fd, fcntl.F_GETFL) for fd in pipe.file.fds.values()}
        assert {each & nr.SETFL_MASK for each in found} == {flags & os.O_NONBLOCK}
        assert pipe.file.flags == flags
        if flags & os.O_NONBLOCK:
            assert code(tree.read, ME, pipe.file, 10, 0) == "EAGAIN"


def poll(tree, file, woken, name="woken"):
    return tree.poll(ME, file, select.POLLIN, lambda: woken.append(name))


def test_a_poller_is_woken_by_each_thing_that_happens(tree, pipe):
    woken: list[str] = []
    assert poll(tree, pipe.file, woken) == 0
    for _ in range(2):  # with and without something to read: EPOLLET needs both
        tree.kernel.on_wake()
        assert not woken
        pipe.write(b"x")
        tree.kernel.finish()
        assert woken == ["woken"]
        tree.kernel.on_wake()
        woken.clear()
        assert poll(tree, pipe.file, woken) == select.POLLIN


def test_what_was_there_before_is_no_news(tree, pipe):
    woken: list[str] = []
    pipe.write(b"x")
    assert poll(tree, pipe.file, woken) == select.POLLIN
    assert tree.kernel.waiting == 1
    assert not woken


def test_who_was_told_asks_again(tree, pipe):
    """A file is no longer watched if nobody has asked for it since."""
    woken: list[str] = []
    poll(tree, pipe.file, woken)
    other = tree.open(ME, child(tree, tree.root, "kmsg"), os.O_RDWR)
    poll(tree, other, woken, "other")
    pipe.write(b"x")
    tree.kernel.finish()
    assert sorted(woken) == ["other", "woken"]
    assert tree.kernel.waiting == 0
    woken.clear()
    for _ in range(2):
        assert poll(tree, pipe.file, woken) == select.POLLIN
        pipe.write(b"x")
        tree.kernel.finish()
    assert woken == ["woken", "woken"]
    tree.release(other)


def test_a_closed_file_leaves_the_task_that_waits(tree, pipe):
    before = len(os.listdir("/proc/self/fd"))
    woken: list[str] = []
    other = tree.open(ME, child(tree, tree.root, "kmsg"), os.O_RDWR)
    for file in (other, pipe.file):
        assert poll(tree, file, woken) == 0
    tree.release(other)
    assert tree.kernel.waiting == 1
    tree.release(pipe.file)
    assert tree.kernel.waiting == 0
    # the instance of epoll stays, the pipe is closed
    assert len(os.listdir("/proc/self/fd")) == before
    assert not woken


def test_a_file_that_never_waits(tree, folder):
    woken: list[str] = []
    file = tree.open(ME, child(tree, folder, "enabled"), os.O_RDONLY)
    for _ in range(2):
        assert poll(tree, file, woken) == select.POLLIN
    assert tree.kernel.waiting == 0
    tree.release(file)


@pytest.mark.parametrize("how", ["lost", "dead", "rebooted"])
def test_pollers_ask_again_when_the_task_that_waits_is_gone(tree, pipe, how):
    woken: list[str] = []
    poll(tree, pipe.file, woken)
    kernel, machine = tree.kernel, tree.kernel.machine
    for task in kernel.free_all():
        task.gone = how == "lost"
    machine.dead = "dead" if how == "dead" else ""
    if how == "rebooted":
        kernel.machine = SimpleNamespace(dead="")
        kernel.on_reboot()
    kernel.on_wake()
    assert woken == ["woken"]
    if how == "lost":
        assert poll(tree, pipe.file, woken) == 0
        pipe.write(b"x")
        kernel.finish()
        assert woken == ["woken", "woken"]
