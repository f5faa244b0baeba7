# SPDX-License-Identifier: GPL-2.0-or-later
"""Stack traces by the call frame information that the compiler leaves in .eh_frame.

The assembly has none: a task that enters the kernel through it finds a struct pt_regs
on the stack, but for the system call entry, where a trace ends.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from kpfs.base import abi
from kpfs.base.cfi import CfiRules, Cie
from kpfs.base.data_model import LITTLE_64
from kpfs.base.errors import MemoryFault
from kpfs.base.ktypes import MASK64
from kpfs.base.leb128 import read_sleb, read_uleb
from kpfs.guest.emu.memory import Memory

MAX_DEPTH = 128
RBX, RBP, RSP, RA = 3, 6, 7, 16
# the registers' words in struct pt_regs, by DWARF's numbers
PT_REGS_WORDS = {15: 0, 14: 1, 13: 2, 12: 3, RBP: 4, RBX: 5, RSP: 19, RA: 16}
_PCREL, _ABSOLUTE = 0x1B, 0x00
_HEAD = struct.Struct("<II")  # bytes that follow, and back to the CIE
# begin and size of the text
_PLACES = {_PCREL: struct.Struct("<iI"), _ABSOLUTE: struct.Struct("<QQ")}


class Fde(NamedTuple):
    """The description of one function's frames."""

    start: int
    end: int
    cie: Cie
    program: bytes


def parse_eh_frame(data: bytes, addr: int) -> list[Fde]:
    """Return the entries of a section .eh_frame that lies at addr, by address."""
    result = []
    cies: dict[int, tuple[int, Cie]] = {}
    at = 0
    while at + 8 <= len(data):
        length, back = _HEAD.unpack_from(data, at)
        if not length:
            break
        start, end = at + 4, at + 4 + length
        if not back:
            cies[at] = _parse_cie(data[:end], start + 4)
        elif start - back in cies:
            encoding, cie = cies[start - back]
            begin = start + 4
            form = _PLACES[encoding]
            first, size = form.unpack_from(data, begin)
            if encoding == _PCREL:
                first = first + addr + begin & MASK64
            size_of_more, begin = read_uleb(data, begin + form.size)
            program = data[begin + size_of_more : end]
            result.append(Fde(first, first + size, cie, program))
        at = end
    result.sort()
    return result


def _parse_cie(data: bytes, at: int) -> tuple[int, Cie]:
    """Return the encoding of addresses, and what follows the augmentation."""
    end = data.index(b"\0", at + 1)
    augmentation = data[at + 1 : end]
    code_align, at = read_uleb(data, end + 1)
    data_align, at = read_sleb(data, at)
    back, at = read_uleb(data, at)
    encoding = _ABSOLUTE
    if augmentation.startswith(b"z"):
        size, at = read_uleb(data, at)
        if b"R" in augmentation:
            encoding = data[at]
        at += size
    return encoding, Cie(code_align, data_align, back, data[at:])


class Unwinder:
    """Makes stack traces.  Context: either."""

    def __init__(
        self,
        memory: Memory,
        sections: Callable[[], Iterable[tuple[int, bytes]]],
        *,
        is_regs_frame: Callable[[int], bool],
        real_return: Callable[[int, int], int],
    ) -> None:
        """sections: (address, contents) of each .eh_frame; they may come and go.

        is_regs_frame: whether code at an address keeps a struct pt_regs on top of the
        stack; real_return(address, slot): what a return address found at slot is when
        return probes have not replaced it.
        """
        self._memory = memory
        self._sections = sections
        self._is_regs_frame = is_regs_frame
        self._real_return = real_return
        self._known: dict[int, tuple[bytes, list[Fde]]] = {}

    def _find(self, pc: int) -> Fde | None:
        for addr, data in self._sections():
            known = self._known.get(addr)
            if known is None or known[0] is not data:
                known = data, parse_eh_frame(data, addr)
                self._known[addr] = known
            rows = known[1]
            index = bisect_right(rows, pc, key=lambda fde: fde.start) - 1
            if index >= 0 and pc < rows[index].end:
                return rows[index]
        return None

    def trace(self, regs: dict[int, int], limit: int = MAX_DEPTH) -> list[int]:
        """Return addresses from regs (by DWARF's numbers) outwards, beginning with RA.

        Kernel: arch_stack_walk()
        """
        return [address for address, _ in islice(self.frames(regs), limit)]

    def frames(self, regs: dict[int, int]) -> Iterator[tuple[int, int]]:
        """Yield them with the place of each on the stack, 0 for the first."""
        exact = True  # RA is where a trap was, not where a call returns to
        slot = 0
        try:
            while True:
                ip, sp = regs[RA], regs[RSP]
                yield ip, slot
                following = self._step(regs, ip if exact else ip - 1)
                if following is None:
                    break
                regs, exact = following
                slot = sp + 8 * PT_REGS_WORDS[RA] if exact else regs[RSP] - 8
        except (MemoryFault, KeyError, IndexError):
            pass

    def _step(
        self, regs: dict[int, int], pc: int
    ) -> tuple[dict[int, int], bool] | None:
        """Return the caller's registers, and whether its RA is exact, or None."""
        fde = self._find(pc)
        if fde is None:
            if self._is_regs_frame(pc):
                return self.from_pt_regs(regs[RSP]), True
            return None
        read = self._memory.read_u64
        rules = CfiRules(fde.cie, fde.program, pc - fde.start, LITTLE_64)
        caller = rules.caller(regs, read, RSP)
        if not caller.get(RA):
            return None
        caller[RA] = self._real_return(caller[RA], caller[RSP] - 8)
        return caller, False

    def from_pt_regs(self, addr: int) -> dict[int, int]:
        """Return the registers of a struct pt_regs in memory."""
        words = abi.PtRegs.STRUCT.unpack(self._memory.read(addr, abi.PtRegs.SIZE))
        return {reg: words[n] for reg, n in PT_REGS_WORDS.items()}
