# SPDX-License-Identifier: GPL-2.0-or-later
"""Completes the words of ``kpfs`` in bash, zsh and fish.

A shell reads the file completion.SHELL beside this one.  Whenever somebody completes a
word, it asks ``kpfs completion SHELL WORD...`` and acts on the answer.
Documents: bash(1) "Programmable Completion", zshcompsys(1), fish's complete(1).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from kpfs.linux.store import store
from kpfs.manual.description import CommandDescription, ValueDescription, ValueKind

# how each shell is told a word and its help
ROWS = {"bash": "{0}", "zsh": "{0}:{1}", "fish": "{0}\t{1}"}
NOTHING = ValueDescription("")
# what is no command, and may be the first word as well
FIRST_WORDS = {"help": "show what a command takes", "version": "print the version"}
# a definition of a probe up to its function, and the beginning of that
_DEFINITION = re.compile(r"([prf]\d*(?::\S*)?\s+)(\S*)")


def script(shell: str) -> str:
    """Return the text that makes a shell complete the words of kpfs."""
    return Path(__file__).with_name(f"completion.{shell}").read_text(encoding="utf-8")


def answer(shell: str, top: CommandDescription, words: Sequence[str]) -> list[str]:
    """Return the lines that tell a shell what to offer for the last of the words.

    The first is the name of a ValueKind.  Behind WORDS a line for each word follows;
    COMMAND has the number of words before the user's command.
    """
    at, value = top, None
    for place, word in enumerate(words[1:-1], 1):
        if value:
            value = None
        elif word.startswith("-"):
            value = _value_of(at, word)
        elif below := [command for command in at.commands if command.path[-1] == word]:
            at = below[0]
        elif _operand(at).kind == ValueKind.COMMAND:
            return [f"COMMAND {place}"]
    name, equals, _ = words[-1].partition("=")
    if equals and not value:
        value = _value_of(at, name)
    rows = {}
    if not value and name.startswith("-"):
        rows = {name: option.help for option in at.options for name in option.names}
    elif not value and at.commands:
        rows = {command.path[-1]: command.help for command in at.commands}
        rows |= FIRST_WORDS if len(words) == 2 else {}
    else:
        value = value or _operand(at)
        if value.kind == ValueKind.COMMAND:
            return [f"COMMAND {len(words) - 1}"]
        if value.kind in (ValueKind.FILE, ValueKind.DIRECTORY):
            return [value.kind.name]
        last = words[-1].partition("=")[2] if equals else words[-1]
        rows = dict.fromkeys(_names(value, last, words[:-1]), "")
    return ["WORDS", *(_row(shell, *row) for row in rows.items())]


def _row(shell: str, word: str, help: str) -> str:
    if shell == "zsh":  # where a colon ends the word
        word = word.replace(":", r"\:")
    return ROWS[shell].format(word, help)


def _names(value: ValueDescription, last: str, before: Sequence[str]) -> Iterable[str]:
    """Return what a value may be.  last: what is typed of it; before: other words."""
    if value.kind == ValueKind.KERNEL:
        return store.names()
    if value.kind == ValueKind.KERNELS:
        head, comma, _ = last.rpartition(",")
        chosen = head.split(",")
        return [head + comma + name for name in store.names() if name not in chosen]
    if value.kind in (ValueKind.SYMBOL, ValueKind.EVENT):
        from kpfs.manual import kernel_names

        kernel, head = _kernel_among(before), ""
        if value.kind == ValueKind.EVENT:
            definition = _DEFINITION.fullmatch(last)
            if not definition:
                return kernel_names.events(kernel, last)
            head, last = definition.groups()
        return [head + name for name in kernel_names.symbols(kernel, last)]
    return value.words


def _kernel_among(words: Sequence[str]) -> str:
    """Return the value of --kernel, "" without one."""
    for word, after in itertools.pairwise([*words, ""]):
        if word == "--kernel":
            return after
        if word.startswith("--kernel="):
            return word.partition("=")[2]
    return ""


def _value_of(at: CommandDescription, name: str) -> ValueDescription | None:
    """Return the value that an option takes, if it takes one."""
    return next((option.value for option in at.options if name in option.names), None)


def _operand(at: CommandDescription) -> ValueDescription:
    return at.operands[0] if at.operands else NOTHING
