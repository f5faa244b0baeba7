# SPDX-License-Identifier: GPL-2.0-or-later

import fcntl
import os

import pytest

from kpfs.linux.store import image, store
from kpfs.linux.store import kept as kept_file
from kpfs.linux.store.kept import KeptFile

PIECES = [b"", b"one", bytes(100_000)]


@pytest.fixture
def folder(small_kernel):
    return store.folder(small_kernel)


def kept(folder, digest=""):
    meta = image.read_meta(folder)
    return KeptFile(folder, "kept", meta._replace(digest=digest or meta.digest))


def test_it_is_made_once(folder):
    assert kept(folder).read() is None
    assert kept(folder).get(lambda: PIECES) == PIECES
    assert kept(folder).get(list) == PIECES
    assert not [name for name in os.listdir(folder) if name.startswith(".")]


def test_it_belongs_to_an_image(folder):
    kept(folder).keep(PIECES)
    other = kept(folder, "00")
    assert other.read() is None
    assert other.get(lambda: [b"other"]) == [b"other"]
    assert kept(folder).read() is None


@pytest.mark.parametrize("size", [0, 10, 64, 70, -1])
def test_one_that_was_cut_is_made_anew(folder, size):
    kept(folder).keep(PIECES)
    with open(os.path.join(folder, "kept"), "rb+") as file:
        file.truncate(size if size >= 0 else os.fstat(file.fileno()).st_size - 1)
    assert kept(folder).read() is None
    assert kept(folder).get(lambda: PIECES) == PIECES
    assert kept(folder).read() == PIECES


def test_what_cannot_be_kept_is_made(folder, monkeypatch):
    def fail(*_arguments):
        raise PermissionError

    monkeypatch.setattr(os, "replace", fail)
    assert kept(folder).get(lambda: PIECES) == PIECES
    assert kept(folder).read() is None


def test_what_cannot_be_kept_need_not_be_made(folder, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert kept(folder).get_if_kept(lambda: [b"made"]) is None
    monkeypatch.undo()
    assert kept(folder).get_if_kept(lambda: [b"made"]) == [b"made"]
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert kept(folder).get_if_kept(lambda: [b"again"]) == [b"made"]


def test_what_replaced_sources_have_not_made_is_not_kept(folder, monkeypatch):
    monkeypatch.setattr(kept_file, "_LOADED", 1.0)
    assert kept(folder).get(lambda: PIECES) == PIECES
    assert kept(folder).read() is None


def test_another_process_that_writes_it_is_left_alone(folder):
    path = os.path.join(folder, ".kept.new")
    with open(path, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert kept(folder).get(lambda: PIECES) == PIECES
        assert kept(folder).read() is None
        assert not os.path.getsize(path)
    kept(folder).keep(PIECES)  # that one was killed
    assert kept(folder).read() == PIECES
