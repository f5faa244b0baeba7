# SPDX-License-Identifier: GPL-2.0-or-later
"""A Linux kernel's tree; ../test_tree.py has what all trees do."""

import os
import stat
from types import SimpleNamespace

import pytest

from kpfs.backends.linux.tree import guest_path
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


def test_pollers_are_woken_when_their_task_does_not_wait(tree):
    (tree.kernel.top_folder / "dev").mkdir()
    os.mkfifo(tree.kernel.top_folder / "dev/kmsg")
    woken = []
    file = tree.open(ME, child(tree, tree.root, "kmsg"), os.O_RDWR)
    assert file.nonseekable
    assert tree.poll(ME, file, 1, lambda: woken.append(True)) == 0
    tree.start(SimpleNamespace(directories_changed=lambda: None))
    tree.kernel.on_wake()
    assert not woken
    tree.kernel.known[ME.pid].waits = False
    tree.kernel.on_wake()
    assert woken
    tree.release(file)
