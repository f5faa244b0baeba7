# SPDX-License-Identifier: GPL-2.0-or-later
"""Matches names as the kernel does, in little time whatever the pattern is."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class _Token(NamedTuple):
    """A part of a pattern that fits one character.  Kernel: glob_match()."""

    inverted: bool
    ranges: tuple[tuple[str, str], ...]

    def fits(self, char: str) -> bool:
        return any(a <= char <= b for a, b in self.ranges) is not self.inverted


_ANY = _Token(True, ())  # ?
_Pattern = list["_Token | None"]  # None: any number of any characters


def glob(pattern: str) -> Callable[[str], bool]:
    """Make the function that tells whether a name fits a pattern.

    Kernel: filter_parse_regex(), ftrace_match()
    """
    if not any(char in pattern for char in "*?[\\"):
        return lambda name: name == pattern
    tokens = _parse(pattern)
    return lambda name: _match(tokens, name)


def _parse(pattern: str) -> _Pattern:
    tokens: _Pattern = []
    i = 0
    while i < len(pattern):
        char = pattern[i]
        i += 1
        if char == "*":
            if not tokens or tokens[-1] is not None:
                tokens.append(None)
            continue
        if char == "?":
            tokens.append(_ANY)
            continue
        if char == "[":
            token, end = _class(pattern, i)
            if token is not None:
                tokens.append(token)
                i = end
                continue
        elif char == "\\":
            if i == len(pattern):
                break  # it stands for the end of the name
            char = pattern[i]
            i += 1
        tokens.append(_Token(False, ((char, char),)))
    return tokens


def _class(pattern: str, i: int) -> tuple[_Token | None, int]:
    """Return (class behind a "[", its end), None if it has no end: "[" is itself."""
    inverted = pattern[i : i + 1] == "!"
    i += inverted
    ranges: list[tuple[str, str]] = []
    while i < len(pattern):
        first = last = pattern[i]
        if first == "]" and ranges:
            return _Token(inverted, tuple(ranges)), i + 1
        i += 1
        if pattern[i : i + 1] == "-" and pattern[i + 1 : i + 2] not in ("", "]"):
            last = pattern[i + 1]
            i += 2
        ranges.append((first, last))
    return None, i


def _match(tokens: _Pattern, name: str) -> bool:
    """Match a name; if it fails, only the last * before is tried with a longer text."""
    t = n = 0
    again: tuple[int, int] | None = None
    while True:
        if t < len(tokens):
            token = tokens[t]
            if token is None:
                t += 1
                again = t, n
                continue
            if n < len(name) and token.fits(name[n]):
                t, n = t + 1, n + 1
                continue
        elif n == len(name):
            return True
        if again is None or again[1] >= len(name):
            return False
        t, n = again[0], again[1] + 1
        again = t, n
