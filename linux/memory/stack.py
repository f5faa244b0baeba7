# SPDX-License-Identifier: GPL-2.0-or-later
"""The stacks of a kernel's tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kpfs.base.errors import MemoryFault
from kpfs.base.units import WORD

if TYPE_CHECKING:
    from kpfs.linux.memory.memory import KernelMemory

STACK_SIZE = 1 << 14  # bytes, and so aligned


def words_above(memory: KernelMemory, at: int) -> list[int]:
    """Return the words of a stack from an address on, [] if it is none."""
    try:
        raw = memory.read(at, -at % STACK_SIZE)
    except MemoryFault:  # it is another stack, or none
        raw = b""
    words = memory.model.struct("L").iter_unpack(raw[: len(raw) & -WORD])
    return [word for (word,) in words]
