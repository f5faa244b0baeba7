# SPDX-License-Identifier: GPL-2.0-or-later
"""The numbers under which Linux asks for entries."""

import pytest

from kpfs.base.fuse_wire import ROOT
from kpfs.fs.fuse.inodes import Inodes
from tests.there import code, there


class Entry:
    def __init__(self, key):
        self.key = key


@pytest.fixture
def inodes():
    return Inodes(Entry(""))


def test_one_number_for_a_key(inodes):
    entry = Entry("events")
    found = inodes.look_up(entry)
    assert inodes.look_up(Entry("events")) is found
    assert (found.lookups, found.entry) == (2, entry)
    assert inodes[found.number] is found
    assert there(inodes.known("events")).entry is entry
    assert inodes.known("none") is None
    assert inodes.look_up(Entry("other")).number != found.number


def test_forgetting(inodes):
    number = inodes.look_up(Entry("events")).number
    inodes.look_up(Entry("events"))
    inodes.forget(number, 1)
    assert len(inodes) == 2
    inodes.forget(number, 1)
    inodes.forget(ROOT, 5)
    assert len(inodes) == 1
    assert code(inodes.__getitem__, number) == "ESTALE"
    assert inodes.look_up(Entry("events")).number != number


def test_numbers_stay_when_keys_change(inodes):
    found = inodes.look_up(Entry("old"))

    def renew(entry):
        entry.key += "+"

    inodes.renew(renew)
    assert inodes.look_up(Entry("old+")) is found
    assert inodes[ROOT].entry.key == "+"
