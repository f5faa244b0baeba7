# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs gdb attaches to the kernel that is meant, by the right gdb."""

import os
import shutil
import subprocess

import pytest

from kpfs.base import places
from kpfs.base.errors import SetupError
from kpfs.gdb import command
from kpfs.gdb.sockets import socket_path


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("KPFS", raising=False)
    return places.runtime()


def add(runtime, pid, arch="x86"):
    path = socket_path(runtime, pid, arch)
    open(path, "w").close()
    return path


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([], ("", [])),
        (["m"], ("m", [])),
        (["--", "-x", "f"], ("", ["-x", "f"])),
        (["m", "--", "-x", "f"], ("m", ["-x", "f"])),
    ],
)
def test_words(words, found):
    assert command.split(words) == found


def test_words_of_gdb_come_behind_dashes():
    with pytest.raises(SetupError, match="behind --"):
        command.split(["m", "-x"])
    with pytest.raises(SetupError, match="behind --"):
        command.split(["-x"])


def test_the_only_kernel_is_found(runtime):
    with pytest.raises(SetupError, match="no kernel listens"):
        command.find("")
    path = add(runtime, os.getpid())
    assert command.find("").path == path
    other = subprocess.Popen(["sleep", "60"])
    try:
        add(runtime, other.pid)
        with pytest.raises(SetupError, match=rf"pids .*{other.pid}.*say which"):
            command.find("")
        assert command.find(str(os.getpid())).path == path
        assert command.find(str(other.pid)).pid == other.pid
    finally:
        other.kill()
        other.wait()


def test_a_pid_at_which_no_kernel_listens(runtime):
    with pytest.raises(SetupError, match=r"pid 1 \(none does\)"):
        command.find("1")


def test_a_directory_that_is_empty():
    with pytest.raises(SetupError, match="DIR is empty"):
        command.split([""])


def test_a_directory_that_is_no_mount(runtime, tmp_path):
    with pytest.raises(SetupError, match="no mount of kpfs"):
        command.find(str(tmp_path))


def test_another_architecture_wants_another_gdb(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    native, other = ("x86", "arm64")
    if os.uname().machine == "aarch64":
        native, other = other, native
    assert command._debugger(native) == "/bin/gdb"
    assert command._debugger(other) == "/bin/gdb-multiarch"
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(SetupError, match="apt install gdb-multiarch"):
        command._debugger(other)
