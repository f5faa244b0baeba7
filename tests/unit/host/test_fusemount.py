# SPDX-License-Identifier: GPL-2.0-or-later
"""Mounting of a FUSE file system, with fakes of the system calls and the
helper program.
"""

import errno
import os
import sys

import pytest

from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import SetupError
from kpfs.commands import mounting
from kpfs.host import fusemount, mounts

HELPER = """#!{python}
import os, socket, sys
print(sys.argv[1:], file=open({said!r}, "w"))
if {answer!r}:
    print("fusermount: some words", file=sys.stderr)
    sys.exit({answer!r})
with socket.socket(fileno=int(os.environ["_FUSE_COMMFD"])) as sock:
    socket.send_fds(sock, [b"f"], [os.open({said!r}, os.O_RDONLY)])
"""


@pytest.fixture
def calls(monkeypatch, tmp_path):
    """The arguments of mount(2), which ``error`` can be made to refuse."""

    class Calls(list[tuple[str, ...]]):
        error = 0

    made = Calls()

    def mount(*words):
        made.append(words)
        if made.error:
            raise OSError(made.error, os.strerror(made.error), str(tmp_path))

    monkeypatch.setattr(mounts, "mount", mount)
    monkeypatch.setattr(fusemount, "DEVICE", os.devnull)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return made


def helper(tmp_path, name, answer=0):
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    path = folder / name
    said = str(tmp_path / f"{name}.said")
    path.write_text(HELPER.format(python=sys.executable, said=said, answer=answer))
    path.chmod(0o755)


def test_by_mount(calls, tmp_path):
    device = fusemount.mount(str(tmp_path), "kpfs:1", allow_other=True)
    ((source, target, fstype, flags, data),) = calls
    assert (source, target, fstype) == ("kpfs:1", str(tmp_path), "fuse.kpfs")
    assert flags == nr.MS_NOSUID | nr.MS_NODEV
    assert data == (
        f"fd={device},rootmode=40000,user_id={os.geteuid()},group_id={os.getegid()}"
        ",default_permissions,allow_other"
    )
    os.close(device)


def test_refused(calls, tmp_path):
    calls.error = errno.ENODEV
    with pytest.raises(SetupError, match=f"^{tmp_path}: No such device$"):
        fusemount.mount(str(tmp_path), "kpfs:1", allow_other=False)


def test_root_is_not_helped(calls, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    calls.error = errno.EPERM
    helper(tmp_path, "fusermount")
    with pytest.raises(
        SetupError, match=f"^{tmp_path}: Operation not permitted: .*SYS_ADMIN"
    ):
        fusemount.mount(str(tmp_path), "kpfs:1", allow_other=False)


@pytest.mark.parametrize("name", ["fusermount", "fusermount3"])
def test_by_the_helper(calls, tmp_path, monkeypatch, name):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    calls.error = errno.EPERM
    helper(tmp_path, name)
    device = fusemount.mount(str(tmp_path), "kpfs:1", allow_other=False)
    options = "fsname=kpfs:1,subtype=kpfs,default_permissions"
    words = ["-o", options, "--", str(tmp_path)]
    assert os.read(device, 1000).decode() == f"{words}\n"
    assert not os.get_inheritable(device)
    os.close(device)
    monkeypatch.setattr(mounts, "umount", lambda *words: mounts.mount(*words))
    (tmp_path / "bin" / name).write_text(f"#!/bin/sh\necho >{tmp_path}/said $*")
    mounting._unmount(str(tmp_path), lazy=False)
    assert (tmp_path / "said").read_text() == f"-u {tmp_path}\n"


def test_the_helper_says_why_not(calls, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    calls.error = errno.EPERM
    with pytest.raises(SetupError, match=r"^fusermount is missing"):
        fusemount.mount(str(tmp_path), "kpfs:1", allow_other=False)
    helper(tmp_path, "fusermount", 1)
    with pytest.raises(SetupError, match=r"^fusermount: some words; .* do without$"):
        fusemount.mount(str(tmp_path), "kpfs:1", allow_other=False)
