# SPDX-License-Identifier: GPL-2.0-or-later
"""The process that is asked for a guest; e2e/test_inside.py has the rest."""

import os
import resource
import socket
import sys
from types import SimpleNamespace

import pytest

from kpfs.base import host_process, places
from kpfs.config import KernelChoice
from kpfs.inside import warm
from kpfs.inside.machine import CommandSession
from kpfs.linux.board import board
from kpfs.linux.running import linux_kernel
from kpfs.linux.store import image, store
from tests import harness
from tests.there import stand_in, there

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
    assert places.runtime() == f"{temporary}/kpfs-{os.getuid()}"
    assert os.stat(places.runtime()).st_mode & 0o777 == 0o700
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert places.runtime() == f"{tmp_path}/kpfs-{os.getuid()}"


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
        places.runtime()


@as_root
def test_the_runtime_folder_of_somebody_else(temporary, monkeypatch, tmp_path):
    """The other user could put another socket there."""
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    os.chown(runtime, harness.NOBODY, harness.NOBODY)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    assert places.runtime() == f"{temporary}/kpfs-0"


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


STOPPED = """
import os, socket
from kpfs.inside.client import Client, LostError
ours, theirs = socket.socketpair()
{}
try:
    print(Client(ours, patience=0.05).run())
except LostError:
    try:
        theirs.send(b"x")
    except BrokenPipeError:
        print("lost; it cannot begin any more")
"""


def test_a_process_that_does_not_begin_is_not_waited_for():
    done = harness.run(sys.executable, "-c", STOPPED.format(""), cwd=harness.ROOT)
    assert (done.stdout, done.stderr) == ("lost; it cannot begin any more\n", "")


BEGINS = r"""
import time
if os.fork() == 0:
    theirs.send(b'{"begun": true}\n')
    time.sleep(0.2)  # longer than the patience
    theirs.send(b'{"status": 3, "why": ""}\n')
    os._exit(0)
"""


def test_one_that_has_begun_may_take_long():
    done = harness.run(sys.executable, "-c", STOPPED.format(BEGINS), cwd=harness.ROOT)
    assert (done.stdout, done.stderr) == ("3\n", "")


def test_a_client_that_waits_no_more_has_nothing_run():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.shutdown(socket.SHUT_RD)
        kernel = SimpleNamespace(loop=None)
        CommandSession(stand_in(kernel), theirs).run(stand_in(None), [])  # no error


TRACED = """
import ctypes, os
from kpfs.base.host_process import is_traced
before = is_traced(os.getpid())
ctypes.CDLL(None).ptrace(0, 0, 0, 0)
print(before, is_traced(os.getpid()))
"""


def test_a_traced_command_leaves_no_process_behind(monkeypatch, tmp_path):
    """The tracer, which waits for all, would wait for that."""
    done = harness.run(sys.executable, "-c", TRACED, cwd=harness.ROOT)
    assert done.stdout == "False True\n"
    started = []
    monkeypatch.setattr(warm, "ready_at", lambda _: str(tmp_path / "socket"))
    monkeypatch.setattr(warm, "_start", lambda *_: started.append(1))
    for is_traced in (True, False):
        monkeypatch.setattr(host_process, "is_traced", lambda _, it=is_traced: it)
        assert warm.connect(KernelChoice("any", False)) is None
        assert bool(started) == (not is_traced)


def test_a_lock_that_is_held_for_ever(monkeypatch, tmp_path):
    monkeypatch.setattr(warm, "PATIENCE", 0.05)
    path = str(tmp_path / "lock")
    with (
        warm._locked(path),
        pytest.raises(TimeoutError),
        warm._locked(path),
    ):
        pass


def test_a_lock_that_is_a_link(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic"), warm._locked(str(tmp_path / "lock")):
        pass


@pytest.mark.parametrize("name", ["RLIMIT_NOFILE", "RLIMIT_CORE"])
def test_a_process_with_other_limits_does_not_serve(monkeypatch, tmp_path, name):
    (tmp_path / "ram").write_bytes(b"")
    monkeypatch.setattr(store, "folder", lambda _name: str(tmp_path))
    choice = KernelChoice("x", quiet=False)
    before = warm._key(choice)
    assert warm._key(choice) == before
    number = getattr(resource, name)
    soft, hard = resource.getrlimit(number)
    lower = (1000 if soft < 0 else soft) - 1
    resource.setrlimit(number, (max(lower, 0), hard))
    try:
        assert (warm._key(choice) != before) == (soft != 0)
    finally:
        resource.setrlimit(number, (soft, hard))


def test_each_source_of_the_kernel_decides_which_process_may_serve():
    found = set(map(os.path.realpath, warm._sources()))
    for module in (linux_kernel, board, image, warm):
        assert os.path.realpath(there(module.__file__)) in found
    assert not any("__pycache__" in path for path in found)
