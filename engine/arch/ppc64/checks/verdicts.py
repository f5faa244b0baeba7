# SPDX-License-Identifier: GPL-2.0-or-later
"""Judge by bytes and tables alone whether code of ppc64 can be probed at an address.

A trap takes the place of a probed instruction.  The kernel emulates the instruction,
or steps over a copy of it, and refuses with EINVAL what leaves the kernel or traps.
What it can emulate from registers alone can be optimised: a jump to a copy of a
template takes the trap's place.

Kernel: arch/powerpc/kernel/kprobes.c, optprobes.c, lib/sstep.c, include/asm/probes.h
"""

from __future__ import annotations

from kpfs.base.data_model import LITTLE_64
from kpfs.base.ktypes import KAddr
from kpfs.engine.arch.ppc64.insn import Disassembler
from kpfs.engine.judge import SITE, Jump, Tables, symbol_range
from kpfs.engine.listing import FIXED_SIZE, ListingJudge
from kpfs.engine.step import Pattern

_OUTSIDE = "it is not in the kernel's own text, from which a jump reaches its buffers"
_NOT_COMPUTED = "the kernel cannot emulate it from registers, or tell what is next"
LOCAL_ENTRY = 8  # bytes of what loads r2, which callers nearby leave out
_LOADS_R2 = (0x3C4C_0000, 0x3842_0000), (0x3C40_0000, 0x3842_0000)
_OPCODE, _MINOR, _MINOR_MASK = 26, 1, 0x3FF
_HIGH = 0xFFFF_0000


def _minor(opcode: int, minor: int, name: str) -> Pattern:
    word = opcode << _OPCODE | minor << _MINOR
    return Pattern(0x3F << _OPCODE | _MINOR_MASK << _MINOR, word, name)


_RETURNS = 18, 38, 39, 50, 51, 82, 274, 306  # rfid and its like
_SLEEPS = 370, 402, 434, 466, 498  # stop, doze, nap, sleep, rvwinkle
_REFUSED = (
    Pattern(0x3F << _OPCODE, 2 << _OPCODE, "a trap"),
    Pattern(0x3F << _OPCODE, 3 << _OPCODE, "a trap"),
    Pattern(0x3F << _OPCODE, 17 << _OPCODE, "a system call"),
    _minor(31, 4, "a trap"),
    _minor(31, 68, "a trap"),
    _minor(31, 146, "mtmsr"),
    _minor(31, 178, "mtmsrd"),
    *(_minor(19, minor, "a return from an interrupt") for minor in _RETURNS),
    *(_minor(19, minor, "an instruction that sleeps") for minor in _SLEEPS),
)
# what is computed from registers: by opcode, those with a table of their own apart
_COMPUTED = frozenset((7, 8, *range(10, 16), 18, 20, 21, 23, *range(24, 31)))
_MADD, _MADDS = 4, (48, 49, 51)  # by the six lowest bits
_CONDITIONS, _EXTENDED = 19, 31
_OF_CONDITIONS = frozenset((0, 33, 129, 150, 193, 225, 257, 289, 417, 449))
_ADDPCIS, _ISEL, _FIVE_BITS = 2, 15, 0x1F
_ADDEX, _EIGHT_BITS = 170, 0xFF
_OF_EXTENDED = frozenset(
    (
        *(0, 8, 9, 10, 11, 19, 24, 26, 27, 28, 32, 40, 58, 60, 73, 75, 104, 122, 124),
        *(128, 136, 138, 144, 154, 186, 192, 200, 202, 224, 232, 233, 234, 235, 252),
        *(265, 266, 267, 284, 316, 378, 412, 444, 457, 459, 476, 489, 491, 506, 508),
        *(536, 538, 539, 570, 598, 755, 777, 779, 792, 794, 824, 826, 827, 854, 890),
        *(891, 922, 954, 986),
    )
)
_MOVES, _MOVED = (339, 467), (1, 8, 9)  # mfspr, mtspr: of XER, LR, CTR


def is_computed(word: int) -> bool:
    """Return True if the kernel emulates it from registers, and goes on behind it.

    Kernel: analyse_instr(), is_conditional_branch()
    """
    opcode, minor = word >> _OPCODE, word >> _MINOR & _MINOR_MASK
    if opcode == _MADD:
        return word & 0x3F in _MADDS
    if opcode == _CONDITIONS:
        return minor in _OF_CONDITIONS or minor & _FIVE_BITS == _ADDPCIS
    if opcode != _EXTENDED:
        return opcode in _COMPUTED
    if minor in _MOVES:
        return (word >> 16 & 0x1F | word >> 6 & 0x3E0) in _MOVED
    return (
        minor in _OF_EXTENDED
        or minor & _FIVE_BITS == _ISEL
        or minor & _EIGHT_BITS == _ADDEX
    )


class Ppc64Judge(ListingJudge):
    """Implements kpfs.engine.judge.Judge.  Context: control."""

    words, refused, has_calls = Disassembler, _REFUSED, False

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self.behind_entry = "behind what loads r2, which callers nearby leave out"
        self.most_jumps = 0
        self._head = symbol_range(tables, "_stext", "__head_end")
        self._text = symbol_range(tables, "_stext", "_etext")
        self._template = symbol_range(
            tables, "optprobe_template_entry", "optprobe_template_end"
        )

    def follow(self, release: str, config: str) -> None:
        super().follow(release, config)
        start, end = self._template
        page = 1 << (16 if "CONFIG_PPC_64K_PAGES=y\n" in config else 12)
        # one is the kernel's own, for returns
        self.most_jumps = page // (end - start) - 1 if start else 0

    def kprobe_lookup_name(self, addr: KAddr, offset: int) -> KAddr:
        if offset:
            return addr
        site = self._site(addr) if self.kprobes_on_ftrace else None
        if site is not None:
            return site
        first, second = LITTLE_64.struct("II").unpack(
            self._tables.read(addr, LOCAL_ENTRY)
        )
        loads = (first & _HIGH, second & _HIGH) in _LOADS_R2
        return KAddr(addr + LOCAL_ENTRY * loads)

    def arch_adjust_kprobe_addr(self, addr: KAddr, offset: int) -> tuple[KAddr, bool]:
        site = self._site(addr)
        last = LOCAL_ENTRY if site is None else site - addr
        return KAddr(addr + offset), offset <= last

    def _site(self, addr: int) -> KAddr | None:
        return self._tables.text.ftrace_location(addr, addr + SITE)

    def arch_within_kprobe_blacklist(self, addr: KAddr) -> bool:
        start, end = self._head
        return start <= addr < end or super().arch_within_kprobe_blacklist(addr)

    def check_jump(self, addr: int) -> Jump:
        start, end = self._text
        if not start <= addr < end:
            return Jump(FIXED_SIZE, _OUTSIDE)
        computed = is_computed(self.word_at(addr))
        why_not = "" if computed else _NOT_COMPUTED
        return Jump(FIXED_SIZE, why_not, most=self.most_jumps)
