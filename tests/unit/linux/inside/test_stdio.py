# SPDX-License-Identifier: GPL-2.0-or-later
import os
import socket

from kpfs.linux.inside import stdio


def test_packets_of_a_pipe_are_looked_at_together():
    ours, theirs = os.pipe2(os.O_DIRECT)
    with os.fdopen(ours), os.fdopen(theirs):
        for packet in (b"one", b"two"):
            os.write(theirs, packet)
        peek, take = stdio.unread(ours)
        assert peek(4096) == peek(4096) == b"onetwo"
        take(3)
        assert peek(4096) == b"two"


def test_messages_are_taken_as_wholes():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        message = bytes(9000)
        ours.send(message)
        peek, take = stdio.unread(theirs.fileno())
        assert peek(4096) == message
        take(9000)


def test_stream_that_somebody_else_has_read_is_left():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.send(b"gone")
        peek, take = stdio.unread(theirs.fileno())
        assert peek(4096) == theirs.recv(9)
        take(4)
