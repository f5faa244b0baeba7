# SPDX-License-Identifier: GPL-2.0-or-later
"""Text of strangers at a terminal: what it would obey is shown as an escape.

The fields of an index, of an image and of a package, names of modules and symbols, a
kernel's messages, a server's errors and names of files may hold anything. Whatever kpfs
prints goes through one place, so no command has to think of it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Iterable

from kpfs.base.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, TextIO

# control characters but for tabs and the end of a line, those that change the direction
# of text, and surrogates: bytes that are no UTF-8
_OBEYED = (
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    "\ud800-\udfff]"
)
_BYTES = range(0xDC80, 0xDD00)  # surrogates that stand for them


def shown(text: str) -> str:
    """Return text without anything that a terminal would obey."""
    if text.isprintable() or text == "\n":
        return text
    return re.sub(_OBEYED, _escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code in _BYTES or code < 0x100:
        return f"\\x{code & 0xFF:02x}"
    return f"\\u{code:04x}"


class ShownStream:
    """A stream of text that writes what shown() returns."""

    def __init__(self, raw: TextIO) -> None:
        """raw: for text of kpfs itself that the terminal is to obey."""
        self.raw = raw

    def write(self, text: str) -> int:
        return self.raw.write(shown(text))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


class ErrorStream(ShownStream):
    """Standard error, which loses without an error what cannot be written there."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self.raw.flush()


def guard_streams() -> None:
    """Let nothing to standard output and error that a terminal would obey."""
    _open_standard_streams()
    for name, kind in (("stdout", ShownStream), ("stderr", ErrorStream)):
        stream = getattr(sys, name)
        if stream and not isinstance(stream, ShownStream):
            setattr(sys, name, kind(stream))


def _open_standard_streams() -> None:
    """Open each standard stream that this process was begun without.

    Else the next file that is opened would be one, and get what we and CMD print. To
    read or write them still fails with EBADF: input can only be written, output only
    be read.
    """
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if _is_closed(fd):  # and those before it are not, so the next file is it
            with contextlib.suppress(OSError):  # there is no /dev/null
                made = os.open(os.devnull, os.O_RDONLY if fd else os.O_WRONLY)
                os.set_inheritable(made, True)
        if getattr(sys, name) is None:
            with contextlib.suppress(OSError):
                setattr(sys, name, open(fd, "w" if fd else "r", closefd=False))


def _is_closed(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError as error:
        return error.errno == errno.EBADF
    return False


def raw(stream: TextIO | ShownStream) -> TextIO:
    """Return the stream for text that a terminal is to obey."""
    return stream.raw if isinstance(stream, ShownStream) else stream
