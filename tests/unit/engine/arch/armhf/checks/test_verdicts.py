# SPDX-License-Identifier: GPL-2.0-or-later
"""Judging code of armhf, without a kernel.

tests/integration/linux/test_explain.py asks a kernel about the same.
"""

from functools import partial

import pytest

from kpfs.base.errors import KernelError
from kpfs.engine.arch.armhf.checks.verdicts import decode, stack_use
from tests.unit.engine.arch.text_tables import Tables

AT = 0xC0300000
NOP = "00f020e3"
tables = partial(Tables, "armhf", AT)


@pytest.mark.parametrize(
    "word",
    [
        0xE92D4010,  # push {r4, lr}
        0xE8BD8010,  # pop {r4, pc}
        0xE1A0C00D,  # mov ip, sp
        0xE28FF004,  # add pc, pc, #4
        0xEB000000,  # bl
        0x0A000000,  # beq
        0xE12FFF1E,  # bx lr
        0xE12FFF33,  # blx r3
        0xE30616A8,  # movw
        0xE59F0000,  # ldr r0, [pc]
        0xE5801000,  # str r1, [r0]
        0xE50D1040,  # str r1, [sp, #-64]
        0xE79FF103,  # ldr pc, [pc, r3, lsl #2]
        0xF5D0F000,  # pld [r0]
        0xE6EF0070,  # uxtb
        0xE7E30050,  # ubfx
        0xE16F0F10,  # clz
        0xE320F003,  # wfi
    ],
)
def test_instructions_that_can_be_probed(word):
    decode(word)


@pytest.mark.parametrize(
    ("word", "why"),
    [
        (0xE1900F9F, "an exclusive load or store"),  # ldrex
        (0xE10F0000 | 0xF000, "the processor's state"),  # mrs pc, cpsr
        (0xE121F000, "the processor's state"),  # msr
        (0xE12FFF3F, "the processor's state"),  # blx pc
        (0xF10C0080, "an unconditional instruction"),  # cpsid i
        (0xF57FF05F, "an unconditional instruction"),  # dmb sy
        (0xEE1D0F70, "a coprocessor"),  # mrc
        (0xEF000000, "a coprocessor"),  # svc
        (0xE7F001F2, "a media instruction"),  # udf, of BUG()
        (0xE1B0F00E, "operation with pc"),  # movs pc, lr
        (0xE0811F12, "operation with pc"),  # add r1, r1, r2, lsl pc
        (0xE5BF0004, "such a load or store"),  # ldr r0, [pc, #4]!
        (0xE4B00000, "such a load or store"),  # ldrt
        (0xE1CF00D0 | 0xE000, "such a load or store"),  # ldrd lr, pc
        (0xE8FD8000, "a program's registers"),  # ldm sp!, {pc}^
        (0xE50D1044, "the probe's frame"),  # str r1, [sp, #-68]
        (0xE78D1002, "the probe's frame"),  # str r1, [sp, r2]
    ],
)
def test_instructions_that_cannot(word, why):
    with pytest.raises(KernelError) as refused:
        decode(word)
    assert why in refused.value.why


@pytest.mark.parametrize(
    ("word", "size"),
    [
        (0xE92D4010, 8),  # stmdb sp!, {r4, lr}
        (0xE80D4010, 4),  # stmda sp, {r4, lr}
        (0xE58D1010, 0),  # str r1, [sp, #16]
        (0xE50D1010, 16),
        (0xE14D12B4, 36),  # strh r1, [sp, #-36]
        (0xE18D10B2, -1),  # strh r1, [sp, r2]
    ],
)
def test_how_far_below_the_stack_an_instruction_stores(word, size):
    assert stack_use(word) == size


def test_the_place_of_ftraces_call_and_places_within_instructions():
    code = tables("04e02de5" + NOP + NOP, site=AT + 4)
    code.accept(0)
    assert code.refused(2) == "no instruction begins there"
    said = "ftrace puts its calls there, and this kernel has no probes on these"
    assert code.refused(4) == said
    assert code.listing(5, 4) == [(4, "nop"), (8, "nop")]


def test_a_jump_takes_the_place_of_one_instruction():
    code = tables(NOP)
    assert code.judge.check_jump(AT) == (4, "", 0, 0)
    code.judge.follow("6.12.0", "")
    assert code.way() == "the kernel lacks CONFIG_OPTPROBES"
