# SPDX-License-Identifier: GPL-2.0-or-later
"""Judge by bytes and tables alone whether code of arm64 can be probed at an address.

A probe's instruction is stepped elsewhere, or the kernel simulates it because it
depends on its address.  What is neither is refused, with EINVAL.

Kernel: arch/arm64/kernel/probes/kprobes.c, decode-insn.c
"""

from __future__ import annotations

import errno

from kpfs.base.errors import KernelError
from kpfs.engine.arch.arm64.insn import Disassembler
from kpfs.engine.listing import FIXED_SIZE, ListingJudge
from kpfs.engine.step import Pattern, StepMethod, refuse

ATOMIC_INSNS = 32  # looked at before a probe; kernel: MAX_ATOMIC_CONTEXT_SIZE
LOAD_EXCLUSIVE = Pattern(0x3F400000, 0x08400000, "an exclusive load")
STORE_EXCLUSIVE = Pattern(0x3F400000, 0x08000000, "an exclusive store")
# Branches, exceptions, system instructions
_CONTROL = Pattern(0x1C000000, 0x14000000, "")
SIMULATED = (
    Pattern(0xFF000010, 0x54000000, "a conditional branch"),
    Pattern(0x7E000000, 0x34000000, "cbz or cbnz"),
    Pattern(0x7E000000, 0x36000000, "tbz or tbnz"),
    Pattern(0x7C000000, 0x14000000, "b or bl"),
    Pattern(0xFFFFFC1F, 0xD61F0000, "br"),
    Pattern(0xFFFFFC1F, 0xD63F0000, "blr"),
    Pattern(0xFFFFFC1F, 0xD65F0000, "ret"),
    Pattern(0x1F000000, 0x10000000, "adr or adrp"),
    Pattern(0xBF000000, 0x18000000, "a load of a literal"),
    Pattern(0xFF000000, 0x98000000, "a load of a literal"),
)
_REFUSED = (
    Pattern(0xFFFFF800, 0xD61F0800, "an authenticated branch"),
    Pattern(0xFFFFF800, 0xD63F0800, "an authenticated call"),
    Pattern(0xFFFFFBFF, 0xD65F0BFF, "an authenticated return"),
    Pattern(0xFEFFF800, 0xD71F0800, "an authenticated branch or call"),
    Pattern(0xFF000000, 0xD4000000, "an instruction that raises an exception"),
    Pattern(0xFFF8F01F, 0xD500401F, "a write to the processor's state"),
    Pattern(0xFFF00000, 0xD5100000, "a write to a system register"),
    Pattern(0xFFFFFFE0, 0xD53B4220, "a read of the interrupt mask"),
    Pattern(0xFFFFFFFF, 0xD69F03E0, "a return from an exception"),
    Pattern(0xFFFFFBFF, 0xD69F0BFF, "a return from an exception"),
)
_REFUSED_OTHERWISE = (
    Pattern(0x3F800000, 0x08000000, "an exclusive load or store"),
    Pattern(0xFF000000, 0xD8000000, "a prefetch of a literal"),
    Pattern(0x3B200C00, 0x19000400, "part of a memory copy or set"),
)
_HINT = Pattern(0xFFFFF01F, 0xD503201F, "a hint")
# hints that change neither where execution goes on nor how, by CRm and op2
_STEPPED_HINTS = frozenset(
    (
        0x00,  # nop
        0x07,  # xpaclri
        *(0x08, 0x0A),  # pacia1716, pacib1716
        *(0x18, 0x19, 0x1A, 0x1B),  # paciaz, paciasp, pacibz, pacibsp
        *(0x20, 0x22, 0x24, 0x26),  # bti
    )
)


class Arm64Judge(ListingJudge):
    """Implements kpfs.engine.judge.Judge.  Context: control."""

    arch, words, simulated = "arm64", Disassembler, SIMULATED

    def way_of(self, word: int) -> StepMethod:
        way = super().way_of(word)
        if way is StepMethod.SIMULATED:
            return way
        refuse(_REFUSED if _CONTROL.matches(word) else _REFUSED_OTHERWISE, word)
        if _HINT.matches(word) and word >> 5 & 0x7F not in _STEPPED_HINTS:
            raise KernelError(errno.EINVAL, "such a hint cannot be probed")
        return way

    def check_instruction(self, addr: int) -> None:
        super().check_instruction(addr)
        if self._tables.text.has_exception_entry(addr, addr + 1):
            why = "the exception table has the instruction"
            raise KernelError(errno.EINVAL, why)
        exclusive = self._exclusive_before(addr)
        if exclusive:
            why = f"between the exclusive load at {exclusive:#x} and its store"
            raise KernelError(errno.EINVAL, why)

    def _exclusive_before(self, addr: int) -> int:
        """Return the address of an exclusive load that no store has ended yet; or 0.

        Kernel: is_probed_address_atomic()
        """
        symbol = self._tables.kallsyms.symbol_at(addr)
        offset = addr - symbol.addr if symbol else 0
        count = min(offset // FIXED_SIZE, ATOMIC_INSNS)
        start = addr - count * FIXED_SIZE
        raw = self._tables.read(start, count * FIXED_SIZE) if count else b""
        for at in reversed(range(0, len(raw), FIXED_SIZE)):
            word = self.words.number(raw[at : at + FIXED_SIZE])
            if STORE_EXCLUSIVE.matches(word):
                return 0
            if LOAD_EXCLUSIVE.matches(word):
                return start + at
        return 0
