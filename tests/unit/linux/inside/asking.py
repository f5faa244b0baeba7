# SPDX-License-Identifier: GPL-2.0-or-later
"""Asks a file server of a guest as a kernel does."""

import struct

from kpfs.base import fuse_wire as wire
from kpfs.base.fuse_wire import Opcode
from kpfs.linux.inside.files import MAX_IO


class Memory:
    """Room for replies, in pieces as pages are."""

    def __init__(self):
        self.data = bytearray(MAX_IO + 4096)

    def put(self, at, data):
        self.data[at : at + len(data)] = data

    def views(self, at, size):
        view = memoryview(self.data)
        middle = at + size // 3
        return [view[at:middle], view[middle : at + size]]


class Client:
    """The kernel of one server."""

    def __init__(self, files):
        self.files = files
        self.memory = Memory()

    def ask(self, opcode, node, body=b""):
        """The error and the body of the reply."""
        size = wire.HEADER.size + len(body)
        head = wire.HEADER.pack(size, opcode, 7, node, 0, 0, 1)
        length = self.files.answer(head + body, self.memory)
        if not length:
            return None
        size, error, unique = wire.ANSWER.unpack_from(self.memory.data)
        assert (size, unique) == (length, 7)
        return -error, bytes(self.memory.data[wire.ANSWER.size : length])

    def read(self, node, size=100, offset=0):
        """The error and the contents that a read of a file gives."""
        return self.ask(Opcode.READ, node, wire.READ_REQUEST.pack(0, offset, size, 0))

    def node(self, path):
        """The number of a file by its path; 0 where there is none."""
        number = wire.ROOT
        for name in str(path).strip("/").split("/"):
            error, reply = self.ask(Opcode.LOOKUP, number, name.encode() + b"\0")
            assert error == 0
            (number,) = struct.unpack_from("<Q", reply)
        return number


def names(reply):
    found, at = [], 0
    while at < len(reply):
        _, _, length, _ = struct.unpack_from("<QQII", reply, at)
        found.append(reply[at + 24 : at + 24 + length])
        at += 24 + length + -length % 8
    return found
