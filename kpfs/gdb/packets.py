# SPDX-License-Identifier: GPL-2.0-or-later
"""Packets of GDB's remote serial protocol: framing, checksums, escapes.

Replies could shorten runs of a byte. Ours do not: gdb is on this machine, and to look
for runs takes longer than everything else in sending symbols.

Document: "Debugging with GDB", appendix E.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

MAX_SIZE = 0x10000  # bytes of a packet's body, as the stub says to gdb
MAX_RAW = 4 * MAX_SIZE  # and of what is received of one: escapes, and some more
_ESCAPE, _XOR = 0x7D, 0x20
_BEGIN, _END, _INTERRUPT = b"$", b"#", 3
_TAKEN, _AGAIN = b"+-"
# what has a meaning, and what is sent instead; the escape itself is the first
_ESCAPED = [(bytes((byte,)), bytes((_ESCAPE, byte ^ _XOR))) for byte in b"}#$*"]
_DIGITS = frozenset(b"0123456789abcdefABCDEF")
MAX_READ = (MAX_SIZE - 16) // 2  # bytes of memory in one reply
OK, UNKNOWN = b"OK", b""  # replies
# and errors; gdb shows their numbers
BAD, FAULT, REFUSED, NO_THREAD = b"E16", b"E0e", b"E01", b"E03"


class Mark(Enum):
    """A mark between packets."""

    INTERRUPT = 1  # Ctrl-C
    DAMAGED = 2  # a packet with a wrong checksum
    AGAIN = 3  # the other side wants the last packet once more


class NotGdbError(Exception):
    """No gdb sends this: a packet that is too long, or something else than packets."""


class PacketReader:
    """Finds packets in a stream of bytes, which may be cut anywhere."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes | Mark]:
        """Yield the bodies of packets, and marks; NotGdbError."""
        self._data += data
        while (found := self._next()) is not None:
            yield found

    def _next(self) -> bytes | Mark | None:
        """Return the next packet or mark; None: more is to be received first."""
        data = self._data
        while data:
            if data[:1] == _BEGIN:
                return self._packet()
            first = data[0]
            del data[0]
            if first == _INTERRUPT:
                return Mark.INTERRUPT
            if first == _AGAIN:
                return Mark.AGAIN
            if first != _TAKEN:
                raise NotGdbError
        return None

    def _packet(self) -> bytes | Mark | None:
        data = self._data
        end = data.find(_END, 1)
        if end > MAX_RAW or (end < 0 and len(data) > MAX_RAW):
            raise NotGdbError
        # one that was cut is followed by the next
        again = data.rfind(_BEGIN, 1, end if end >= 0 else len(data))
        if again > 0:
            del data[:again]
            return Mark.DAMAGED
        if end < 0 or len(data) < end + 3:
            return None
        body, digits = bytes(data[1:end]), bytes(data[end + 1 : end + 3])
        del data[: end + 3]
        if not _DIGITS.issuperset(digits) or int(digits, 16) != checksum(body):
            return Mark.DAMAGED
        try:
            return decode(body)
        except ValueError:
            return Mark.DAMAGED


def checksum(body: bytes) -> int:
    return sum(body) & 0xFF


def decode(body: bytes) -> bytes:
    """Undo escapes; ValueError: nothing stands behind one."""
    if _ESCAPE not in body:
        return body
    found = bytearray()
    rest = iter(body)
    for byte in rest:
        if byte == _ESCAPE:
            byte = next(rest, -1) ^ _XOR  # ValueError, if it was the last one
        found.append(byte)
    return bytes(found)


def encode(body: bytes) -> bytes:
    """Return a packet with this body."""
    for meaning, escaped in _ESCAPED:
        body = body.replace(meaning, escaped)
    return b"$%b#%02x" % (body, checksum(body))


def number_of(text: bytes) -> int:
    """Return a number; ValueError: it is none."""
    if not text or not _DIGITS.issuperset(text):
        raise ValueError(text)
    return int(text, 16)


def bytes_of(digits: bytes) -> bytes:
    """Return the bytes that pairs of digits stand for; ValueError."""
    return bytes.fromhex(digits.decode("ascii"))
