# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads and writes that splice(2) and sendfile(2) make; e2e/test_splice.py has all."""

import errno
import os
from types import SimpleNamespace

import pytest

from kpfs.base import fuse_wire as wire
from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError
from kpfs.fs.fuse import splices
from tests.there import stand_in

DIRECT, PIPE, PAGE = os.O_DIRECT, 4, 4096
SPLICE, SENDFILE = (nr.SPLICE, (3, 0, PIPE, 0, 1, 0)), (nr.SENDFILE, (PIPE, 3, 0, 1))
NOW = nr.SPLICE, (3, 0, PIPE, 0, 1, nr.SPLICE_F_NONBLOCK)
READ = nr.READ, (3, 0, 1)


class Files:
    """A tree that says what it is asked."""

    def read(self, _caller, _file, size, offset):
        return b"read %d %d" % (size, offset)

    def splice_from(self, _caller, _file, size, offset, nonblock):
        return b"splice %d %d %d" % (size, offset, nonblock)

    def write(self, *_asked):
        return 1

    def splice_into(self, *_asked):
        return 2


@pytest.fixture
def ask(monkeypatch):
    """Reads as a thread that is in a system call; returns the answer, or an errno."""

    def ask(call, open_flags=DIRECT, how=wire.READ_LOCKOWNER, size=PAGE, **given):
        monkeypatch.setattr(splices, "system_call", lambda _pid: call)
        flags = given.get("pipe", os.O_WRONLY)
        monkeypatch.setattr(splices, "descriptor_flags", lambda _pid, _fd: flags)
        file = SimpleNamespace(constant=given.get("constant", False))
        asked = wire.ReadRequest(1, 7, size, how, open_flags)
        request = SimpleNamespace(pid=100, caller=None)
        tree, request, file = stand_in(Files()), stand_in(request), stand_in(file)
        try:
            return splices.read(tree, request, file, asked)
        except KernelError as error:
            return errno.errorcode[error.errno]

    return ask


def test_who_reads(ask):
    assert ask(READ, 0) == ask(READ) == ask((-1, ())) == b"read 4096 7"
    assert ask(SPLICE, 0) == b"read 4096 7"  # an older Linux cannot tell
    assert ask(SPLICE, 0, 0) == "EINVAL"  # a page for the page cache
    assert ask(SPLICE, constant=True, how=0) == b"read 4096 7"
    assert ask(SPLICE) == ask(SENDFILE) == b"splice 4096 7 0"


def test_a_splice_that_does_not_wait(ask):
    assert ask(NOW) == b"splice 4096 7 1"
    assert ask(SPLICE, pipe=os.O_NONBLOCK) == b"splice 4096 7 1"
    assert ask(SPLICE, pipe=os.O_RDWR) == ask(SPLICE, pipe=-1) == b"splice 4096 7 0"


def test_linux_does_not_ask_for_more_after_the_largest_answer(ask):
    assert ask(SPLICE, size=splices.LARGEST) == b"splice 126976 7 0"
    assert ask(SPLICE, size=splices.LARGEST - PAGE) == b"splice 126976 7 0"


def test_who_writes(monkeypatch):
    for call, flags, taken in ((READ, DIRECT, 1), (SPLICE, 0, 1), (SPLICE, DIRECT, 2)):
        monkeypatch.setattr(splices, "system_call", lambda _pid, call=call: call)
        asked = wire.WriteRequest(1, 0, b"x", flags)
        request = stand_in(SimpleNamespace(pid=100, caller=None))
        assert splices.write(stand_in(Files()), request, stand_in(None), asked) == taken
