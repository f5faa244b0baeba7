# SPDX-License-Identifier: GPL-2.0-or-later
"""Call frames of i386 are followed at each place of a function."""

import pytest

from kpfs.base import elf
from kpfs.base.data_model import LITTLE_32
from kpfs.linux.memory.call_frames import debug_frame
from kpfs.linux.memory.frame_pointers import I386
from kpfs.linux.memory.unwind import NUMBERINGS, CallFrames

START, STACK = 0xC100_0000, 0xC200_0100
ESP, EBP, EIP = 4, 5, 8
BACK, CALLERS_EBP = 0xC100_8000, 0xC200_0180
CALL = b"\xe8\0\0\0\0"
# code, and whether ebp was pushed and set before it
BEFORE, PUSHED, FRAME = range(3)
FUNCTION = [
    *((b"\x3e\x8d\x74\x26\x00", BEFORE), (b"\x55", BEFORE), (b"\xb8\1\0\0\0", PUSHED)),
    *((b"\x89\xe5", PUSHED), (CALL, FRAME), (b"\x5d", FRAME), (b"\xc3", BEFORE)),
    *((CALL, FRAME), (b"\xc9", FRAME), (b"\xe9\0\0\0\0", BEFORE)),
]
EARLY = [
    *((b"\x85\xc0", BEFORE), (b"\x74\x0b", BEFORE), (b"\x55", BEFORE)),
    *((b"\x89\xe5", PUSHED), (CALL, FRAME), (b"\x5d", FRAME), (b"\xc3", BEFORE)),
]


def caller(frames, registers, words):
    return frames.caller(registers, words.__getitem__, is_call=False)


def frames_of(text, starts, **spans):
    section = debug_frame(I386, START, text, [START + at for at in starts], **spans)
    return CallFrames(section, LITTLE_32, NUMBERINGS[elf.EM_386])


@pytest.mark.parametrize("function", [FUNCTION, EARLY])
def test_callers(function):
    text = b"".join(code for code, _ in function)
    frames, at = frames_of(text, [0]), START
    for code, state in function:
        registers = {ESP: STACK - 0x20, EBP: CALLERS_EBP, EIP: at}
        words = {STACK - 4: BACK, STACK - 8: CALLERS_EBP}
        if state == FRAME:
            registers[EBP] = STACK - 8
        else:
            registers[ESP] = STACK - (8 if state == PUSHED else 4)
        found = caller(frames, registers, words).registers
        assert (found[EIP], found[ESP], found[EBP]) == (BACK, STACK, CALLERS_EBP), code
        at += len(code)


def test_stacks_end_and_interrupts_go_on():
    text = bytes(16) + b"\x55\x89\xe5" + CALL + b"\x5d\xc3"
    spans = {"lasts": [(START, START + 8)], "interrupts": [(START + 8, START + 16)]}
    frames = frames_of(text, [0, 8, 16], **spans)
    registers = {ESP: STACK, EBP: 0, EIP: START + 4}
    assert caller(frames, registers, {}) is None
    words = {STACK + at: at for at in range(0, 64, 4)}
    found = caller(frames, registers | {EIP: START + 12}, words)
    assert found.is_interrupted
    assert [found.registers[number] for number in (ESP, EBP, EIP)] == [60, 20, 48]
