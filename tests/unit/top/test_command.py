# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs top: which tree is meant, and what it says where it cannot."""

import sys

import pytest

from kpfs import cli
from kpfs.base.errors import SetupError
from kpfs.host import mounts
from kpfs.host.mounts import MountEntry
from kpfs.top import command


@pytest.fixture
def trees(tmp_path, monkeypatch):
    """Two mounts."""
    monkeypatch.delenv("KPFS", raising=False)
    entries = []
    for number, name in enumerate("ab"):
        (tmp_path / name / "kprobes").mkdir(parents=True)
        (tmp_path / name / "kprobes/list").touch()
        target = str(tmp_path / name)
        entries.append(MountEntry(number, 1, target, "fuse.kpfs", f"kpfs:{number + 1}"))
    monkeypatch.setattr(mounts, "table", lambda: entries)
    return tmp_path, entries


def test_find_tree(trees, monkeypatch):
    folder, entries = trees
    assert command.find_tree(str(folder / "b")) == folder / "b"
    with pytest.raises(SetupError, match=f"say which DIR: {folder}/a, {folder}/b"):
        command.find_tree("")
    del entries[1]
    assert command.find_tree("") == folder / "a"
    monkeypatch.setenv("KPFS", str(folder / "b"))
    assert command.find_tree("") == folder / "b"
    with pytest.raises(SetupError, match="no files of kpfs"):
        command.find_tree("/etc")


def test_no_tree_at_all(trees):
    trees[1].clear()
    with pytest.raises(SetupError, match="nothing is mounted"):
        command.find_tree("")


@pytest.mark.parametrize("missing", ["rich", "textual"])
def test_without_the_library(trees, monkeypatch, capsys, missing):
    for name in list(sys.modules):
        if name == "kpfs.top.screen" or name.partition(".")[0] == missing:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setitem(sys.modules, f"{missing}.text", None)
    monkeypatch.setitem(sys.modules, f"{missing}.app", None)
    assert cli.main(["top", str(trees[0] / "a")]) == 2
    said = "kpfs: top: the package textual is missing: pip install 'kpfs[top]', or say"
    assert capsys.readouterr().err.startswith(said)


@pytest.mark.parametrize("seconds", ["0", "x", "nan", "-1"])
def test_no_interval(seconds, capsys):
    assert cli.main(["top", "--interval", seconds]) == 2
    assert "is not a number from" in capsys.readouterr().err
