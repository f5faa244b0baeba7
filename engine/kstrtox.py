# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse characters, numbers and truth values of users' writes as the kernel does.

Text is str with one character per byte (latin-1), so that lengths and the positions in
error messages are the kernel's.  What ends in ``_from_user``, and the number of a
sysctl, takes the bytes of one write instead; as in the kernel they end at the first
NUL.  Kernel: lib/kstrtox.c
"""

from __future__ import annotations

import errno

from kpfs.base.errors import KernelError
from kpfs.base.typed import NamedTuple

ULONG_MAX = (1 << 64) - 1
LONG_MAX = ULONG_MAX >> 1
LONG_MIN = -LONG_MAX - 1
UINT_MAX = (1 << 32) - 1

BLANKS = "\t\n\v\f\r \xa0"
_DIGITS = "0123456789"
_XDIGITS = "0123456789abcdefABCDEF"
_TRUE = ("y", "Y", "t", "T", "1")
_FALSE = ("n", "N", "f", "F", "0")
_NUMBER_SIZE = 66  # bytes of a write that kstrtoul_from_user() looks at
_SYSCTL_NUMBER = 21  # bytes of a number that proc_get_long() looks at
_SYSCTL_WRITE = 4095  # bytes of a write that a sysctl looks at


def is_digit(char: str) -> bool:
    """Return True for 0 to 9; str.isdigit() knows many more.  Kernel: isdigit()"""
    return len(char) == 1 and char in _DIGITS


def is_space(char: str) -> bool:
    """Kernel: isspace()"""
    return char in BLANKS


def _scan(s: str, base: int) -> tuple[int, int, int]:
    """Return (value, index of the first digit, index after the last).

    The value may exceed 64 bits; without a digit it is 0, and both indexes are equal.
    Kernel: _parse_integer_fixup_radix(), _parse_integer()
    """
    start = 0
    if base == 0:
        base = 10
        if s[:1] == "0":
            is_hex = len(s) > 2 and s[1] in "xX" and s[2] in _XDIGITS
            base = 16 if is_hex else 8
    if base == 16 and s[:2] in ("0x", "0X"):
        start = 2
    allowed = _XDIGITS if base == 16 else _DIGITS[:base]
    end = len(s) - len(s[start:].lstrip(allowed))
    return (int(s[start:end], base) if end > start else 0), start, end


def _kstrtoull(s: str, base: int) -> int:
    """Digits to the end, one newline tolerated; EINVAL, ERANGE."""
    value, start, end = _scan(s, base)
    if value > ULONG_MAX:
        raise KernelError(errno.ERANGE, f"{s!r} overflows")
    if end == start or s[end:] not in ("", "\n"):
        raise KernelError(errno.EINVAL, f"{s!r} is no number")
    return value


def kstrtoul(s: str, base: int = 0) -> int:
    """Parse 64 unsigned bits, + allowed; EINVAL, ERANGE.  Kernel: kstrtoul()."""
    return _kstrtoull(s[1:] if s[:1] == "+" else s, base)


def kstrtol(s: str, base: int = 0) -> int:
    """Signed 64-bit number; EINVAL, ERANGE.  Kernel: kstrtol()."""
    value = _kstrtoull(s[1:] if s[:1] in ("+", "-") else s, base)
    if s[:1] == "-":
        value = -value
    if not LONG_MIN <= value <= LONG_MAX:
        raise KernelError(errno.ERANGE, f"{s!r} overflows")
    return value


def kstrtouint(s: str, base: int = 0) -> int:
    """Unsigned 32-bit number; EINVAL, ERANGE.  Kernel: kstrtouint()."""
    value = kstrtoul(s, base)
    if value > UINT_MAX:
        raise KernelError(errno.ERANGE, f"{s!r} overflows")
    return value


def as_long(value: int) -> int:
    """Return an unsigned 64-bit number as the signed one that the kernel stores."""
    return value - (value >> 63 << 64)


def simple_strtoul(s: str, base: int = 0) -> tuple[int, str]:
    """Return (value, rest), 0 where there is no digit.  Kernel: simple_strtoul()."""
    value, _, end = _scan(s, base)
    return value & ULONG_MAX, s[end:]


def kstrtobool(s: str) -> bool:
    """Read a truth value by its first characters; EINVAL.  Kernel: kstrtobool()"""
    if s[:1] in _TRUE or (s[:1] in ("o", "O") and s[1:2] in ("n", "N")):
        return True
    if s[:1] in _FALSE or (s[:1] in ("o", "O") and s[1:2] in ("f", "F")):
        return False
    raise KernelError(errno.EINVAL, f"no truth value: {s[:8]!r}")


# ---- of what was written into a file


def _c_string(data: bytes) -> str:
    return data.partition(b"\0")[0].decode("latin-1")


def kstrtoul_from_user(data: bytes, base: int) -> int:
    """Parse the data of one write.  Kernel: kstrtoul_from_user()."""
    return kstrtoul(_c_string(data[:_NUMBER_SIZE]), base)


def kstrtobool_from_user(data: bytes) -> bool:
    """Parse the data of one write.  Kernel: kstrtobool_from_user()"""
    return kstrtobool(_c_string(data))


class Parsed(NamedTuple):
    """A number of a sysctl write and how much of the write it took."""

    value: int
    used: int


def _proc_get_long(text: str) -> tuple[int, str]:
    """Return (number at the start, rest); EINVAL.  Kernel: proc_get_long()."""
    head = text[:_SYSCTL_NUMBER].partition("\0")[0]
    negative = head[:1] == "-" and len(text) > 1
    digits = head[negative:]
    if not is_digit(digits[:1]):
        raise KernelError(errno.EINVAL, f"no number: {head!r}")
    value, _, end = _scan(digits, 0)
    used = end + negative
    if value > ULONG_MAX or used == _SYSCTL_NUMBER:
        raise KernelError(errno.EINVAL, "the number is too long")
    rest = text[used:]
    if rest and rest[0] not in " \t\n":
        raise KernelError(errno.EINVAL, f"junk after the number: {rest[:8]!r}")
    return (-value if negative else value), rest


def proc_dointvec_minmax(data: bytes, low: int, high: int) -> Parsed:
    """Return the one integer of a sysctl, and the bytes taken with the blanks after it.

    What follows is left for the caller's next write.  EINVAL if there is no number, it
    is out of bounds, or something but a blank follows it.

    Kernel: proc_dointvec_minmax()
    """
    text = data[:_SYSCTL_WRITE].decode("latin-1").lstrip(BLANKS)
    if not text:
        raise KernelError(errno.EINVAL, "nothing but blanks")
    value, rest = _proc_get_long(text)
    if not low <= value <= high:
        raise KernelError(errno.EINVAL, f"{value} is not in {low}..{high}")
    return Parsed(value, len(data) - len(rest.lstrip(BLANKS)))
