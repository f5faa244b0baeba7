# SPDX-License-Identifier: GPL-2.0-or-later
"""The mount table, and as tools are to see it."""

import os
from functools import partial
from types import SimpleNamespace

import pytest

from kpfs.fs.machine import Mounts
from kpfs.host import mounts
from kpfs.host.mounts import (
    MountEntry,
    as_linux_shows,
    provide_in_root,
    serves,
    shown_table,
    table,
    where_now,
)
from tests.there import stand_in

FLAGS = "rw,nosuid,nodev,relatime"
FUSE = f"fuse.kpfs {FLAGS},user_id=0,group_id=0,default_permissions 0 0"
TABLE = f"""\
proc /proc proc rw,relatime 0 0
sysfs /sys sysfs rw,relatime 0 0
kpfs:8 /home/tracefs/m {FUSE}
none /with\\040blank tmpfs rw 0 0
debugfs /sys/kernel/debug tmpfs {FLAGS},mode=700 0 0
kpfs:7 /sys/kernel/debug/kpfs {FUSE}
kpfs:7 /sys/kernel/debug/tracing {FUSE}
kpfs:7 /sys/kernel/tracing {FUSE}
kpfs:7 /proc/kallsyms {FUSE}
devtmpfs /sys/kernel/notes devtmpfs rw 0 0
"""
SHOWN = f"""\
proc /proc proc rw,relatime 0 0
sysfs /sys sysfs rw,relatime 0 0
debugfs /sys/kernel/debug debugfs {FLAGS} 0 0
tracefs /sys/kernel/tracing tracefs {FLAGS} 0 0
tracefs /sys/kernel/debug/tracing tracefs {FLAGS} 0 0
kpfs:8 /home/tracefs/m {FUSE}
none /with\\040blank tmpfs rw 0 0
"""


def test_parts_of_the_tree_have_their_types():
    assert as_linux_shows(TABLE, "kpfs:7") == SHOWN


def test_a_table_without_the_tree_is_left_as_it_is():
    table = "".join(TABLE.splitlines(keepends=True)[:4])
    assert as_linux_shows(table, "kpfs:7") == table
    assert as_linux_shows("", "kpfs:7") == ""


def test_the_mount_table_is_that_of_the_opener():
    info = SimpleNamespace(mount_table=partial(shown_table, source="kpfs:0"))
    handle = Mounts(stand_in(info)).open(os.O_RDONLY, os.getpid())
    with open("/proc/self/mounts", "rb") as table:
        expected = table.read()
    assert handle.read(len(expected) + 1, 0) == expected


def test_paths_that_need_no_provision(tmp_path):
    """A needless mount would be refused, or be seen in the table."""
    there = tmp_path / "there"
    there.mkdir()

    def make(path):
        raise AssertionError(path)

    before = list(table())
    provide_in_root(str(there), make)
    provide_in_root(str(tmp_path / "no/such"), make)
    assert list(table()) == before


OURS = MountEntry(43, 40, "/tmp/m", "fuse.kpfs", "kpfs:7")


@pytest.mark.parametrize(
    "others",
    [
        {"source": "kpfs:8"},  # the next daemon's
        {"device": 41},  # that of one in another pid namespace
        {"ident": 44},  # bound elsewhere
    ],
)
def test_a_mount_that_has_gone_is_not_another(monkeypatch, others):
    """Linux gives its ident to the next mount."""
    monkeypatch.setattr(mounts, "table", lambda: iter([OURS._replace(**others)]))
    assert where_now(OURS) is None


def test_a_mount_is_found_where_it_was_moved_to(monkeypatch):
    moved = OURS._replace(target="/tmp/new/m")
    monkeypatch.setattr(mounts, "table", lambda: iter([moved]))
    assert where_now(OURS) == moved


@pytest.mark.fuse
def test_an_open_fuse_device_does_not_serve_other_mounts(tmp_path):
    assert not serves(os.getpid(), OURS)
    device = os.open("/dev/fuse", os.O_RDWR)  # not a mount's
    try:
        with open(f"/proc/self/fdinfo/{device}") as info:
            if "fuse_connection" in info.read():
                assert not serves(os.getpid(), OURS)
            else:
                assert serves(os.getpid(), OURS)
    finally:
        os.close(device)
    assert not serves(1 << 30, OURS)  # there is no such process
