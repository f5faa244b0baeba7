# SPDX-License-Identifier: GPL-2.0-or-later
"""Stack traces by the call frame information that the compiler leaves in .eh_frame.

The assembly has none: a task that enters the kernel through it finds a struct pt_regs
on the stack, but for the system call entry, where a trace ends.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from itertools import islice
from typing import NamedTuple

from kpfs.base import abi
from kpfs.base.errors import MemoryFault
from kpfs.base.ktypes import MASK64
from kpfs.base.leb128 import read_sleb, read_uleb
from kpfs.guest.emu.memory import Memory

MAX_DEPTH = 128
RBX, RBP, RSP, RA = 3, 6, 7, 16
# the registers' words in struct pt_regs, by DWARF's numbers
PT_REGS_WORDS = {15: 0, 14: 1, 13: 2, 12: 3, RBP: 4, RBX: 5, RSP: 19, RA: 16}
_PCREL, _ABSOLUTE = 0x1B, 0x00
_U32, _I32, _U64 = struct.Struct("<I"), struct.Struct("<i"), struct.Struct("<Q")


class Fde(NamedTuple):
    """The description of one function's frames."""

    start: int
    end: int
    data_align: int
    initial: bytes  # instructions common to many functions
    program: bytes


class _Reader:
    """Bytes with a position."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def u8(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def take(self, fmt: struct.Struct) -> int:
        value: int = fmt.unpack_from(self.data, self.at)[0]
        self.at += fmt.size
        return value

    def uleb(self) -> int:
        value, self.at = read_uleb(self.data, self.at)
        return value

    def sleb(self) -> int:
        value, self.at = read_sleb(self.data, self.at)
        return value


def parse_eh_frame(data: bytes, addr: int) -> list[Fde]:
    """Return the entries of a section .eh_frame that lies at addr, by address."""
    result = []
    cies: dict[int, tuple[int, int, bytes]] = {}
    at = 0
    while at + 8 <= len(data):
        length = _U32.unpack_from(data, at)[0]
        if not length:
            break
        start, end = at + 4, at + 4 + length
        back = _U32.unpack_from(data, start)[0]
        if not back:
            cies[at] = _parse_cie(data[:end], start + 4)
        elif start - back in cies:
            encoding, align, initial = cies[start - back]
            r = _Reader(data[:end], start + 4)
            if encoding == _PCREL:
                first = r.take(_I32) + addr + start + 4
                size = r.take(_U32)
            else:
                first, size = r.take(_U64), r.take(_U64)
            r.at += r.uleb()  # augmentation data
            first &= MASK64
            result.append(Fde(first, first + size, align, initial, data[r.at : end]))
        at = end
    result.sort()
    return result


def _parse_cie(data: bytes, at: int) -> tuple[int, int, bytes]:
    """Return (encoding of addresses, data alignment, initial instructions)"""
    end = data.index(b"\0", at + 1)
    augmentation = data[at + 1 : end]
    r = _Reader(data, end + 1)
    r.uleb()  # code alignment: 1
    align = r.sleb()
    r.uleb()  # column of the return address
    encoding = _ABSOLUTE
    if augmentation.startswith(b"z"):
        size = r.uleb()
        if b"R" in augmentation:
            encoding = data[r.at]
        r.at += size
    return encoding, align, data[r.at :]


class Cfa(IntEnum):
    """Call frame instructions: DW_CFA_*.  Document: DWARF 5, 7.24."""

    NOP = 0x00
    ADVANCE_LOC1 = 0x02  # then 2 and 4 bytes
    ADVANCE_LOC4 = 0x04
    OFFSET_EXTENDED = 0x05
    RESTORE_EXTENDED = 0x06
    UNDEFINED = 0x07
    REMEMBER_STATE = 0x0A
    RESTORE_STATE = 0x0B
    DEF_CFA = 0x0C
    DEF_CFA_REGISTER = 0x0D
    DEF_CFA_OFFSET = 0x0E
    GNU_ARGS_SIZE = 0x2E
    # in the two high bits; the low ones are the operand
    ADVANCE_LOC = 0x40
    OFFSET = 0x80
    RESTORE = 0xC0


class _CfiRules:
    """Rules that find the caller's registers, at one instruction."""

    def __init__(self) -> None:
        self.cfa: tuple[int, int] | None = (RSP, 8)
        self.saved: dict[int, int] = {RA: -8}
        self._stack: list[tuple[tuple[int, int] | None, dict[int, int]]] = []
        self._initial: dict[int, int] = {}

    def run(self, fde: Fde, pc: int) -> None:
        self._run(fde.initial, fde.data_align, 0, 0)
        self._initial = dict(self.saved)
        self._run(fde.program, fde.data_align, fde.start, pc)

    def _run(self, program: bytes, align: int, loc: int, pc: int) -> None:
        """Carry out the call frame instructions up to pc."""
        r = _Reader(program)
        while r.at < len(program):
            op = r.u8()
            high, low = op & 0xC0, op & 0x3F
            step = 0
            if high == Cfa.ADVANCE_LOC:
                step = low
            elif high == Cfa.OFFSET:
                self.saved[low] = r.uleb() * align
            elif high == Cfa.RESTORE:
                self._restore(low)
            elif Cfa.ADVANCE_LOC1 <= op <= Cfa.ADVANCE_LOC4:
                size = 1 << (op - Cfa.ADVANCE_LOC1)
                step = int.from_bytes(program[r.at : r.at + size], "little")
                r.at += size
            elif not self._other(op, r, align):
                self.cfa = None
                return
            loc += step
            if step and loc > pc:
                return

    def _restore(self, reg: int) -> None:
        if reg in self._initial:
            self.saved[reg] = self._initial[reg]
        else:
            self.saved.pop(reg, None)

    def _other(self, op: int, r: _Reader, align: int) -> bool:
        """Carry out one of the rare instructions; False if it is unknown to us."""
        if op == Cfa.NOP:
            return True
        if op == Cfa.REMEMBER_STATE:
            self._stack.append((self.cfa, dict(self.saved)))
        elif op == Cfa.RESTORE_STATE:
            self.cfa, self.saved = self._stack.pop()
        elif op == Cfa.DEF_CFA:
            reg = r.uleb()
            self.cfa = reg, r.uleb()
        elif op == Cfa.DEF_CFA_REGISTER and self.cfa:
            self.cfa = r.uleb(), self.cfa[1]
        elif op == Cfa.DEF_CFA_OFFSET and self.cfa:
            self.cfa = self.cfa[0], r.uleb()
        elif op == Cfa.RESTORE_EXTENDED:
            self._restore(r.uleb())
        elif op == Cfa.UNDEFINED:
            self.saved.pop(r.uleb(), None)
        elif op == Cfa.GNU_ARGS_SIZE:
            r.uleb()
        elif op == Cfa.OFFSET_EXTENDED:
            reg = r.uleb()
            self.saved[reg] = r.uleb() * align
        else:
            return False
        return True


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
        rules = _CfiRules()
        rules.run(fde, pc)
        if rules.cfa is None:
            return None
        cfa = regs[rules.cfa[0]] + rules.cfa[1] & MASK64
        read = self._memory.read_u64
        caller = dict(regs)
        for reg, offset in rules.saved.items():
            caller[reg] = read(cfa + offset & MASK64)
        if RA not in rules.saved or not caller[RA]:
            return None
        caller[RSP] = cfa
        caller[RA] = self._real_return(caller[RA], cfa - 8)
        return caller, False

    def from_pt_regs(self, addr: int) -> dict[int, int]:
        """Return the registers of a struct pt_regs in memory."""
        words = abi.PtRegs.STRUCT.unpack(self._memory.read(addr, abi.PtRegs.SIZE))
        return {reg: words[n] for reg, n in PT_REGS_WORDS.items()}
