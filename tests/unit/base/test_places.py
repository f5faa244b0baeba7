# SPDX-License-Identifier: GPL-2.0-or-later
"""The folders in which kpfs keeps its files; unit/inside/test_warm.py has runtime()."""

import os

import pytest

from kpfs.base import places
from tests import harness

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder for XDG_CACHE_HOME below directories that are ours alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "home").mkdir(mode=0o755)
    return tmp_path / "home"


def test_our_cache_is_private(home):
    assert places.private_cache() == f"{home}/kpfs"
    assert (home / "kpfs").stat().st_mode & 0o777 == 0o700
    for mode in (0o755, 0o775):  # as a group for each user has it
        (home / "kpfs").chmod(mode)
        assert places.private_cache() == f"{home}/kpfs"
    home.chmod(0o1777)
    assert places.private_cache() == f"{home}/kpfs"


def in_place_of_it(home):
    return places.private_cache() == f"{home.parent}/kpfs-{os.getuid()}"


@pytest.mark.parametrize("where", ["home", "kpfs"])
def test_a_cache_that_all_may_change(home, where):
    (home / "kpfs").mkdir()
    (home if where == "home" else home / "kpfs").chmod(0o777)
    assert in_place_of_it(home)
    (home / "kpfs").chmod(0o1777)
    assert in_place_of_it(home)


@as_root
@pytest.mark.parametrize("kind", ["a directory", "a link", "above", "another group"])
def test_a_cache_of_somebody_else(home, kind):
    other = harness.NOBODY - 1
    if kind == "a link":
        (home.parent / "real").mkdir(mode=0o700)
        (home / "kpfs").symlink_to(home.parent / "real")
        os.lchown(home / "kpfs", other, other)
    else:
        (home / "kpfs").mkdir(mode=0o700)
        if kind == "another group":
            os.chown(home / "kpfs", -1, other)
            (home / "kpfs").chmod(0o770)
        else:
            os.chown(home if kind == "above" else home / "kpfs", other, other)
    assert in_place_of_it(home)


def test_a_cache_that_cannot_be(home):
    (home / "kpfs").write_text("a file")
    assert in_place_of_it(home)
    (home / "kpfs").unlink()
    (home / "kpfs").symlink_to("kpfs")
    assert in_place_of_it(home)


def test_no_home_is_made(monkeypatch, tmp_path):
    home = tmp_path / "none"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="XDG_CACHE_HOME") as info:
        places.make(places.cache())
    assert info.value.filename == str(home)
    assert places.private_cache() == places.runtime()
    assert not home.exists()
    places.make(f"{tmp_path}/none-beside/it")
    home.mkdir()
    places.make(places.cache())
    assert (home / ".cache/kpfs").is_dir()
