# SPDX-License-Identifier: GPL-2.0-or-later
"""The loop of a mount, where an answer is not wanted; integration/fuse has the rest."""

import errno
import os

import pytest

from kpfs.base.fuse_wire import ROOT, Opcode
from kpfs.base.lock import FairLock
from kpfs.fs.fuse.loop import Answer, FuseLoop, Request


@pytest.fixture
def errors():
    """The errors of successive writes to the device."""
    return [errno.ENOENT]


@pytest.fixture
def loop(monkeypatch, errors):
    def refuse(_fd, _data):
        number = errors.pop(0)
        raise OSError(number, os.strerror(number))

    made = FuseLoop(-1, "/nowhere", lambda request: None, FairLock())
    monkeypatch.setattr(os, "write", refuse)
    return made


@pytest.fixture
def request_of_open():
    return Request((0, Opcode.OPEN, 2, ROOT, 0, 0, 1), b"")


def test_unwanted_result_is_undone(loop, request_of_open):
    done = []

    def undo():
        done.append(request_of_open.interrupted)

    request_of_open.interrupt()
    loop._give(request_of_open, Answer(undo=undo, then=lambda: done.append("then")))
    assert done == [False]


@pytest.mark.logs("was not answered")
def test_the_loop_goes_on(loop, errors, request_of_open):
    def undo():
        raise ZeroDivisionError

    loop._give(request_of_open, Answer(undo=undo))
    errors.append(errno.EINVAL)
    loop._give(request_of_open, Answer())
    assert errors == []
    loop._give(request_of_open, None)
