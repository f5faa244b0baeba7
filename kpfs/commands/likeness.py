# SPDX-License-Identifier: GPL-2.0-or-later
"""Compares what commands have written, but for what differs from run to run."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

# in this order; of a match the first group, if any, stays
_MASKS = (
    (
        r"\b(?:0x)?ffff[0-9a-f]{12}\b|\b0x[0-9a-f]{6,}\b|\b0000[0-9a-f]{12}\b",
        "<address>",
    ),
    (r"\b\d{4}-\d\d-\d\d(?:[T ](?=\d\d:))?|\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b", "<time>"),
    (r"^(\[) *\d+\.\d{6}(?=\])", "<time>"),
    (r" +\d+\.\d{6,9}(?=:)", " <time>"),  # in a trace
    (r"\b\d+(?:\.\d+)?(?: ?(?:ns|us|µs|ms|s|secs?|seconds?|minutes?))\b", "<time>"),
    (r"^ *(\S.*?)-\d+(?= +(?:\([^)]*\) +)?\[\d+\] )", "-<pid>"),  # in a trace
    (r"(\b(?:[pt]pid|pid|tid|tgid)['\"]?[ :=]{1,3})\d+", "<pid>"),
    (r"(\w)\[\d+\](?=:| )", "[<pid>]"),  # as syslog has it
)
_PATTERNS = [(re.compile(pattern, re.I), word) for pattern, word in _MASKS]


class Alike(NamedTuple):
    """Kernels in which a command has written the same."""

    kernels: list[str]
    lines: list[str]  # with words in place of what differs from run to run


def masked(line: str) -> str:
    """Return a line with words in place of times, addresses and pids.

    In a line that has some, spaces count as one: they fill columns up.
    """
    found = line
    for pattern, word in _PATTERNS:
        found = pattern.sub(rf"\1{word}" if pattern.groups else word, found)
    return line if found == line else re.sub(r"\s+", " ", found).strip()


def alike(outputs: Mapping[str, str]) -> list[Alike]:
    """Group kernels by what a command has written there, in their order."""
    groups = dict[tuple[str, ...], list[str]]()
    for kernel, output in outputs.items():
        lines = tuple(map(masked, output.splitlines()))
        groups.setdefault(lines, []).append(kernel)
    return [Alike(kernels, list(lines)) for lines, kernels in groups.items()]


def differences(first: Alike, other: Alike) -> Sequence[str]:
    """Return the lines of a unified diff of two groups."""
    names = ",".join(first.kernels), ",".join(other.kernels)
    return [*difflib.unified_diff(first.lines, other.lines, *names, lineterm="")]
