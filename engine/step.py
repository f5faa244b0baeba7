# SPDX-License-Identifier: GPL-2.0-or-later
"""The common part of architectures that step or simulate a probe's instruction."""

from __future__ import annotations

import enum
import errno
from collections.abc import Iterable
from typing import NamedTuple

from kpfs.base.errors import KernelError


class Pattern(NamedTuple):
    """A class of instructions: the bits that decide, and what they are."""

    mask: int
    value: int
    name: str

    def matches(self, word: int) -> bool:
        return word & self.mask == self.value


class StepMethod(enum.Enum):
    """The way by which a probed instruction has its effect."""

    STEPPED = "stepped elsewhere"
    SIMULATED = "simulated"


def refuse(patterns: Iterable[Pattern], word: int) -> None:
    """Raise EINVAL for an instruction of one of these classes."""
    for pattern in patterns:
        if pattern.matches(word):
            raise KernelError(errno.EINVAL, f"{pattern.name} cannot be probed")
