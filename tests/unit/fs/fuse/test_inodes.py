# SPDX-License-Identifier: GPL-2.0-or-later
"""The numbers under which Linux asks for nodes."""

import pytest

from kpfs.fs.fuse.inodes import Inodes
from kpfs.fs.fuse.proto import ROOT
from kpfs.fs.node import Dir, DynDir, File
from tests.there import code, stand_in


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
def inodes(events):
    root = Dir()
    root.children["events"] = events
    return Inodes(root)


def test_one_number_for_a_node(inodes):
    found = inodes.look_up(ROOT, "events")
    assert inodes.look_up(ROOT, "events") is found
    assert (found.lookups, found.path, found.fixed) == (2, "/events", True)
    assert inodes[found.number] is found


def test_what_may_vanish(inodes, events):
    number = inodes.look_up(ROOT, "events").number
    foo = inodes.look_up(number, "foo")
    enable = inodes.look_up(foo.number, "enable")
    assert (foo.fixed, enable.fixed) == (False, True)
    assert enable.check() is enable.node
    events.there.clear()
    assert code(enable.check) == "ENOENT"
    assert code(foo.directory) == "ENOENT"
    assert code(inodes.look_up, foo.number, "enable") == "ENOENT"


def test_what_comes_again_is_another(inodes, events):
    number = inodes.look_up(ROOT, "events").number
    foo = inodes.look_up(number, "foo")
    events.there["foo"] = object()
    assert inodes.look_up(number, "foo").number != foo.number
    assert code(foo.check) == "ENOENT"
    inodes.forget(foo.number, 1)
    assert inodes.look_up(number, "foo").check()


def test_forgetting(inodes):
    number = inodes.look_up(ROOT, "events").number
    inodes.forget(number, 1)
    assert len(inodes) == 1
    assert code(inodes.__getitem__, number) == "ESTALE"
    inodes.forget(number, 1)
    inodes.forget(ROOT, 5)
    assert inodes[ROOT].directory()
