# SPDX-License-Identifier: GPL-2.0-or-later
"""Call frame information for debuggers, made of the text of i386 kernels.

They are built with frame pointers: each function that calls another one pushes ebp and
sets it to esp, some of them behind early returns. It ends in pop %ebp or leave, and a
return or a jump. In between ebp tells where the caller's frame is.

Kernel: arch/x86/entry/entry_32.S, asm/ptrace.h.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from kpfs.base.data_model import LITTLE_32
from kpfs.linux.memory.call_frames import (
    THREADS,
    Code,
    FunctionFrames,
    Row,
    cfa,
    cfa_behind,
    interrupted,
    kept,
    same,
)

_LONG = LITTLE_32.long
_ECX, _EDX, _EBX, _ESP, _EBP, _ESI, _EDI, _EIP = range(1, 9)
# begin of a function: ftrace's call; push %ebp; mov %esp,%ebp, and others between them
_BEGIN = re.compile(
    rb"(?:\x3e\x8d\x74\x26\x00|\xe8....)?(?P<push>\x55).{0,24}?\x89\xe5", re.DOTALL
)
# both behind early returns; pop %ebp or leave, before a function returns or jumps away
_CHANGES = re.compile(
    rb"(?P<push>\x55)\x89\xe5"
    rb"|(?P<end>[\x5d\xc9])(?:\xc3|\xc2..|\xe9....|\xeb.|\xff[\xe0-\xe7])",
    re.DOTALL,
)
_CALL, _PROLOGUE = b"\xe8", b"\x55\x89\xe5"
_PUSHED = cfa(_ESP, 2 * _LONG) + kept(_EBP, 2 * _LONG, _LONG)
_FRAME = cfa(_EBP, 2 * _LONG) + kept(_EBP, 2 * _LONG, _LONG)
# places in struct pt_regs
_REGS = {0: 24, _ECX: 4, _EDX: 8, _EBX: 0, _EBP: 20, _ESI: 12, _EDI: 16, _EIP: 48}
_REGS_SP = 60


class _I386(Code):
    model = LITTLE_32
    unit = 1
    back = counter = _EIP
    stack = _ESP
    saved = _EBX, _EBP, _ESI, _EDI
    lasts = *THREADS, ("entry_SYSENTER_32", ""), ("entry_INT80_32", "")
    interrupts = tuple(
        (name, "")
        for name in (
            *("handle_exception", "asm_common_interrupt", "asm_exc_nmi"),
            *("asm_sysvec_apic_timer_interrupt", "asm_sysvec_reschedule_ipi"),
            *("asm_sysvec_call_function", "asm_sysvec_call_function_single"),
        )
    )

    @cached_property
    def begin(self) -> bytes:
        return cfa(_ESP, _LONG) + kept(_EIP, _LONG, _LONG) + self.unsaved

    @cached_property
    def _entered(self) -> bytes:
        """The rules before a return: nothing but ebp was told to be saved."""
        return cfa(_ESP, _LONG) + same(_EBP)

    def functions(self, text: bytes, starts: Sequence[int]) -> Iterator[FunctionFrames]:
        for begin, end in zip(starts, [*starts[1:], len(text)], strict=True):
            rows = list(self._rows(text, begin, end))
            if rows:
                yield FunctionFrames(begin, end, rows)

    def _rows(self, text: bytes, begin: int, end: int) -> Iterator[Row]:
        at, code = begin, text[begin:end]
        has_frame = False
        if found := _BEGIN.match(text, begin, end):
            yield found.end("push"), _PUSHED
            at = found.end()
        # a part that is jumped to, and calls others with the frame of where it was
        if found or (_CALL in code and _PROLOGUE not in code):
            yield at, _FRAME
            has_frame = True
        for found in _CHANGES.finditer(text, at, end):
            if found["push"]:
                yield found.end("push"), _PUSHED
                yield found.end(), _FRAME
                has_frame = True
            elif has_frame:
                yield found.end("end"), self._entered
                yield found.end(), _FRAME

    def interrupted(self, record: int, text: bytes) -> bytes:
        stack = cfa_behind(_ESP, _REGS_SP)
        return interrupted(_ESP, 0, stack, _REGS)


I386 = _I386()
