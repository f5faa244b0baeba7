# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs dump: a copy that has holes where there are zeros."""

import errno
import os
import random

import pytest

from kpfs import cli
from kpfs.dump import command
from kpfs.dump.command import PIECE, copy_sparse

PAGE = 4096


@pytest.mark.parametrize("size", [0, 1, PAGE, PIECE, 3 * PIECE + 5000])
def test_a_copy_is_the_same_and_has_holes(tmp_path, size):
    chance = random.Random(size)
    data = bytearray(size)
    for at in range(0, size, PAGE):
        if chance.random() < 0.3:
            data[at : at + PAGE] = chance.randbytes(min(PAGE, size - at))
    (tmp_path / "source").write_bytes(data)
    with open(tmp_path / "source", "rb") as source, open(tmp_path / "copy", "wb") as to:
        copy_sparse(source.fileno(), to.fileno())
    assert (tmp_path / "copy").read_bytes() == data
    if size > PIECE:
        assert os.stat(tmp_path / "copy").st_blocks * 512 < size // 2


def test_what_cannot_be_done_is_said(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("KPFS", raising=False)
    assert cli.main(["dump", str(tmp_path / "core"), "/etc"]) == 2
    assert capsys.readouterr().err == "kpfs: dump: /etc: no files of kpfs\n"
    assert not (tmp_path / "core").exists()


def test_a_dump_that_fails_leaves_no_half_of_a_file(tmp_path, capsys, monkeypatch):
    tree = tmp_path / "tree"
    (tree / "machine").mkdir(parents=True)
    (tree / "machine/vmcore").write_bytes(b"x" * PAGE)
    monkeypatch.setattr(command, "find_tree", lambda _name, _for: tree)
    core = tmp_path / "core"
    core.write_text("of yesterday")

    def fail(_source, target):
        os.write(target, b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(command, "copy_sparse", fail)
    assert cli.main(["dump", str(core)]) == 2
    assert capsys.readouterr().err == f"kpfs: {core}: No space left on device\n"
    assert core.read_text() == "of yesterday"
    assert sorted(os.listdir(tmp_path)) == ["core", "tree"]


def test_a_kernel_without_a_dump_is_told(tmp_path, capsys, monkeypatch):
    number, why = errno.ENOMEM, "Cannot allocate memory"
    said = f"no dump can be made of this kernel: {why}"
    (tmp_path / "machine").mkdir()
    (tmp_path / "machine/vmcore").touch()
    monkeypatch.setattr(command, "find_tree", lambda _name, _for: tmp_path)

    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pread", fail)
    assert cli.main(["dump", str(tmp_path / "core")]) == 2
    assert capsys.readouterr().err.startswith(f"kpfs: {said}")
    assert not (tmp_path / "core").exists()
