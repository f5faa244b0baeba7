# SPDX-License-Identifier: GPL-2.0-or-later
"""Splices of a command, before they go on; e2e/test_splice.py has what they do."""

import fcntl
import os

import pytest

from kpfs.base import syscall_numbers as nr
from kpfs.mirror import splice
from kpfs.mirror.host import Host, MountPlace
from kpfs.mirror.seccomp import Notification

CALLS = {nr.SPLICE: (0, 2), nr.SENDFILE: (1, 0)}


def is_direct(fd):
    return bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT)


@pytest.mark.parametrize("number", CALLS)
@pytest.mark.parametrize("side", [0, 1])
def test_files_of_the_mount_get_o_direct(tmp_path, number, side):
    path = tmp_path / "file"
    path.touch()
    fd, (other, end) = os.open(path, os.O_RDWR), os.pipe()
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, os.O_DIRECT)
    except OSError:
        pytest.skip("the file system below the temporary directory has no O_DIRECT")
    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)
    args = [0] * 6
    args[CALLS[number][side]], args[CALLS[number][1 - side]] = fd, other
    note = Notification(1, os.getpid(), number, tuple(args))
    ours, device = str(tmp_path), os.fstat(fd).st_dev
    elsewhere = Host([MountPlace("/proc/none", 0)])
    splice.prepare(elsewhere, note)
    assert not splice.concerns_mount(elsewhere, note)
    assert not is_direct(fd)
    host = Host([MountPlace(ours, device)])
    assert splice.concerns_mount(host, note)
    splice.prepare(host, note)
    assert is_direct(fd)
    assert fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND
    assert not is_direct(other)
    for each in (fd, other, end):
        os.close(each)
    splice.prepare(host, note)  # they are not open any more
