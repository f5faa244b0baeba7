# SPDX-License-Identifier: GPL-2.0-or-later
"""Entries of debugfs that the guest reports, and the listeners to them."""

import os
import stat
from types import SimpleNamespace

import pytest

from kpfs.backends.guest.root.debugfs import DebugFs, links_in
from kpfs.base import abi
from kpfs.base.errors import KernelError
from tests.fake import FakeMachine
from tests.there import stand_in

DIR, FILE = stat.S_IFDIR | 0o755, stat.S_IFREG | 0o640


@pytest.fixture
def guest():
    machine = stand_in(FakeMachine())
    machine.calls = {}
    machine.control = SimpleNamespace(
        register=lambda numbers, serve: machine.calls.update(
            dict.fromkeys(numbers, serve)
        )
    )
    return machine


def add(guest, dentry, name, mode, parent=0):
    """Report an entry as the guest's debugfs_create_dir() and _create_file() do."""
    at = guest.area.alloc_data(64 + len(name))
    guest.write(at + 64, name.encode() + b"\0")
    row = abi.KpfsDebugfs.STRUCT.pack(dentry, parent, mode, at + 64)
    guest.write(at, row)
    number = abi.CTL_DEBUGFS_ADD
    return guest.calls[number](number, at, 0)


def remove(guest, dentry):
    number = abi.CTL_DEBUGFS_REMOVE
    return guest.calls[number](number, dentry, 0)


def test_entries_come_and_go(guest):
    told = []
    debugfs = DebugFs(guest, lambda *what: told.append(what))
    assert add(guest, 0x10, "mine", DIR) == 0
    add(guest, 0x20, "hits", FILE, 0x10)
    mine = debugfs.root.children["mine"]
    assert mine.is_dir
    assert [(e.name, e.mode) for e in mine.children.values()] == [("hits", FILE)]
    remove(guest, 0x20)
    assert not mine.children
    remove(guest, 0x10)
    assert not debugfs.root.children
    assert told == [("mine", True), ("mine", False)]


def test_what_is_not_known(guest):
    debugfs = DebugFs(guest, lambda *_: None)
    remove(guest, 0x99)
    with pytest.raises(KernelError):
        add(guest, 0x20, "hits", FILE, 0x77)
    remove(guest, 0)  # the root stays
    assert not debugfs.root.children
    add(guest, 0x30, "still", DIR)
    assert list(debugfs.root.children) == ["still"]


def test_links_for_the_names_of_the_root(tmp_path):
    show = links_in(str(tmp_path), "/there/debug")
    show("mine", True)
    assert os.readlink(tmp_path / "mine") == "/there/debug/mine"
    show("mine", True)  # there already: not worth a word
    show("mine", False)
    show("mine", False)
    show("no/file", True)
    assert not os.listdir(tmp_path)
