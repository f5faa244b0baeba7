# SPDX-License-Identifier: GPL-2.0-or-later
"""Asks a file server of a guest as a kernel does."""

import struct

from kpfs.linux.inside import wire
from kpfs.linux.inside.wire import Opcode


class Memory:
    """Room for replies, in pieces as pages are."""

    def __init__(self):
        self.data = bytearray(wire.MAX_IO + 4096)

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
        size = wire.IN_HEADER.size + len(body)
        head = wire.IN_HEADER.pack(size, opcode, 7, node, 0, 0, 1, 0)
        length = self.files.answer(head + body, self.memory)
        if not length:
            return None
        size, error, unique = wire.OUT_HEADER.unpack_from(self.memory.data)
        assert (size, unique) == (length, 7)
        return -error, bytes(self.memory.data[wire.OUT_HEADER.size : length])

    def node(self, path):
        """The number of a file by its path; 0 where there is none."""
        number = wire.ROOT_ID
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
