# SPDX-License-Identifier: GPL-2.0-or-later
"""Splits what users write into words and checks names, as the kernel does.

Text is str with one character per byte (latin-1), as in kpfs.engine.kstrtox.
"""

import errno
import re

from kpfs.engine.errors import KernelError
from kpfs.engine.kstrtox import BLANKS

_WORD = re.compile(f"[^{BLANKS}]+")
# Kernel: _ctype[] calls these bytes letters, whatever the user meant by them
_HIGH_ALPHA = "\xc0-\xd6\xd8-\xf6\xf8-\xff"
_NAME = re.compile(f"[A-Za-z_{_HIGH_ALPHA}][A-Za-z0-9_{_HIGH_ALPHA}]*")
_SYSTEM_NAME = re.compile(f"[A-Za-z_{_HIGH_ALPHA}-][A-Za-z0-9_{_HIGH_ALPHA}-]*")


def argv_split(command: str) -> list[str]:
    """Split a command at its blanks.  Kernel: argv_split()."""
    return _WORD.findall(command)


def is_good_name(name: str) -> bool:
    """Whether an event, argument or field may have it.  Kernel: is_good_name()."""
    return _NAME.fullmatch(name) is not None


def is_good_system_name(name: str) -> bool:
    """Whether a group may have it, hyphens too.  Kernel: is_good_system_name()."""
    return _SYSTEM_NAME.fullmatch(name) is not None


def trace_get_user(data: bytes, room: int) -> tuple[str, int]:
    """(first word, bytes up to and with the blank behind it); EINVAL: too long.

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
