# SPDX-License-Identifier: GPL-2.0-or-later
"""Packets of GDB's remote serial protocol: framing, checksums, escapes, run-lengths.

Document: "Debugging with GDB", appendix E.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum

MAX_SIZE = 0x10000  # bytes of a packet's body, as the stub says to gdb
MAX_RAW = 4 * MAX_SIZE  # and of what is received of one: escapes, and some more
_ESCAPE, _XOR = 0x7D, 0x20
_BEGIN, _END, _REPEAT, _INTERRUPT = b"$", b"#", 0x2A, 3
_MEANING = re.compile(rb"[#$}*]")
# not of a byte that is escaped: it would be repeated as it stands in the packet
_RUN = re.compile(rb"(?<!})([^}])\1{3,}", re.DOTALL)
_DIGITS = frozenset(b"0123456789abcdefABCDEF")
_RUN_BASE = 29  # added to a number of repetitions makes it a printable character
_MIN_RUN, _MAX_RUN = 3, 97  # repetitions; the character for the last one is ~
_NO_COUNTS = frozenset(b"#$}*")


class Mark(Enum):
    """What comes between packets."""

    INTERRUPT = 1  # Ctrl-C
    DAMAGED = 2  # a packet with a wrong checksum
    AGAIN = 3  # the other side wants the last packet once more


class TooLongError(Exception):
    """A packet is longer than anybody may send."""


class PacketReader:
    """Finds packets in a stream of bytes, which may be cut anywhere."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes | Mark]:
        """Yield the bodies of packets, and marks; TooLongError."""
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
            if first == ord("-"):
                return Mark.AGAIN
        return None

    def _packet(self) -> bytes | Mark | None:
        data = self._data
        end = data.find(_END, 1)
        if end > MAX_RAW or (end < 0 and len(data) > MAX_RAW):
            raise TooLongError
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
    """Undo escapes and run-lengths; ValueError: nothing stands before or behind one."""
    if not {_ESCAPE, _REPEAT}.intersection(body):
        return body
    found = bytearray()
    rest = iter(body)
    for byte in rest:
        if byte in (_ESCAPE, _REPEAT):
            operand = next(rest, None)
            if operand is None:
                raise ValueError("a packet ends in an escape")
            if byte == _ESCAPE:
                found.append(operand ^ _XOR)
                continue
            count = operand - _RUN_BASE
            if count < 0 or not found:
                raise ValueError("nothing is repeated")
            found += found[-1:] * count
            if len(found) > MAX_RAW:
                raise ValueError("too much is repeated")
        else:
            found.append(byte)
    return bytes(found)


def encode(body: bytes) -> bytes:
    """Return a packet with this body."""
    packed = _pack(body)
    return b"$%b#%02x" % (packed, checksum(packed))


def _pack(body: bytes) -> bytes:
    """Escape what has a meaning, and shorten runs of a byte."""
    escaped = _MEANING.sub(lambda found: bytes((_ESCAPE, found[0][0] ^ _XOR)), body)
    return _RUN.sub(lambda found: _run(found[1], len(found[0])), escaped)


def _run(one: bytes, count: int) -> bytes:
    """Return a byte so many times, as packets have it."""
    found = b""
    while count:
        found += one
        count -= 1
        repeated = min(count, _MAX_RUN)
        while repeated + _RUN_BASE in _NO_COUNTS:
            repeated -= 1
        if repeated >= _MIN_RUN:
            found += bytes((_REPEAT, repeated + _RUN_BASE))
            count -= repeated
    return found
