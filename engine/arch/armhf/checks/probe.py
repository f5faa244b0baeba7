# SPDX-License-Identifier: GPL-2.0-or-later
"""Judge by bytes and tables alone whether code of armhf can be probed at an address.

The kernel has no single steps: it runs a copy of the instruction whose registers are
others, or does in C what the instruction does.  What its tables have no way for is
refused, with EINVAL, and so is a store so far below the stack that it would hit the
frame of the probe itself.

Kernel: arch/arm/probes/decode-arm.c, kprobes/checkers-arm.c, kprobes/core.c
"""

from __future__ import annotations

import errno
from typing import NamedTuple

from kpfs.base.errors import KernelError
from kpfs.engine.judge import Tables
from kpfs.engine.listing import refuse_ftrace, refuse_misplaced, word_at
from kpfs.engine.step import Pattern

MAX_STACK = 64  # bytes below the stack pointer.  Kernel: MAX_STACK_SIZE
_PC = 15


class InsnClass(NamedTuple):
    """A class of instructions, and which registers they may not have as pc."""

    mask: int
    value: int
    # register fields by their lowest bits; a base has its place negated: it may be pc
    # unless it is written back
    not_pc: tuple[int, ...] = ()
    stores: bool = False  # may store to the stack
    refused: bool = False


class InsnTable(NamedTuple):
    """Classes of instructions that are looked at one after the other."""

    mask: int
    value: int
    name: str
    rows: tuple[InsnClass, ...]


def _no(mask: int, value: int) -> InsnClass:
    return InsnClass(mask, value, refused=True)


_ALL = 16, 12, 8, 0
_THREE = 16, 12, 0
_BASE = -16
TABLES = (
    InsnTable(
        *(0xF0000000, 0xF0000000, "an unconditional instruction"),
        (
            InsnClass(0xFE300000, 0xF4100000),  # memory hints, pld
            InsnClass(0xFE300010, 0xF6100000),
            InsnClass(0xFE000000, 0xFA000000),  # blx
        ),
    ),
    InsnTable(
        *(0x0F900080, 0x01000000, "an access to the processor's state"),
        (
            InsnClass(0x0FF000F0, 0x01000000, (12,)),  # mrs
            InsnClass(0x0FF000F0, 0x01200010),  # bx
            InsnClass(0x0FF000F0, 0x01200030, (0,)),  # blx
            InsnClass(0x0FF000F0, 0x01600010, (12, 0)),  # clz
            InsnClass(0x0F9000F0, 0x01000050, _THREE),  # qadd, qsub
        ),
    ),
    InsnTable(
        *(0x0F900090, 0x01000080, "such a multiplication"),
        (
            InsnClass(0x0FF00090, 0x01400080, _ALL),
            InsnClass(0x0FF000B0, 0x012000A0, (16, 8, 0)),
            InsnClass(0x0FF00090, 0x01600080, (16, 8, 0)),
            InsnClass(0x0FF00090, 0x01000080, _ALL),
            InsnClass(0x0FF000B0, 0x01200080, _ALL),
        ),
    ),
    InsnTable(
        *(0x0F0000F0, 0x00000090, "such a multiplication"),
        (
            InsnClass(0x0FE000F0, 0x00000090, (16, 8, 0)),
            InsnClass(0x0FE000F0, 0x00200090, _ALL),
            InsnClass(0x0FF000F0, 0x00600090, _ALL),
            InsnClass(0x0FF000F0, 0x00400090, _ALL),
            InsnClass(0x0F8000F0, 0x00800090, _ALL),
        ),
    ),
    InsnTable(0x0F0000F0, 0x01000090, "an exclusive load or store", ()),
    InsnTable(
        *(0x0E000090, 0x00000090, "such a load or store"),
        (
            _no(0x0F200090, 0x00200090),  # with a program's rights
            _no(0x0E10E0D0, 0x0000E0D0),  # lr and pc as a pair
            InsnClass(
                0x0E5000D0, 0x000000D0, (_BASE, 12, 0), stores=True
            ),  # ldrd, strd
            InsnClass(0x0E5000D0, 0x004000D0, (_BASE, 12), stores=True),
            InsnClass(0x0E5000F0, 0x000000B0, (_BASE, 12, 0), stores=True),  # strh
            InsnClass(0x0E500090, 0x00100090, (_BASE, 12, 0)),
            InsnClass(0x0E5000F0, 0x004000B0, (_BASE, 12), stores=True),
            InsnClass(0x0E500090, 0x00500090, (_BASE, 12)),
        ),
    ),
    InsnTable(
        *(0x0E000000, 0x00000000, "such an operation with pc"),
        (
            _no(0x0E10F000, 0x0010F000),  # returns from an exception
            InsnClass(0x0E000010, 0x00000000),
            InsnClass(0x0F900090, 0x01100010, (16, 8, 0)),
            InsnClass(0x0FA00090, 0x01A00010, (12, 8, 0)),
            InsnClass(0x0E000090, 0x00000010, _ALL),
        ),
    ),
    InsnTable(
        *(0x0E000000, 0x02000000, "such an operation with a constant"),
        (
            InsnClass(0x0FB00000, 0x03000000, (12,)),  # movw, movt
            InsnClass(0x0FFF00FF, 0x03200004),  # sev
            InsnClass(0x0FFF00FC, 0x03200000),  # nop, yield, wfe, wfi
            _no(0x0FB00000, 0x03200000),  # msr, other hints
            _no(0x0E10F000, 0x0210F000),
            InsnClass(0x0E000000, 0x02000000),
        ),
    ),
    InsnTable(
        *(0x0F000010, 0x06000010, "such a media instruction"),
        (
            InsnClass(0x0FF000F0, 0x068000B0, _THREE),  # sel
            InsnClass(0x0FA00030, 0x06A00010, (12, 0)),  # ssat, usat
            InsnClass(0x0FB000F0, 0x06A00030, (12, 0)),
            InsnClass(0x0FB00070, 0x06B00030, (12, 0)),  # rev
            _no(0x0FB00010, 0x06000010),
            _no(0x0F8000F0, 0x060000B0),
            _no(0x0F8000F0, 0x060000D0),
            InsnClass(0x0F800010, 0x06000010, _THREE),  # sadd16 and its like
            InsnClass(0x0FF00030, 0x06800010, _THREE),  # pkhbt, pkhtb
            _no(0x0FB000F0, 0x06900070),
            InsnClass(0x0F8F00F0, 0x068F0070, (12, 0)),  # sxtb and its like
            InsnClass(0x0F8000F0, 0x06800070, _THREE),
        ),
    ),
    InsnTable(
        *(0x0F000010, 0x07000010, "such a media instruction"),
        (
            _no(0x0FF000F0, 0x07F000F0),  # undefined
            InsnClass(0x0FF00090, 0x07400010, _ALL),
            InsnClass(0x0FF0F090, 0x0700F010, (16, 8, 0)),
            InsnClass(0x0FF0F0D0, 0x0750F010, (16, 8, 0)),
            InsnClass(0x0FF0F0F0, 0x0780F010, (16, 8, 0)),
            InsnClass(0x0FF00090, 0x07000010, _ALL),
            InsnClass(0x0FF000D0, 0x07500010, _ALL),
            InsnClass(0x0FF000F0, 0x07800010, _ALL),
            InsnClass(0x0FF000D0, 0x075000D0, _ALL),
            InsnClass(0x0FA00070, 0x07A00050, (12, 0)),  # sbfx, ubfx
            InsnClass(0x0FE0007F, 0x07C0001F, (12,)),  # bfc
            InsnClass(0x0FE00070, 0x07C00010, (12, 0)),  # bfi
        ),
    ),
    InsnTable(
        *(0x0C000000, 0x04000000, "such a load or store"),
        (
            _no(0x0C40F000, 0x0440F000),  # a byte of pc
            _no(0x0D200000, 0x04200000),  # with a program's rights
            InsnClass(0x0E100000, 0x04000000, (_BASE,), stores=True),
            InsnClass(0x0E100000, 0x04100000, (_BASE,)),
            InsnClass(0x0E100000, 0x06000000, (_BASE, 0), stores=True),
            InsnClass(0x0E100000, 0x06100000, (_BASE, 0)),
        ),
    ),
    InsnTable(
        *(0x0E000000, 0x08000000, "a load or store of a program's registers"),
        (InsnClass(0x0E400000, 0x08000000, stores=True),),
    ),
    InsnTable(0x0E000000, 0x0A000000, "a branch", (InsnClass(0, 0),)),
    InsnTable(0, 0, "a system call or an instruction of a coprocessor", ()),
)
_STACK_UNKNOWN = (
    Pattern(0x0E10000F, 0x0600000D, "str by sp"),
    Pattern(0x0E1F0000, 0x060D0000, "str by sp"),
    Pattern(0x0E5000BF, 0x000000BD, "strh by sp"),
    Pattern(0x0E5F00B0, 0x000D00B0, "strh by sp"),
)
_STMD_SP = Pattern(0x0EDF0000, 0x080D0000, "stmd sp")
_STR_BELOW_SP = Pattern(0x0F9F0000, 0x050D0000, "str [sp, #-n]")
_STRH_BELOW_SP = Pattern(0x0FDF00B0, 0x014D00B0, "strh [sp, #-n]")


def prepare_kprobe(tables: Tables, addr: int) -> None:
    """Raise what the kernel's function raises for the instruction at an address.

    Raises MemoryFault if its bytes are not there.  Kernel: arch_prepare_kprobe()
    """
    refuse_misplaced(addr)
    refuse_ftrace(tables, addr)
    decode(word_at(tables, addr))


def decode(word: int) -> None:
    """Raise KernelError for an instruction that cannot be probed.

    Kernel: arm_probes_decode_insn()
    """
    table = next(each for each in TABLES if word & each.mask == each.value)
    row = next((row for row in table.rows if word & row.mask == row.value), None)
    if row is None or row.refused or any(_is_pc(word, at) for at in row.not_pc):
        raise KernelError(errno.EINVAL, f"{table.name} cannot be probed")
    if row.stores and not 0 <= stack_use(word) <= MAX_STACK:
        raise KernelError(errno.EINVAL, "it may store where the probe's frame will be")


def _is_pc(word: int, place: int) -> bool:
    """Return True if a register that must not be pc is."""
    writes_back = (word ^ 1 << 24) & (1 << 24 | 1 << 21)
    return word >> abs(place) & 15 == _PC and (place >= 0 or bool(writes_back))


def stack_use(word: int) -> int:
    """Return how many bytes below sp an instruction stores, -1 if that depends."""
    if any(pattern.matches(word) for pattern in _STACK_UNKNOWN):
        return -1
    if _STMD_SP.matches(word):
        return 4 * ((word & 0xFFFF).bit_count() - (not word & 1 << 24))
    if _STR_BELOW_SP.matches(word):
        return word & 0xFFF
    if _STRH_BELOW_SP.matches(word):
        return word >> 4 & 0xF0 | word & 15
    return 0
