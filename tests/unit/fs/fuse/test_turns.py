# SPDX-License-Identifier: GPL-2.0-or-later
"""The order in which requests are served that have been received: kpfs.fs.fuse.turns"""

import pytest

from kpfs.base.fuse_wire import Opcode
from kpfs.fs.fuse.turns import Turns


@pytest.fixture
def turns():
    return Turns()


def taken(turns):
    """Take all that wait."""
    found = []
    while turns.count:
        found.append(turns.take())
    return found


def test_order_is_that_of_receipt(turns):
    for number in range(4):
        turns.add(Opcode.LOOKUP, number)
    assert taken(turns) == [0, 1, 2, 3]


@pytest.mark.parametrize("opcode", [Opcode.WRITE, Opcode.MKDIR, Opcode.SETATTR])
def test_a_locked_inode_is_given_back_first(turns, opcode):
    turns.add(Opcode.LOOKUP, "lookup")
    turns.add(opcode, "locking")
    assert list(turns) == ["locking", "lookup"]
    assert taken(turns) == ["locking", "lookup"]


def test_others_have_every_second_place(turns):
    for number in range(3):
        turns.add(Opcode.READ, f"read {number}")
        turns.add(Opcode.WRITE, f"write {number}")
    assert taken(turns) == [
        *("write 0", "read 0", "write 1", "read 1", "write 2", "read 2")
    ]


def test_nothing_overtakes_a_close(turns):
    turns.add(Opcode.WRITE, "write")
    turns.add(Opcode.OPEN, "open")
    turns.add(Opcode.RELEASE, "close")
    turns.add(Opcode.RELEASE, "another close")
    assert taken(turns) == ["close", "another close", "write", "open"]
