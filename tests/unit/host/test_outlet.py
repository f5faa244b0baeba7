# SPDX-License-Identifier: GPL-2.0-or-later
"""Messages to a descriptor that may be full: nobody waits, and whole lines come."""

import os
import socket
import termios
import tty

import pytest

from kpfs.host.outlet import DROPPED, Outlet

LINE = b"%06d " + b"x" * 900 + b"\n"


def pipe():
    return os.pipe()


def sockets():
    ours, theirs = socket.socketpair()
    return ours.detach(), theirs.detach()


def terminal():
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    return ours, theirs


def read_all(reader):
    text = b""
    os.set_blocking(reader, False)
    try:
        while more := os.read(reader, 1 << 16):
            text += more
    except BlockingIOError:
        pass
    return text


@pytest.fixture(params=[pipe, sockets, terminal, "unnamed"])
def ends(request, monkeypatch):
    """A reader, and a writer that others have as well, which waits by itself."""
    make = request.param
    if make == "unnamed":  # no /proc
        make = pipe
        monkeypatch.setattr(os, "open", lambda *_: os.close(-1))
    reader, writer = make()
    yield reader, writer
    assert os.get_blocking(writer)
    os.close(writer)


def test_messages_that_do_not_fit_are_counted(ends):
    reader, writer = ends
    outlet = Outlet(writer)
    came = b""
    number = 0
    for _ in range(2):
        for _ in range(1000):
            outlet.write(LINE % number)
            number += 1
        came += read_all(reader)
    outlet.write(b"the end\n")
    came += read_all(reader)
    *lines, last = came.splitlines(keepends=True)
    assert last == b"the end\n"
    at = 0
    for line in lines:
        if line.startswith(b"**"):
            at += int(line.split()[1])
            assert line == DROPPED % int(line.split()[1])
        else:
            assert line == LINE % at
            at += 1
    assert at == number
    os.close(reader)


def test_a_terminal_that_was_stopped():
    reader, writer = terminal()
    termios.tcflow(writer, termios.TCOOFF)
    outlet = Outlet(writer)
    outlet.write(b"one\n")
    outlet.write(b"two\n")
    assert read_all(reader) == b""
    termios.tcflow(writer, termios.TCOON)
    outlet.write(b"three\n")
    assert read_all(reader) == DROPPED % 2 + b"three\n"
    os.close(reader)
    os.close(writer)


def test_nobody_reads_it_any_more(ends):
    reader, writer = ends
    outlet = Outlet(writer)
    os.close(reader)
    for _ in range(3):
        outlet.write(b"word\n")


def test_a_file(tmp_path):
    path = tmp_path / "file"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    outlet = Outlet(fd)
    outlet.write(b"one\n")
    outlet.write(b"two\n" * 5000)
    assert path.read_bytes() == b"one\n" + b"two\n" * 5000
    os.close(fd)
