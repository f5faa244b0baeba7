# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs mount and kpfs umount where they cannot do as told."""

import errno
import os
import shutil
import subprocess

import pytest

from kpfs import cli
from kpfs.base.errors import SetupError
from kpfs.commands import mounting
from kpfs.host import mounts
from kpfs.host.mounts import MountEntry


@pytest.fixture
def can_mount(monkeypatch):
    """FUSE works, and nothing is mounted anywhere."""
    monkeypatch.setattr(mounting, "check_fuse", lambda: None)
    monkeypatch.setattr(mounting, "start", lambda *a, **k: pytest.fail("started"))
    monkeypatch.setattr(mounts, "mount_at", lambda path: None)


@pytest.mark.usefixtures("can_mount")
def test_mount_wants_an_empty_directory(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert cli.main(["mount", str(tmp_path)]) == 2
    assert "not empty" in capsys.readouterr().err
    assert cli.main(["mount", str(tmp_path / "file")]) == 2
    assert "Not a directory" in capsys.readouterr().err
    assert cli.main(["mount", str(tmp_path / "none")]) == 2
    assert "No such file or directory" in capsys.readouterr().err


@pytest.mark.usefixtures("can_mount")
def test_mount_does_not_cover_a_live_one(monkeypatch, tmp_path, capsys):
    entry = MountEntry(1, 2, str(tmp_path), "fuse.kpfs", "kpfs:1")
    monkeypatch.setattr(mounts, "mount_at", lambda path: entry)
    assert cli.main(["mount", str(tmp_path)]) == 2
    assert "mounted already" in capsys.readouterr().err


@pytest.mark.usefixtures("can_mount")
def test_a_user_mounts_nothing_that_cannot_be_unmounted(monkeypatch, tmp_path, capsys):
    """fusermount looks the mount up in a table that minimal systems lack."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(mounting, "MTAB", str(tmp_path / "mtab"))
    place = tmp_path / "m"
    place.mkdir()
    assert cli.main(["mount", str(place)]) == 2
    assert "ln -s /proc/self/mounts" in capsys.readouterr().err


def test_the_dead_are_taken_away_one_by_one(monkeypatch):
    layers = ["lower", "upper"]
    monkeypatch.setattr(mounts, "is_dead", lambda path: bool(layers))
    monkeypatch.setattr(mounts, "mount_at", lambda path: layers[-1])
    monkeypatch.setattr(mounting, "_unmount", lambda path, *, lazy: layers.pop())
    mounting.take_away_dead("/m")
    assert layers == []


@pytest.mark.parametrize("stays", [False, True])
def test_a_mount_that_goes_while_it_is_unmounted(monkeypatch, stays):
    """The daemon may end by itself just then; every other reason is an error."""

    def refuses(_target, _flags):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(mounts, "umount", refuses)
    monkeypatch.setattr(mounts, "mount_at", lambda _path: "entry" if stays else None)
    if stays:
        with pytest.raises(SetupError, match="Invalid argument"):
            mounting._unmount("/somewhere", lazy=False)
    else:
        mounting._unmount("/somewhere", lazy=False)


@pytest.mark.parametrize("in_use", [False, True])
def test_a_process_that_has_the_number_of_a_dead_daemon(monkeypatch, tmp_path, in_use):
    """The process has nothing to do with the mount, and goes on."""
    taken_away = []
    monkeypatch.setattr(
        mounting, "_unmount", lambda path, *, lazy: taken_away.append((path, lazy))
    )
    number = os.getpid()
    other = None
    if in_use:
        other = subprocess.Popen(["sleep", "60"])
        number = other.pid
    else:
        gone = subprocess.Popen(["true"])
        gone.wait()
        number = gone.pid
    entry = MountEntry(1, 2, str(tmp_path), "fuse.kpfs", f"kpfs:{number}")
    monkeypatch.setattr(mounts, "mount_at", lambda _path: entry)
    try:
        assert mounting.umount(str(tmp_path)) == 0
        assert taken_away == [(str(tmp_path), True)]
        assert other is None or other.poll() is None
    finally:
        if other:
            other.kill()
            other.wait()
