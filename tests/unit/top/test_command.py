# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs top: what it says where it cannot."""

import sys

import pytest

from kpfs import cli


@pytest.mark.parametrize("missing", ["rich", "textual"])
def test_without_the_library(tmp_path, monkeypatch, capsys, missing):
    (tmp_path / "machine").mkdir()
    for name in list(sys.modules):
        if name == "kpfs.top.screen" or name.partition(".")[0] == missing:
            monkeypatch.delitem(sys.modules, name)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setitem(sys.modules, f"{missing}.text", None)
    monkeypatch.setitem(sys.modules, f"{missing}.app", None)
    assert cli.main(["top", str(tmp_path)]) == 2
    said = "kpfs: top: the package textual is missing: pip install 'kpfs[top]', or say"
    assert capsys.readouterr().err.startswith(said)


@pytest.mark.parametrize("seconds", ["0", "x", "nan", "-1"])
def test_no_interval(seconds, capsys):
    assert cli.main(["top", "--interval", seconds]) == 2
    assert "is not a number from" in capsys.readouterr().err
