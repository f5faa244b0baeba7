# SPDX-License-Identifier: GPL-2.0-or-later
"""Callers by call frames that are put together by hand."""

import pytest

from kpfs.base import elf
from kpfs.base.data_model import LITTLE_64
from kpfs.linux.memory.call_frames import entry, head, sleb, uleb
from kpfs.linux.memory.unwind import NUMBERINGS, CallFrames

RBP, RSP, RIP = 6, 7, 16
TEXT, STACK = 0x1000, 0x8000
ADVANCE, OFFSET, REMEMBER, RESTORE = 0x40, 0x80, 0x0A, 0x0B
UNDEFINED, SAME, DEF_CFA, OFFSET_SIGNED = 0x07, 0x08, 0x0C, 0x11
DEF_CFA_EXPRESSION, EXPRESSION, BREG, DEREF, PLUS = 0x0F, 0x10, 0x70, 0x06, 0x23


def cfa(offset):
    return bytes((DEF_CFA, RSP)) + uleb(offset)


def saved(number, above):
    return bytes((OFFSET | number, above // 8))


def at(place, code=b""):
    """Advance by so many bytes."""
    if place < 0x40:
        return bytes((ADVANCE | place,)) + code
    return bytes((4,)) + place.to_bytes(4, "little") + code


def block(code, expression):
    return bytes((*code, len(expression))) + expression


CALLED = head(cfa(8) + saved(RIP, 8), RIP)
SIGNAL = head(cfa(8) + saved(RIP, 8), RIP, signal=b"S")
REGS = bytes((BREG + RSP,)) + sleb(40)
FRAMES = (
    CALLED
    + SIGNAL
    # push rbp at 1, sub at 5; an epilogue at 0x65, and what is behind it
    + entry(
        *(0, TEXT, TEXT + 0x100),
        at(1, cfa(16) + saved(RBP, 16))
        + at(4, cfa(48))
        + at(0x60, bytes((REMEMBER,)) + cfa(8) + bytes((SAME, RBP)))
        + at(1, bytes((RESTORE,))),
    )
    # an interrupt's frame
    + entry(
        *(len(CALLED), TEXT + 0x100, TEXT + 0x200),
        block((DEF_CFA_EXPRESSION,), REGS + bytes((PLUS,)) + uleb(24) + bytes((DEREF,)))
        + block((EXPRESSION, RIP), REGS),
    )
    # where stacks end
    + entry(0, TEXT + 0x200, TEXT + 0x300, bytes((UNDEFINED, RIP)))
    + entry(
        0, TEXT + 0x300, TEXT + 0x400, bytes((OFFSET_SIGNED, RBP)) + sleb(-2) + cfa(16)
    )
)


def caller(place, *, is_call=False):
    """Return the caller of TEXT + place; each word of the stack is its own address."""
    frames = CallFrames(FRAMES, LITTLE_64, NUMBERINGS[elf.EM_X86_64])
    registers = {RIP: TEXT + place, RSP: STACK, RBP: 1}
    return frames.caller(registers, lambda addr: addr, is_call=is_call)


@pytest.mark.parametrize(
    ("place", "is_call", "stack", "frame"),
    [
        (0, False, 8, 1),
        (1, False, 16, STACK),
        (1, True, 8, 1),  # the instruction before is a call
        (4, False, 16, STACK),
        (5, False, 48, STACK + 32),
        (0x64, False, 48, STACK + 32),
        (0x65, False, 8, 1),
        (0x66, False, 48, STACK + 32),
        (0x300, False, 16, STACK + 32),
    ],
)
def test_the_rules_are_those_of_the_place(place, is_call, stack, frame):
    found = caller(place, is_call=is_call)
    assert found.registers[RSP] == STACK + stack
    assert found.registers[RIP] == STACK + stack - 8
    assert found.registers[RBP] == frame
    assert not found.is_interrupted


def test_an_interrupted_function_has_called_nothing():
    found = caller(0x180)
    assert found.is_interrupted
    assert found.registers[RIP] == STACK + 40
    assert found.registers[RSP] == STACK + 64


def test_a_stack_ends():
    assert caller(0x200) is None


@pytest.mark.parametrize("place", [-1, 0x400])
def test_of_other_text_nothing_is_known(place):
    with pytest.raises(KeyError):
        caller(place)
