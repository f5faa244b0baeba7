# SPDX-License-Identifier: GPL-2.0-or-later
"""struct pt_regs of arm64, where a kernel has saved it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, cast

from kpfs.base.ktypes import MASK64
from kpfs.engine import kprobe

# the words at its begin from low to high addresses.  Kernel: struct user_pt_regs
NAMES = (*(f"x{number}" for number in range(31)), "sp", "pc", "pstate")
_WORD = 8


class Words(Protocol):
    """The memory that a frame lies in."""

    def read_u64(self, addr: int) -> int: ...

    def write_u64(self, addr: int, value: int) -> None: ...


def _register(i: int) -> int:
    """A property that is register i, annotated as the int that a reader gets."""

    def get(regs: FramePtRegs) -> int:
        return regs[i]

    def put(regs: FramePtRegs, value: int) -> None:
        regs[i] = value

    return cast(int, property(get, put, doc=f"Register {NAMES[i]}, unsigned."))


class FramePtRegs(kprobe.PtRegs):
    """The registers at a hit, as a handler sees them.  Context: hit."""

    __slots__ = ("_addr", "_memory")

    x0, x1, x2, x3, x4, x5, x6, x7 = map(_register, range(8))
    x8, x9, x10, x11, x12, x13, x14, x15 = map(_register, range(8, 16))
    x16, x17, x18, x19, x20, x21, x22, x23 = map(_register, range(16, 24))
    x24, x25, x26, x27, x28, x29, x30 = map(_register, range(24, 31))
    sp, pc, pstate = map(_register, range(31, 34))

    def __init__(self, memory: Words, addr: int) -> None:
        self._memory = memory
        self._addr = addr

    def __getitem__(self, i: int) -> int:
        """Word i of struct pt_regs."""
        return self._memory.read_u64(self._addr + _WORD * i)

    def __setitem__(self, i: int, value: int) -> None:
        self._memory.write_u64(self._addr + _WORD * i, value & MASK64)

    def __iter__(self) -> Iterator[int]:
        return map(self.__getitem__, range(len(NAMES)))

    def __repr__(self) -> str:
        words = zip(NAMES, self, strict=True)
        return f"<PtRegs {' '.join(f'{n}={v:#x}' for n, v in words)}>"
