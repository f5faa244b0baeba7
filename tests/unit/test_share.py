# SPDX-License-Identifier: GPL-2.0-or-later
"""The files that are written below a prefix."""

from kpfs import share


def test_they_are_written(tmp_path):
    names = share.write(str(tmp_path))
    assert "share/man/man1/kpfs-run.1" in names
    assert len(names) == len(set(names)) > len(share.COMPLETIONS)
    for name, text in share.shared().items():
        assert (tmp_path / name).read_text() == text
