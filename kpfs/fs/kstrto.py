# SPDX-License-Identifier: GPL-2.0-or-later
"""What is written into a file, as a truth value or a number, with the kernel's errnos.

Each takes the bytes of one write.  As in the kernel a text ends at its first NUL.
"""

from __future__ import annotations

import errno
from typing import NamedTuple

from kpfs.engine.errors import KernelError

_TRUE = b"yYtT1"
_FALSE = b"nNfF0"
_DIGITS = b"0123456789abcdef"
_SPACES = b" \t\n\v\f\r"  # isspace()
_ULONG_TEXT = 66  # bytes of a write that kstrtoul_from_user() looks at
_INT_TEXT = 21  # bytes of a number that proc_get_long() looks at
_PAGE = 4095  # bytes of a write that a sysctl looks at
_U64_MAX = (1 << 64) - 1


def kstrtobool(data: bytes) -> bool:
    """The first byte decides, after an ``o`` the second; EINVAL if neither does.

    Kernel: kstrtobool_from_user()
    """
    first, second = data[:1], data[1:2]
    if first and first in b"oO":
        first, second = second, b""
        if first and first in b"nN":
            return True
        if first and first in b"fF":
            return False
    elif first and first in _TRUE:
        return True
    elif first and first in _FALSE:
        return False
    raise KernelError(errno.EINVAL, f"no truth value: {data[:8]!r}")


def _radix(text: bytes, base: int) -> tuple[bytes, int]:
    """(text without its prefix, base).  Kernel: _parse_integer_fixup_radix()."""
    if base == 0:
        base = 10
        if text[:1] == b"0":
            hexadecimal = text[1:2] in (b"x", b"X") and _is_digit(text[2:3], 16)
            base = 16 if hexadecimal else 8
    if base == 16 and text[:1] == b"0" and text[1:2] in (b"x", b"X"):
        text = text[2:]
    return text, base


def _is_digit(char: bytes, base: int) -> bool:
    return len(char) == 1 and char.lower() in _DIGITS[:base]


def _parse_integer(text: bytes, base: int) -> tuple[int, int]:
    """(value, bytes used) of the digits at the start; may exceed 64 bits."""
    used = 0
    while _is_digit(text[used : used + 1], base):
        used += 1
    return (int(text[:used], base) if used else 0), used


def _kstrtoull(text: bytes, base: int) -> int:
    text, base = _radix(text, base)
    value, used = _parse_integer(text, base)
    if value > _U64_MAX:
        raise KernelError(errno.ERANGE, "more than 64 bits")
    rest = text[used:]
    if not used or rest not in (b"", b"\n"):
        raise KernelError(errno.EINVAL, f"no number: {text[:24]!r}")
    return value


def _c_string(data: bytes) -> bytes:
    return data[:_ULONG_TEXT].split(b"\0", 1)[0]


def kstrtoul(data: bytes, base: int = 10) -> int:
    """An unsigned number, one ``+`` before and one newline after it allowed.

    EINVAL: no such number; ERANGE: more than 64 bits.  Kernel: kstrtoul_from_user()
    """
    text = _c_string(data)
    return _kstrtoull(text[1:] if text[:1] == b"+" else text, base)


class Parsed(NamedTuple):
    """A number of a sysctl write and how much of the write it took."""

    value: int
    used: int


def _skip_spaces(data: bytes) -> bytes:
    return data.lstrip(_SPACES)


def proc_get_long(data: bytes) -> tuple[int, bytes]:
    """(number at the start of data, rest); EINVAL.  Kernel: proc_get_long()."""
    text = data[:_INT_TEXT].split(b"\0", 1)[0]
    negative = text[:1] == b"-" and len(data) > 1
    digits = text[1:] if negative else text
    if not digits[:1].isdigit():
        raise KernelError(errno.EINVAL, f"no number: {text!r}")
    body, base = _radix(digits, 0)
    value, used = _parse_integer(body, base)
    used += len(text) - len(body)
    if value > _U64_MAX or used == _INT_TEXT:
        raise KernelError(errno.EINVAL, "the number is too long")
    rest = data[used:]
    if rest and rest[:1] not in (b" ", b"\t", b"\n"):
        raise KernelError(errno.EINVAL, f"junk after the number: {rest[:8]!r}")
    return (-value if negative else value), rest


def proc_dointvec_minmax(data: bytes, low: int, high: int) -> Parsed:
    """The one integer of a sysctl, and the bytes taken with the blanks after it.

    What follows is left for the caller's next write.  EINVAL if there is no number, it
    is out of bounds, or something but a blank follows it.

    Kernel: proc_dointvec_minmax()
    """
    text = _skip_spaces(data[:_PAGE])
    if not text:
        raise KernelError(errno.EINVAL, "nothing but blanks")
    value, rest = proc_get_long(text)
    if not low <= value <= high:
        raise KernelError(errno.EINVAL, f"{value} is not in {low}..{high}")
    return Parsed(value, len(data) - len(_skip_spaces(rest)))
