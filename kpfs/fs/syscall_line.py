# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse writes to machine/syscall: ``NAME [ARG...]`` on a line.

An ARG is a number in C's notation, ``"text"``, ``buf`` (the address of a buffer of the
task) or else a text without quotes.
"""

from __future__ import annotations

import enum
import errno
import re

from kpfs.base.errors import KernelError
from kpfs.base.typed import NamedTuple
from kpfs.base.units import MAX_ARGS

MAX_NUMBER = 24  # characters, those of 64 bits in octal with a sign
NUMBER = rb"-?(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)"
WORD = rb'"(?P<quoted>[^"]*)"|(?P<word>[^\s"]+)'


class Buffer(enum.Enum):
    """The argument that stands for the task's buffer."""

    BUF = "buf"


class SyscallLine(NamedTuple):
    name: str
    args: list[int | bytes | Buffer]


def parse(line: bytes) -> SyscallLine | None:
    """Parse the call of a line, None for an empty one; EINVAL."""
    words = list(re.finditer(WORD, line))
    if not words:
        return None
    name, *rest = words
    if len(rest) > MAX_ARGS:
        raise KernelError(errno.EINVAL, "more than six arguments")
    return SyscallLine(name[0].decode("latin-1"), [_argument(word) for word in rest])


def _argument(match: re.Match[bytes]) -> int | bytes | Buffer:
    quoted, word = match["quoted"], match["word"]
    if quoted is not None:
        return bytes(quoted)
    if word == b"buf":
        return Buffer.BUF
    return bytes(word) if not re.fullmatch(NUMBER, word) else number(word)


def number(word: bytes) -> int:
    """Parse a number in C's notation, as NUMBER has it; EINVAL: more than 64 bits."""
    if len(word) > MAX_NUMBER:
        raise KernelError(errno.EINVAL, "more than 64 bits")
    octal = len(word) > 1 and word.isdigit() and word.startswith(b"0")
    return int(word, 8 if octal else 0)
