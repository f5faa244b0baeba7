# SPDX-License-Identifier: GPL-2.0-or-later
"""A command finds the mount that is meant."""

import pytest

from kpfs.base.errors import SetupError
from kpfs.commands.mount_choice import find_tree
from kpfs.host import mounts
from kpfs.host.mounts import MountEntry


@pytest.fixture
def trees(tmp_path, monkeypatch):
    """Two mounts."""
    monkeypatch.delenv("KPFS", raising=False)
    entries = []
    for number, name in enumerate("ab"):
        (tmp_path / name / "machine").mkdir(parents=True)
        target = str(tmp_path / name)
        entries.append(MountEntry(number, 1, target, "fuse.kpfs", f"kpfs:{number + 1}"))
    monkeypatch.setattr(mounts, "table", lambda: entries)
    return tmp_path, entries


def test_find_tree(trees, monkeypatch):
    folder, entries = trees
    assert find_tree(str(folder / "b"), "top") == folder / "b"
    with pytest.raises(SetupError, match=f"say which DIR: {folder}/a, {folder}/b"):
        find_tree("", "top")
    del entries[1]
    assert find_tree("", "top") == folder / "a"
    monkeypatch.setenv("KPFS", str(folder / "b"))
    assert find_tree("", "top") == folder / "b"
    with pytest.raises(SetupError, match="no files of kpfs"):
        find_tree("/etc", "top")


def test_no_tree_at_all(trees):
    trees[1].clear()
    with pytest.raises(SetupError, match="nothing is mounted"):
        find_tree("", "top")
