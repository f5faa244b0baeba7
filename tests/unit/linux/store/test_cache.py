# SPDX-License-Identifier: GPL-2.0-or-later

import os

import pytest

from kpfs.linux.distribution.offer import Offer, RemoteFile
from kpfs.linux.store import image, store
from kpfs.linux.store.cache import CachedKernel


def offer(digest="00"):
    return Offer("6.1", "6.1.0", "1", "s", (RemoteFile("u/f.deb", 1, digest),))


@pytest.fixture
def cached(tmp_path):
    def make(name="a", digest="00", memory=512):
        return CachedKernel(str(tmp_path / "cache"), name, offer(digest), memory)

    return make


def test_it_comes_back(small_kernel, cached):
    assert cached().load() is None
    cached().keep()
    store.remove_folder(store.folder(small_kernel))
    meta = cached().load()
    assert meta
    assert meta == image.read_meta(store.folder(small_kernel))


@pytest.mark.parametrize("other", [{"digest": "01"}, {"memory": 256}])
def test_another_one_takes_its_place(small_kernel, cached, tmp_path, other):
    longer = f"{small_kernel}-cloud"
    os.symlink(store.folder(small_kernel), os.path.join(store.place(), longer))
    cached(longer).keep()
    cached().keep()
    assert cached(**other).load() is None
    cached(**other).keep()
    there = {cached(**other).path, cached(longer).path}
    assert {str(path) for path in (tmp_path / "cache").iterdir()} == there


def test_one_that_is_damaged_goes(small_kernel, cached):
    cached().keep()
    os.truncate(cached().path, 100)
    assert cached().load() is None
    assert not os.path.exists(cached().path)
