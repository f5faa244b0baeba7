# SPDX-License-Identifier: GPL-2.0-or-later
"""Other names of modules, which are patterns, as of the devices they are for.

Document: modules.dep(5), depmod(8); libkmod: alias_normalize().
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

_BRACKETS = re.compile(r"(\[[^]]*\])")
_LITERAL = re.compile(r"[^*?[ ]+")  # what a pattern begins with


def normalized(word: str) -> str:
    """With _ for -, but in brackets."""
    parts = _BRACKETS.split(word)
    return "".join(p if p.startswith("[") else p.replace("-", "_") for p in parts)


class Aliases:
    """Lines ``PATTERN MODULE``, the patterns normalized."""

    def __init__(self, text: str) -> None:
        self._text = text

    def lookup(self, word: str) -> list[str]:
        """The modules that have such a name, each once."""
        word = normalized(word)
        found: dict[str, None] = {}
        for line in self._text.splitlines():
            begin = _LITERAL.match(line)
            if begin and not word.startswith(begin[0]):
                continue
            pattern, _, module = line.rpartition(" ")
            if fnmatchcase(word, pattern):
                found[module] = None
        return list(found)
