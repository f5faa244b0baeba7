# SPDX-License-Identifier: GPL-2.0-or-later
"""The loop of a mount: unwanted answers, and order; integration/fuse has the rest."""

import errno
import os
import socket
import threading

import pytest

from kpfs.base.fuse_wire import HEADER, ROOT, Opcode
from kpfs.base.lock import FairLock
from kpfs.fs.fuse.loop import Answer, FuseLoop, Request, _Server


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


@pytest.fixture
def linux():
    """The other end of a device."""
    ours, device = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, device:
        yield ours, device.fileno()


def send(linux, opcode, unique, body=b""):
    """Send a request of a thread of its own."""
    header = HEADER.pack(HEADER.size + len(body), opcode, unique, ROOT, 0, 0, unique)
    linux.send(header + body)


def served(loop):
    """Return the number of the next request, as it begins to be served."""
    request = loop._receive()
    loop._take(_Server(lambda server: None), request)
    return request.unique


def test_writes_do_not_wait_for_all_others(linux):
    """Linux sends the second only once the first is answered."""
    linux, device = linux
    loop = FuseLoop(device, "/nowhere", lambda request: None, FairLock())
    send(linux, Opcode.WRITE, 2)
    send(linux, Opcode.LOOKUP, 4)
    send(linux, Opcode.LOOKUP, 6)
    send(linux, Opcode.RELEASE, 8)
    assert served(loop) == 2
    send(linux, Opcode.WRITE, 10)
    assert [served(loop) for _ in range(2)] == [8, 10]
    send(linux, Opcode.WRITE, 12)
    assert sorted(served(loop) for _ in range(3)) == [4, 6, 12]
    later = threading.Timer(0.05, send, [linux, Opcode.LOOKUP, 14])
    later.start()
    assert served(loop) == 14
    later.join()


def test_a_signal_comes_to_a_request_that_waits_for_its_turn(linux):
    linux, device = linux
    loop = FuseLoop(device, "/nowhere", lambda request: None, FairLock())
    send(linux, Opcode.WRITE, 2)
    for unique in range(4, 14, 2):
        send(linux, Opcode.READ, unique)
    assert [served(loop) for _ in range(4)] == [2, 4, 6, 8]
    send(linux, Opcode.INTERRUPT, 0, (12).to_bytes(8, "little"))
    assert served(loop) == 10
    request = loop._receive()
    assert request
    assert (request.unique, request.interrupted) == (12, True)
