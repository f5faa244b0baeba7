# SPDX-License-Identifier: GPL-2.0-or-later
"""Descriptors go over a channel, with the bytes that they were sent with."""

import os
import subprocess
import sys
from contextlib import closing

import pytest

from kpfs.host.channel import pair, receive_fds, send_fds


@pytest.fixture
def ends():
    ours, theirs = pair()
    with closing(ours), closing(theirs):
        yield ours, theirs


def test_descriptors_arrive_as_others_of_the_same_files(ends):
    read, write = os.pipe()
    send_fds(ends[0], b"l", [read, write])
    got = receive_fds(ends[1], 2)
    assert len(got) == 2
    assert not {read, write} & set(got)
    os.write(got[1], b"through")
    assert os.read(read, 99) == b"through"
    for fd in (read, write, *got):
        os.close(fd)


def test_a_byte_may_come_alone_and_the_end_without_any(ends):
    ends[0].send(b"l")
    assert receive_fds(ends[1], 2) == []
    ends[0].close()
    assert receive_fds(ends[1], 2) == []


def test_an_executed_program_does_not_get_its_ends(ends):
    assert not any(os.get_inheritable(end.fileno()) for end in ends)


def test_the_module_socket_is_not_imported():
    code = "import sys, kpfs.mirror.supervisor, kpfs.mirror.keeper, kpfs.commands.run\n"
    code += "print('socket' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
