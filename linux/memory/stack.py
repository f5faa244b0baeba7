# SPDX-License-Identifier: GPL-2.0-or-later
"""The stacks of a kernel's tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kpfs.base.data_model import DataModel
from kpfs.base.errors import MemoryFault

if TYPE_CHECKING:
    from kpfs.linux.memory.memory import KernelMemory


def stack_size(model: DataModel) -> int:
    """Return the bytes of a kernel's stack, to which it is aligned: 16 or 8 KiB."""
    return model.long << 11


def words_above(memory: KernelMemory, at: int) -> list[int]:
    """Return the words of a stack from an address on, [] if it is none."""
    try:
        raw = memory.read(at, -at % stack_size(memory.model))
    except MemoryFault:  # it is another stack, or none
        raw = b""
    words = memory.model.struct("L").iter_unpack(raw[: len(raw) & -memory.model.long])
    return [word for (word,) in words]
