# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests kpfs.base.mapping."""

import errno
import gc
import mmap
import os
import resource

import pytest

from kpfs.base import mapping
from kpfs.base.errors import SetupError


def test_memory_is_unmapped_though_views_are_held():
    memory, other = mapping.make(1 << 20), mapping.make(4096)
    views = [memoryview(memory), memoryview(memory)[8:24].cast("Q")]
    circle: list[object] = [views]
    circle.append(circle)
    kept = memoryview(other)
    mapping.unmap(memory)
    assert memory.closed
    for view in views:
        with pytest.raises(ValueError, match="released"):
            view[0]
    kept[0] = 7
    assert other[0] == 7


def test_memory_without_views():
    memory = [mapping.make(4096) for _ in range(2)]
    mapping.unmap(*memory)
    assert all(one.closed for one in memory)
    mapping.unmap(*memory)


def test_a_view_that_the_collector_does_not_know():
    memory = mapping.make(4096)
    view = memoryview(memory)
    memory[0] = 7
    gc.freeze()
    try:
        mapping.unmap(memory)
    finally:
        gc.unfreeze()
    assert view[0] == 0
    mapping.unmap(memory)
    gc.freeze()  # the tests, as they were
    assert memory.closed


def test_a_known_view_is_found_without_a_look_at_all_objects(monkeypatch):
    memory, other = mapping.make(4096), mapping.make(4096)
    views = [mapping.known(memoryview(memory)[at:].cast("B")) for at in (0, 8)]
    kept = mapping.known(memoryview(other))
    with monkeypatch.context() as patch:
        patch.setattr(gc, "get_objects", lambda: pytest.fail("they are looked at"))
        mapping.unmap(memory)
    assert memory.closed
    for view in views:
        with pytest.raises(ValueError, match="released"):
            view[0]
    kept[0] = 7
    assert other[0] == 7


def test_a_view_that_has_ended_is_not_known():
    memory, before = mapping.make(4096), len(mapping._known)
    mapping.known(memoryview(memory))
    assert len(mapping._known) == before
    mapping.unmap(memory)


def test_no_room(monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(mmap, "mmap", refuse)
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (1 << 30, 1 << 30))
    with pytest.raises(SetupError, match=r"no room for 4194304 MiB.*ulimit -v is"):
        mapping.make(1 << 42)


def test_a_file_is_mapped_privately(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"a" * 4096)
    with open(path, "rb") as file:
        memory = mapping.make(4096, mmap.MAP_PRIVATE, file.fileno())
    memory[:1] = b"b"
    mapping.unmap(memory)
    assert path.read_bytes() == b"a" * 4096
