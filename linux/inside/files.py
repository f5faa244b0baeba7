# SPDX-License-Identifier: GPL-2.0-or-later
"""The frame of a FUSE server for a kernel's requests: it decodes them and
packs replies.

A subclass answers each request about one of its nodes.
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from kpfs.linux.inside import wire
from kpfs.linux.inside.wire import Opcode

N = TypeVar("N")  # what a number of the protocol stands for
Answers = Mapping[int, Callable[[N, bytes], bytes]]
Entry = tuple[bytes, int, int]  # name, inode and type of what is in a directory


class ReplyMemory(Protocol):
    """The memory that a reply is written to."""

    def put(self, at: int, data: bytes) -> None: ...

    def views(self, at: int, size: int) -> list[memoryview]:
        """Return size bytes of memory from an offset on, in pieces."""


class Files(ABC, Generic[N]):
    """Answers FUSE requests. Context: one thread."""

    def __init__(self, nodes: dict[int, N], answers: Answers[N]) -> None:
        """answers: functions by opcode. An OSError that one raises becomes the reply's
        errno.
        """
        self._nodes = nodes
        self._answers = answers
        self.requests = 0

    @abstractmethod
    def _read(self, node: N, body: bytes, reply: ReplyMemory) -> int:
        """Write file contents behind the head of a reply; return the number of bytes.
        Raises OSError.
        """

    @abstractmethod
    def _forget(self, number: int, lookups: int) -> None:
        """Drop that many lookups of a node, which the kernel has given back."""

    def answer(self, request: bytes, reply: ReplyMemory) -> int:
        """Write the reply to a request; return its size, or 0 if there is no reply."""
        _, opcode, unique, number, *_ = wire.IN_HEADER.unpack_from(request)
        body = request[wire.IN_HEADER.size :]
        self.requests += 1
        head = wire.OUT_HEADER.size
        try:
            if opcode == Opcode.READ:
                size = self._read(self._nodes[number], body, reply)
            else:
                data = self._answer(opcode, number, body)
                if data is None:
                    return 0
                size = len(data)
                reply.put(head, data)
            error = 0
        except OSError as failed:
            size, error = 0, -(failed.errno or errno.EIO)
        except KeyError:  # no such node
            size, error = 0, -errno.ESTALE
        reply.put(0, wire.OUT_HEADER.pack(head + size, error, unique))
        return head + size

    def _answer(self, opcode: int, number: int, body: bytes) -> bytes | None:
        """Return the body of a reply, or None if the request gets no reply."""
        if opcode == Opcode.INIT:
            return wire.init_reply(body)
        if opcode == Opcode.FORGET:
            self._forget(number, *wire.FORGET_IN.unpack_from(body))
            return None
        if opcode == Opcode.BATCH_FORGET:
            count, _ = wire.BATCH_FORGET_IN.unpack_from(body)
            start = wire.BATCH_FORGET_IN.size
            for i in range(count):
                at = start + i * wire.FORGET_ONE.size
                self._forget(*wire.FORGET_ONE.unpack_from(body, at))
            return None
        if opcode == Opcode.INTERRUPT:
            return None
        make = self._answers.get(opcode)
        if make is None:
            raise OSError(errno.ENOSYS, "not served")
        return make(self._nodes[number], body)


def directory_reply(
    rows: Sequence[Entry], body: bytes, before: Callable[[bytes], bytes]
) -> bytes:
    """Pack the entries that fit into a reply to READDIR.

    before(name): what READDIRPLUS puts ahead of each entry.
    """
    _, offset, size = wire.READ_IN.unpack_from(body)
    out = bytearray()
    plus = len(before(b"."))
    for number in range(offset, len(rows)):
        name, ino, kind = rows[number]
        row = wire.dirent(ino or 1, number + 1, name, kind)
        if len(out) + plus + len(row) > size:
            break
        out += before(name) + row
    return bytes(out)


def text(body: bytes) -> bytes:
    """Return the first NUL-terminated name of a request."""
    return body.split(b"\0", 1)[0]
