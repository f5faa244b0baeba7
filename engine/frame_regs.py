# SPDX-License-Identifier: GPL-2.0-or-later
"""struct pt_regs where a kernel has saved it: words in memory, by their names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Protocol

from kpfs.base.ktypes import MASK64
from kpfs.base.units import WORD
from kpfs.engine import kprobe


class Words(Protocol):
    """The memory that a frame lies in."""

    def read_u64(self, addr: int) -> int:
        """Return a word, which has fewer bits where registers have."""

    def write_u64(self, addr: int, value: int) -> None: ...


class FrameRegs(kprobe.PtRegs):
    """The registers at a hit, as a handler sees them.  Context: hit."""

    __slots__ = ("_addr", "_memory")
    NAMES: ClassVar[tuple[str, ...]]  # names of the words, from low to high addresses
    WORD: ClassVar[int] = WORD  # bytes of one

    def __init_subclass__(cls) -> None:
        for i, name in enumerate(cls.NAMES):
            setattr(cls, name, _register(i))

    def __init__(self, memory: Words, addr: int) -> None:
        self._memory = memory
        self._addr = addr

    def __getitem__(self, i: int) -> int:
        """Word i of struct pt_regs."""
        return self._memory.read_u64(self._addr + self.WORD * i)

    def __setitem__(self, i: int, value: int) -> None:
        self._memory.write_u64(self._addr + self.WORD * i, value & MASK64)

    def __iter__(self) -> Iterator[int]:
        return map(self.__getitem__, range(len(self.NAMES)))

    def __repr__(self) -> str:
        words = zip(self.NAMES, self, strict=True)
        return f"<PtRegs {' '.join(f'{n}={v:#x}' for n, v in words)}>"


def _register(i: int) -> property:
    """Return a property that is word i."""

    def get(regs: FrameRegs) -> int:
        return regs[i]

    def put(regs: FrameRegs, value: int) -> None:
        regs[i] = value

    return property(get, put, doc=f"Register {i} of the frame, unsigned.")
