# SPDX-License-Identifier: GPL-2.0-or-later
"""Splits what users write into words and checks names, as the kernel does.

Text is str with one character per byte (latin-1), as in kpfs.engine.kstrtox.
"""

import errno
import re

from kpfs.base.errors import KernelError
from kpfs.engine.kstrtox import BLANKS

_WORD = re.compile(f"[^{BLANKS}]+")
_USER_WORD = re.compile(f"[{BLANKS}]*([^{BLANKS}\0]*)".encode("latin-1"))
# Kernel: _ctype[] calls these bytes letters, whatever the user meant by them
_HIGH_ALPHA = "\xc0-\xd6\xd8-\xf6\xf8-\xff"
_NAME = re.compile(f"[A-Za-z_{_HIGH_ALPHA}][A-Za-z0-9_{_HIGH_ALPHA}]*")
_SYSTEM_NAME = re.compile(f"[A-Za-z_{_HIGH_ALPHA}-][A-Za-z0-9_{_HIGH_ALPHA}-]*")


def argv_split(command: str) -> list[str]:
    """Split a command at its blanks.  Kernel: argv_split()."""
    return _WORD.findall(command)


def is_good_name(name: str) -> bool:
    """True if an event, argument or field may have it.  Kernel: is_good_name()."""
    return _NAME.fullmatch(name) is not None


def is_good_system_name(name: str) -> bool:
    """Return True for a group's name, hyphens too.  Kernel: is_good_system_name()."""
    return _SYSTEM_NAME.fullmatch(name) is not None


def trace_get_user(data: bytes, room: int, start: int = 0) -> tuple[str, int]:
    """Return (first word from start on, place behind it and its blank); EINVAL.

    It takes no longer than the word is.  Kernel: trace_get_user().
    """
    found = _USER_WORD.match(data, start)
    assert found is not None  # it matches nothing as well
    begin, end = found.span(1)
    if end - begin > room:
        raise KernelError(errno.EINVAL, "word too long")
    return data[begin:end].decode("latin-1"), min(end + 1, len(data))
