# SPDX-License-Identifier: GPL-2.0-or-later
"""Errors that the user must mend, in one line."""

import errno
import os

import pytest

from kpfs.base.errors import SetupError, told_to_user


def test_cause_and_remedy():
    assert (
        str(SetupError("it rains", "take an umbrella")) == "it rains: take an umbrella"
    )
    assert str(SetupError("it rains")) == "it rains"


def test_a_dead_mount_is_told_with_what_takes_it_away(monkeypatch):
    """Linux may still answer a stat of its directories."""

    def refuse(path, flags):
        if str(path).startswith("/m/dead"):
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN), path)
        return os.dup(2)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(SetupError, match=r"gone: kpfs umount /m/dead$") as told:
        with told_to_user():
            os.open("/m/dead/kprobes/list", os.O_RDONLY)
    assert str(told.value).startswith("/m/dead/kprobes/list: ")


def test_os_errors_name_the_file_or_what_is_given(tmp_path):
    missing = tmp_path / "missing"
    with pytest.raises(SetupError, match=f"^{missing}: No such file or directory$"):
        with told_to_user():
            missing.read_bytes()
    with pytest.raises(SetupError, match=r"^the log: No such file or directory$"):
        with told_to_user("the log"):
            missing.read_bytes()
