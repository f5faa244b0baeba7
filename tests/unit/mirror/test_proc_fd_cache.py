# SPDX-License-Identifier: GPL-2.0-or-later
"""Descriptors of /proc files that stay open."""

import os

import pytest

from kpfs.mirror.proc_fd_cache import ProcFdCache


@pytest.fixture
def held(tmp_path):
    for name in "abc":
        (tmp_path / name).write_text(name)
    files: ProcFdCache[str] = ProcFdCache(lambda name: f"{tmp_path}/{name}", most=2)
    yield files
    files.close()


def is_open(fd):
    return os.path.exists(f"/proc/self/fd/{fd}")


def test_a_file_is_opened_once(held):
    fd = held["a"]
    assert os.pread(fd, 9, 0) == b"a"
    assert held["a"] == fd
    assert not os.get_inheritable(fd)
    with pytest.raises(FileNotFoundError):
        held["none"]
    held.close()
    assert not is_open(fd)


def test_forgotten_file_is_closed_before_the_next_opens(held):
    """For another thread may read it when it is forgotten."""
    fd = held["a"]
    held.forget("a")
    held.forget("none")
    assert os.pread(fd, 9, 0) == b"a"
    between = os.open("/", os.O_RDONLY)
    assert os.pread(held["b"], 9, 0) == b"b"
    assert held["b"] == fd
    os.close(between)


def test_few_are_held(held):
    fds = [held[name] for name in "abca"]
    assert [os.pread(fd, 9, 0) for fd in fds[2:]] == [b"c", b"a"]
    assert len(held) == 2
