# SPDX-License-Identifier: GPL-2.0-or-later
"""The user's shell, and where programs are looked for."""

import pwd
from types import SimpleNamespace

from kpfs.base import programs


def test_the_shell_where_nobody_names_a_command(monkeypatch, tmp_path):
    """The user's shell is taken; bash in place of dash, whose echo hides the errno."""
    for name in ("dash", "fish"):
        (tmp_path / name).touch()
    (tmp_path / "sh").symlink_to("dash")
    users = SimpleNamespace(pw_shell=str(tmp_path / "fish"))
    monkeypatch.setattr(pwd, "getpwuid", lambda _uid: users)
    monkeypatch.setattr(programs, "BASH", (str(tmp_path / "bash"),))
    for named, taken in (("", "fish"), ("fish", "fish"), ("sh", "sh")):
        monkeypatch.setenv("SHELL", named and str(tmp_path / named))
        assert programs.shell() == str(tmp_path / taken)
    (tmp_path / "bash").touch()
    assert programs.shell() == str(tmp_path / "bash")
    assert programs.shell(str(tmp_path)) == "/bin/sh"


def test_roots_programs_are_found_behind_the_users(monkeypatch):
    for path in ("/bin:/sbin", "/bin:/usr/sbin"):
        monkeypatch.setenv("PATH", path)
        (added,) = {"/usr/sbin", "/sbin"} - set(path.split(":"))
        assert programs.search_path() == f"{path}:{added}"
