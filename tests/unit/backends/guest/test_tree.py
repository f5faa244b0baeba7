# SPDX-License-Identifier: GPL-2.0-or-later
"""Entries of the guest kernel's tree; ../test_tree.py has what all trees do."""

import pytest

from kpfs.backends.guest.tree import GuestTree
from kpfs.fs.node import Dir, DynDir, File, ProcSysDir
from tests.there import code, stand_in
from tests.unit.backends.trees import child
from tests.unit.fakes import ME, FakeKernel


class Events(DynDir):
    """A directory for each of ``there``, with a file in it."""

    def __init__(self):
        super().__init__(stand_in(None))
        self.there = {"foo": object()}

    def entry(self, name):
        return self.keep(name, self.there.get(name), lambda _: self.made())

    @staticmethod
    def made():
        folder = Dir()
        folder.add("enable", 0o644, File())
        return folder


@pytest.fixture
def events():
    return Events()


@pytest.fixture
def tree(events):
    return GuestTree(stand_in(FakeKernel()), root_with(events))


def root_with(events):
    root = Dir()
    root.children["events"] = events
    return root


def look_up(tree, *names):
    entry = tree.root
    for name in names:
        entry = child(tree, entry, name)
    return entry


def test_what_may_vanish(tree, events):
    found = look_up(tree, "events")
    assert (found.path, found.fixed, found.permanent) == ("/events", True, True)
    foo = look_up(tree, "events", "foo")
    enable = child(tree, foo, "enable")
    assert (foo.fixed, enable.fixed) == (False, True)
    assert not foo.permanent
    assert not enable.permanent
    assert tree.attributes(ME.pid, enable).stays
    assert not tree.attributes(ME.pid, enable).steady
    events.there.clear()
    assert code(enable.check) == "ENOENT"
    assert code(foo.directory) == "ENOENT"
    assert code(child, tree, foo, "enable") == "ENOENT"
    assert code(tree.attributes, ME.pid, enable) == "ENOENT"


def test_new_file_of_an_old_name(tree, events):
    foo = look_up(tree, "events", "foo")
    assert look_up(tree, "events", "foo").key is foo.key
    events.there["foo"] = object()
    again = look_up(tree, "events", "foo")
    assert again.key is not foo.key
    assert code(foo.check) == "ENOENT"
    assert again.check()


def test_another_kernel(tree):
    events, foo = look_up(tree, "events"), look_up(tree, "events", "foo")
    tree.vfs.root = root_with(Events())
    tree.renew(events)
    assert events.check() is tree.vfs.root.children["events"]
    events.node.there.clear()
    tree.renew(foo)
    assert code(foo.check) == "ENOENT"


def test_a_directory_has_a_link_for_each_one_in_it():
    folder = Dir()
    folder.add("enable", 0o644, File())
    assert folder.nlink == 2
    folder.add("kprobes", 0o40755, Dir())
    assert folder.nlink == 3
    assert ProcSysDir().nlink == File().nlink == 1
