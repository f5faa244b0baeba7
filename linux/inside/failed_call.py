# SPDX-License-Identifier: GPL-2.0-or-later
"""The calls of a command that have failed, before they are told."""

from __future__ import annotations

from typing import NamedTuple


class Enumerator(NamedTuple):
    """A value that has a name in the kernel's types, if this kernel knows it."""

    enum: str
    value: int


class SymbolName(NamedTuple):
    """The name of a function to probe, of which the kernel may have no symbol."""

    name: str


class Written(NamedTuple):
    """A text that was written to a file."""

    file: str  # as it is told: of one in tracefs the path there
    text: str


class Opened(NamedTuple):
    """A file that was to be opened, or a folder that was to be made or removed."""

    file: str  # likewise
    access: str  # "" of a folder


Word = str | Enumerator | SymbolName | Written | Opened


class FailedCall(NamedTuple):
    """A system call that ended with an error."""

    name: str
    words: tuple[Word, ...]  # what it was asked for
    log: tuple[str, ...] = ()  # the end of the verifier's, or what tracefs says of it
    error: int = 0
    locked: str = ""  # how the kernel's lockdown has it fail
