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
from collections.abc import Iterator

from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KAddr
from kpfs.engine.arch.armhf.insn import Disassembler
from kpfs.engine.judge import Jump, Tables, symbol_range
from kpfs.engine.listing import FIXED_SIZE, ListingJudge
from kpfs.engine.step import Pattern, StepMethod

MAX_STACK = 64  # bytes below the stack pointer.  Kernel: MAX_STACK_SIZE
_PC = 15
_REFUSED_TEXT = "irqentry_text", "entry_text", "idmap_text"
_NO, _STORES = "no", "store"
# The first table that has an instruction, by mask and value, decides, and there the
# first row.  A row has the lowest bits of registers that may not be pc; -16 is that of
# a base, which may be pc unless it is written back.
_DECODING = """
f0000000 f0000000 an unconditional instruction
  fe300000 f4100000                  # memory hints, pld
  fe300010 f6100000
  fe000000 fa000000                  # blx
0f900080 01000000 an access to the processor's state
  0ff000f0 01000000 12               # mrs
  0ff000f0 01200010                  # bx
  0ff000f0 01200030 0                # blx
  0ff000f0 01600010 12 0             # clz
  0f9000f0 01000050 16 12 0          # qadd, qsub
0f900090 01000080 such a multiplication
  0ff00090 01400080 16 12 8 0
  0ff000b0 012000a0 16 8 0
  0ff00090 01600080 16 8 0
  0ff00090 01000080 16 12 8 0
  0ff000b0 01200080 16 12 8 0
0f0000f0 00000090 such a multiplication
  0fe000f0 00000090 16 8 0
  0fe000f0 00200090 16 12 8 0
  0ff000f0 00600090 16 12 8 0
  0ff000f0 00400090 16 12 8 0
  0f8000f0 00800090 16 12 8 0
0f0000f0 01000090 an exclusive load or store
0e000090 00000090 such a load or store
  0f200090 00200090 no               # with a program's rights
  0e10e0d0 0000e0d0 no               # lr and pc as a pair
  0e5000d0 000000d0 -16 12 0 store   # ldrd, strd
  0e5000d0 004000d0 -16 12 store
  0e5000f0 000000b0 -16 12 0 store   # strh
  0e500090 00100090 -16 12 0
  0e5000f0 004000b0 -16 12 store
  0e500090 00500090 -16 12
0e000000 00000000 such an operation with pc
  0e10f000 0010f000 no               # returns from an exception
  0e000010 00000000
  0f900090 01100010 16 8 0
  0fa00090 01a00010 12 8 0
  0e000090 00000010 16 12 8 0
0e000000 02000000 such an operation with a constant
  0fb00000 03000000 12               # movw, movt
  0fff00ff 03200004                  # sev
  0fff00fc 03200000                  # nop, yield, wfe, wfi
  0fb00000 03200000 no               # msr, other hints
  0e10f000 0210f000 no
  0e000000 02000000
0f000010 06000010 such a media instruction
  0ff000f0 068000b0 16 12 0          # sel
  0fa00030 06a00010 12 0             # ssat, usat
  0fb000f0 06a00030 12 0
  0fb00070 06b00030 12 0             # rev
  0fb00010 06000010 no
  0f8000f0 060000b0 no
  0f8000f0 060000d0 no
  0f800010 06000010 16 12 0          # sadd16 and its like
  0ff00030 06800010 16 12 0          # pkhbt, pkhtb
  0fb000f0 06900070 no
  0f8f00f0 068f0070 12 0             # sxtb and its like
  0f8000f0 06800070 16 12 0
0f000010 07000010 such a media instruction
  0ff000f0 07f000f0 no               # undefined
  0ff00090 07400010 16 12 8 0
  0ff0f090 0700f010 16 8 0
  0ff0f0d0 0750f010 16 8 0
  0ff0f0f0 0780f010 16 8 0
  0ff00090 07000010 16 12 8 0
  0ff000d0 07500010 16 12 8 0
  0ff000f0 07800010 16 12 8 0
  0ff000d0 075000d0 16 12 8 0
  0fa00070 07a00050 12 0             # sbfx, ubfx
  0fe0007f 07c0001f 12               # bfc
  0fe00070 07c00010 12 0             # bfi
0c000000 04000000 such a load or store
  0c40f000 0440f000 no               # a byte of pc
  0d200000 04200000 no               # with a program's rights
  0e100000 04000000 -16 store
  0e100000 04100000 -16
  0e100000 06000000 -16 0 store
  0e100000 06100000 -16 0
0e000000 08000000 a load or store of a program's registers
  0e400000 08000000 store
0e000000 0a000000 a branch
  00000000 00000000
00000000 00000000 a system call or an instruction of a coprocessor
"""


def _parsed(text: str) -> Iterator[tuple[Pattern, list[Pattern]]]:
    rows: list[Pattern] = []
    for line in text.strip().splitlines():
        mask, value, *words = line.partition("#")[0].split()
        pattern = Pattern(int(mask, 16), int(value, 16), " ".join(words))
        if line.startswith(" "):
            rows.append(pattern)
        else:
            rows = []
            yield pattern, rows


_TABLES = [*_parsed(_DECODING)]
_STACK_UNKNOWN = (
    Pattern(0x0E10000F, 0x0600000D, "str by sp"),
    Pattern(0x0E1F0000, 0x060D0000, "str by sp"),
    Pattern(0x0E5000BF, 0x000000BD, "strh by sp"),
    Pattern(0x0E5F00B0, 0x000D00B0, "strh by sp"),
)
_STMD_SP = Pattern(0x0EDF0000, 0x080D0000, "stmd sp")
_STR_BELOW_SP = Pattern(0x0F9F0000, 0x050D0000, "str [sp, #-n]")
_STRH_BELOW_SP = Pattern(0x0FDF00B0, 0x014D00B0, "strh [sp, #-n]")


def decode(word: int) -> None:
    """Raise KernelError for an instruction that cannot be probed.

    Kernel: arm_probes_decode_insn()
    """
    table, rows = next(each for each in _TABLES if each[0].matches(word))
    row = next((row.name.split() for row in rows if row.matches(word)), [_NO])
    if _NO in row or any(_is_pc(word, int(at)) for at in row if at != _STORES):
        raise KernelError(errno.EINVAL, f"{table.name} cannot be probed")
    if _STORES in row and not 0 <= stack_use(word) <= MAX_STACK:
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


class ArmhfJudge(ListingJudge):
    """Implements kpfs.engine.judge.Judge.  Context: control."""

    words = Disassembler

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self._refused = [
            symbol_range(tables, f"__{name}_start", f"__{name}_end")
            for name in _REFUSED_TEXT
        ]
        self._jumps = True

    def follow(self, release: str, config: str) -> None:
        super().follow(release, config)
        self._jumps = "CONFIG_OPTPROBES=y\n" in config

    def arch_within_kprobe_blacklist(self, addr: KAddr) -> bool:
        """Return True in text of entries and of __kprobes, and where no MMU may be."""
        return super().arch_within_kprobe_blacklist(addr) or any(
            start <= addr < end for start, end in self._refused
        )

    def way_of(self, word: int) -> StepMethod:
        decode(word)
        return StepMethod.SIMULATED

    def check_jump(self, addr: int) -> Jump:
        """Judge the jump, which takes the place of one instruction, whichever it is."""
        why_not = "" if self._jumps else "the kernel lacks CONFIG_OPTPROBES"
        return Jump(FIXED_SIZE, why_not)
