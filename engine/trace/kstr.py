# SPDX-License-Identifier: GPL-2.0-or-later
"""How the kernel reads numbers, words and names out of what users write.

Text from users is bytes; here it is str with one character per byte (latin-1), so that
lengths and caret positions are the kernel's.
"""

import errno
import re

from kpfs.engine.errors import KernelError
from kpfs.engine.ktypes import MASK64

ULONG_MAX = MASK64
LONG_MAX = MASK64 >> 1
LONG_MIN = -LONG_MAX - 1
UINT_MAX = 0xFFFF_FFFF

BLANKS = "\t\n\v\f\r \xa0"
_WORD = re.compile(f"[^{BLANKS}]+")
_DIGITS = "0123456789"
_XDIGITS = "0123456789abcdefABCDEF"
# Kernel: _ctype[] calls these bytes letters, whatever the user meant by them
_HIGH_ALPHA = "\xc0-\xd6\xd8-\xf6\xf8-\xff"
_NAME = re.compile(f"[A-Za-z_{_HIGH_ALPHA}][A-Za-z0-9_{_HIGH_ALPHA}]*")
_SYSTEM_NAME = re.compile(f"[A-Za-z_{_HIGH_ALPHA}-][A-Za-z0-9_{_HIGH_ALPHA}-]*")


def is_digit(char: str) -> bool:
    """Of one character or none; str.isdigit() knows many more.  Kernel: isdigit()"""
    return len(char) == 1 and char in _DIGITS


def is_space(char: str) -> bool:
    """Kernel: isspace()"""
    return char in BLANKS


def argv_split(command: str) -> list[str]:
    """Words between blanks.  Kernel: argv_split()."""
    return _WORD.findall(command)


def is_good_name(name: str) -> bool:
    """Good for an event, an argument or a field.  Kernel: is_good_name()."""
    return _NAME.fullmatch(name) is not None


def is_good_system_name(name: str) -> bool:
    """Good for a group: hyphens too.  Kernel: is_good_system_name()."""
    return _SYSTEM_NAME.fullmatch(name) is not None


def _fixup_radix(s: str, base: int) -> tuple[int, int]:
    """(base, index of the first digit).  Kernel: _parse_integer_fixup_radix()."""
    is_hex = len(s) > 2 and s[0] == "0" and s[1] in "xX" and s[2] in _XDIGITS
    if base == 0:
        if s[:1] != "0":
            return 10, 0
        base = 16 if is_hex else 8
    if base == 16 and s[:1] == "0" and s[1:2] in ("x", "X"):
        return 16, 2
    return base, 0


def _scan(s: str, base: int) -> tuple[int, int]:
    """(value, index after the digits); no digit: the index of where they should be."""
    base, start = _fixup_radix(s, base)
    allowed = _XDIGITS if base == 16 else _DIGITS[:base]
    end = start
    while end < len(s) and s[end] in allowed:
        end += 1
    return (int(s[start:end], base) if end > start else 0), end


def _kstrtoull(s: str, base: int) -> int:
    """Digits to the end, one newline tolerated; EINVAL, ERANGE."""
    value, end = _scan(s, base)
    start = _fixup_radix(s, base)[1]
    if value > MASK64:
        raise KernelError(errno.ERANGE, f"{s!r} overflows")
    if end == start or s[end:] not in ("", "\n"):
        raise KernelError(errno.EINVAL, f"{s!r} is no number")
    return value


def kstrtoul(s: str, base: int = 0) -> int:
    """Unsigned 64-bit number, a leading + allowed; EINVAL, ERANGE.

    Kernel: kstrtoul().
    """
    return _kstrtoull(s[1:] if s[:1] == "+" else s, base)


def kstrtol(s: str, base: int = 0) -> int:
    """Signed 64-bit number; EINVAL, ERANGE.  Kernel: kstrtol()."""
    if s[:1] == "-":
        value = -_kstrtoull(s[1:], base)
        if value < LONG_MIN:
            raise KernelError(errno.ERANGE, f"{s!r} overflows")
        return value
    value = kstrtoul(s, base)
    if value > LONG_MAX:
        raise KernelError(errno.ERANGE, f"{s!r} overflows")
    return value


def kstrtouint(s: str, base: int = 0) -> int:
    """Unsigned 32-bit number; EINVAL, ERANGE.  Kernel: kstrtouint()."""
    value = kstrtoul(s, base)
    if value > UINT_MAX:
        raise KernelError(errno.ERANGE, f"{s!r} overflows")
    return value


def kstrtoul_from_user(data: bytes, base: int) -> int:
    """As kstrtoul(), of the first 66 bytes written.

    Kernel: kstrtoul_from_user().
    """
    text = data[:66].decode("latin-1")
    return kstrtoul(text.partition("\0")[0], base)


def simple_strtoul(s: str, base: int = 0) -> tuple[int, str]:
    """(value, rest), 0 where there is no digit.  Kernel: simple_strtoul()."""
    value, end = _scan(s, base)
    return value & MASK64, s[end:]


def trace_get_user(data: bytes, room: int) -> tuple[str, int]:
    """(first word, bytes used up to and with the blank after it); EINVAL: too long.

    Kernel: trace_get_user().
    """
    text = data.decode("latin-1")
    start = 0
    while start < len(text) and text[start] in BLANKS:
        start += 1
    end = start
    while end < len(text) and text[end] not in BLANKS and text[end] != "\0":
        end += 1
    if end - start > room:
        raise KernelError(errno.EINVAL, "word too long")
    return text[start:end], min(end + 1, len(text))
