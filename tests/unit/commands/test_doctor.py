# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs doctor: what it says where something is missing, and its status."""

import errno
import json
import os
import shutil
import sys
import time
from functools import partial

import pytest

from kpfs import cli
from kpfs.base.errors import SetupError
from kpfs.commands import doctor
from kpfs.commands.doctor import BROKEN, LIMITED, OK, Check, Finding
from kpfs.host import instead, mounts
from kpfs.manual import differs
from kpfs.mirror import seccomp


def found(*findings):
    """Checks that find just this."""
    return tuple(
        Check(f"c{number}", partial(Finding, *finding))
        for number, finding in enumerate(findings)
    )


@pytest.mark.parametrize(
    ("states", "status"), [((OK, OK), 0), ((OK, LIMITED), 0), ((BROKEN, OK), 1)]
)
def test_status(monkeypatch, capsys, states, status):
    checks = found(*(Finding(state, "words") for state in states))
    monkeypatch.setattr(doctor, "CHECKS", checks)
    assert cli.main(["doctor"]) == status
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert cli.main(["doctor", "--json"]) == status
    said = json.loads(capsys.readouterr().out)
    assert said["works"] == (status == 0)
    assert [row["state"] for row in said["checks"]] == list(states)
    assert said["checks"][0].keys() == {"name", "state", "found", "mend"}


def test_one_line_mends_it():
    first, second = doctor.in_words("roof", Finding(BROKEN, "it rains in", "tiles"))
    assert first.split() == ["broken", "roof", "it", "rains", "in"]
    assert second.strip() == "mend: tiles"
    assert len(doctor.in_words("roof", Finding(OK, "tight"))) == 1


def fails():
    raise SetupError("cause", "remedy")


def aside(look, state=BROKEN, mend=""):
    return doctor.find(Check("c", look, state, mend, aside=True))


def by_name(*names):
    """Return what the checks of these names find here."""
    return {c.name: doctor.find(c) for c in doctor.CHECKS if c.name in names}


def test_what_is_tried_in_a_child():
    assert aside(lambda: "words") == Finding(OK, "words")
    assert aside(fails, LIMITED, "mend") == Finding(LIMITED, "cause", "remedy")
    assert aside(lambda: os._exit(1)) == Finding(BROKEN, "it was killed")
    assert aside(lambda: 1 / 0, mend="m") == Finding(BROKEN, "division by zero", "m")


def test_a_child_that_hangs_is_killed(monkeypatch):
    monkeypatch.setattr(doctor, "PATIENCE", 0.1)
    assert aside(lambda: time.sleep(60)) == Finding(BROKEN, "it hangs")


def test_a_host_that_denies_things(monkeypatch):
    def deny(*_):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    monkeypatch.setattr(mounts, "unshare", deny)
    monkeypatch.setattr(seccomp, "install_listener", deny)
    said = by_name("fusermount", "namespaces", "seccomp", "compilers")
    assert said["fusermount"].state == LIMITED
    assert "fuse3" in said["fusermount"].mend
    assert said["namespaces"].state == BROKEN
    assert "Operation not permitted" in said["namespaces"].found
    assert "--inside" in said["namespaces"].mend
    assert said["seccomp"].state == LIMITED
    assert "--no-mirror" in said["seccomp"].mend
    assert said["compilers"].state == LIMITED


def test_a_log_that_cannot_be_written(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    said = by_name("log")["log"]
    assert said.state == LIMITED
    assert "XDG_CACHE_HOME" in said.mend


def test_what_this_host_lacks(monkeypatch):
    monkeypatch.setattr(differs, "LACKS", dict.fromkeys(differs.LACKS, lambda _: False))
    assert doctor.lacks() == "nothing"
    monkeypatch.setitem(differs.LACKS, "module", lambda _: True)
    monkeypatch.setitem(differs.LACKS, "machine", lambda name: name == "x86_64")
    state, found, _ = by_name("lacks")["lacks"]
    assert state == LIMITED
    assert "without lzma" in found
    assert "--no-mirror" in found


def test_fusermount_without_a_table_of_mounts(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(doctor, "MTAB", str(tmp_path))
    assert doctor.fusermount() == "/usr/bin/fusermount"
    monkeypatch.setattr(doctor, "MTAB", str(tmp_path / "mtab"))
    state, _, mend = by_name("fusermount")["fusermount"]
    assert (state, mend[:6]) == (LIMITED, "ln -s ")


def test_root_who_may_not_mount(monkeypatch):
    """Containers have such a root, and no user namespaces either."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(instead, "may_mount", lambda: True)
    assert by_name("fusermount")["fusermount"].state == OK
    monkeypatch.setattr(instead, "may_mount", lambda: False)
    state, why, mend = by_name("fusermount")["fusermount"]
    assert (state, why[:9]) == (LIMITED, "mount(2) ")
    assert "--cap-add SYS_ADMIN" in mend
    assert "--inside'" in mend


def test_libfuse(monkeypatch):
    """The library is for one transport alone: a host without it is not broken."""
    monkeypatch.delitem(sys.modules, "kpfs.fs.fuse.libfuse", raising=False)
    monkeypatch.setenv("FUSE_LIBRARY_PATH", "/none")
    state, _, mend = by_name("libfuse")["libfuse"]
    assert state == LIMITED
    assert "libfuse2" in mend or "fusepy" in mend
