# SPDX-License-Identifier: GPL-2.0-or-later
"""The process that is asked for a guest; e2e/test_inside.py has the rest."""

import os
import socket

import pytest

from kpfs.inside import warm
from kpfs.linux.board import board
from kpfs.linux.running import linux_kernel
from kpfs.linux.store import image
from tests import harness
from tests.there import there

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another")


@pytest.fixture
def temporary(monkeypatch, tmp_path):
    """The directory of sockets if there is no better one."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    return folder


def test_the_folder_is_ours_alone(temporary, monkeypatch, tmp_path):
    assert warm._folder() == f"{temporary}/kpfs-{os.getuid()}"
    assert os.stat(warm._folder()).st_mode & 0o777 == 0o700
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert warm._folder() == f"{tmp_path}/kpfs-{os.getuid()}"


@pytest.mark.parametrize("flaw", ["others may read it", "a link", "somebody else's"])
def test_a_folder_that_somebody_has_put_there(temporary, tmp_path, flaw):
    folder = temporary / f"kpfs-{os.getuid()}"
    if flaw == "a link":
        (tmp_path / "ours").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "ours")
    else:
        folder.mkdir(mode=0o755 if flaw == "others may read it" else 0o700)
    if flaw == "somebody else's":
        if os.geteuid() != 0:
            pytest.skip("only root can give a directory away")
        os.chown(folder, harness.NOBODY, harness.NOBODY)
    with pytest.raises(PermissionError):
        warm._folder()


@as_root
def test_the_runtime_folder_of_somebody_else(temporary, monkeypatch, tmp_path):
    """He could put a socket of his own there."""
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    os.chown(runtime, harness.NOBODY, harness.NOBODY)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    assert warm._folder() == f"{temporary}/kpfs-0"


@as_root
def test_a_socket_of_somebody_else(tmp_path):
    tmp_path.chmod(0o777)
    path = str(tmp_path / "socket")
    ready, tell = os.pipe()
    end, hold = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.chdir(tmp_path)
            os.setresuid(harness.NOBODY, harness.NOBODY, harness.NOBODY)
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind("socket")
            listener.listen()
            os.write(tell, b"!")
            os.close(hold)
            os.read(end, 1)
        finally:
            os._exit(0)
    os.close(tell)
    assert os.read(ready, 1)
    with pytest.raises(PermissionError, match="somebody else's"):
        warm._try(path)
    for fd in (ready, end, hold):
        os.close(fd)
    os.waitpid(pid, 0)


def test_each_source_of_the_kernel_decides_which_process_may_serve():
    found = set(map(os.path.realpath, warm._sources()))
    for module in (linux_kernel, board, image, warm):
        assert os.path.realpath(there(module.__file__)) in found
    assert not any("__pycache__" in path for path in found)
