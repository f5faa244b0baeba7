# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of 32-bit Arm kernels become call frames that are followed."""

import struct

import pytest

from kpfs.base import elf
from kpfs.base.data_model import LITTLE_32
from kpfs.base.errors import MemoryFault
from kpfs.linux.memory.memory import KernelMemory
from kpfs.linux.memory.unwind import NUMBERINGS, CallFrames
from kpfs.linux.memory.unwind_tables import debug_frame, module_frame

START, END, TABLE, LONG = 0xC030_0000, 0xC030_4000, 0xC030_5004, 0xC030_6000
STACK = 0xC200_0100
SP, LR, PC = 13, 14, 15
SIZE = 0x100  # bytes of a function
# codes of functions: in the table, or at a place that it leads to
POPS = b"\x01\xa9\xb0"  # sp += 8; pop {r4, r5, lr}
BY_R11 = b"\x9b\x41\x84\x80"  # sp = r11; sp -= 8; pop {r11, lr} in two bytes
LARGE = b"\xb2\x01\xb1\x03\x84\x00"  # sp += 0x208; pop {r0, r1}; pop {lr}
REFUSED = b"\x80\x00\xb0"


class Memory(KernelMemory):
    model = LITTLE_32

    def __init__(self, words):
        self.words = words

    def _piece(self, addr, size):
        if not START <= addr < LONG + 0x1000:
            return b""
        words = [self.words.get(addr + at, 0) for at in range(0, size, 4)]
        return struct.pack(f"<{len(words)}I", *words)


def leading(at, target):
    return target - at & 0x7FFF_FFFF


@pytest.fixture
def section():
    words = {}
    for number in range(64):
        at = TABLE + 8 * number
        words[at] = leading(at, START + SIZE * number)
        words[at + 4] = 0x8000_0000 | int.from_bytes(POPS, "big")
    words[TABLE + 12] = 1  # cannot be unwound
    for number, codes in ((2, BY_R11), (3, LARGE)):
        at, place = TABLE + 8 * number + 4, LONG + 0x100 * number
        words[at] = leading(at, place)
        first, rest = codes[:2], codes[2:].ljust(4, b"\xb0")
        words[place] = 0x8101_0000 | int.from_bytes(first, "big")
        words[place + 4] = int.from_bytes(rest, "big")
    words[TABLE + 36] = 0x8000_0000 | int.from_bytes(REFUSED, "big")
    code = START + 6 * SIZE
    words.update({code: 0xE92D_4030, code + 4: 0xE24D_D008})  # push, sub sp, sp, #8
    lasts = [(START + 5 * SIZE, START + 6 * SIZE)]
    return debug_frame(Memory(words), START, END, lasts)


@pytest.fixture
def caller(section):
    frames = CallFrames(section, LITTLE_32, NUMBERINGS[elf.EM_ARM])

    def ask(number, words=(), at=8):
        known = {SP: STACK, 11: STACK + 0x40, LR: 7, PC: START + SIZE * number + at}
        found = frames.caller(known, dict(words).__getitem__, is_call=True)
        return found and found.registers

    return ask


def test_callers(caller):
    found = caller(0, {STACK + 8: 4, STACK + 12: 5, STACK + 16: 0x1234})
    assert [found[n] for n in (4, 5, SP, LR, PC)] == [4, 5, STACK + 20, 0x1234, 0x1234]
    found = caller(2, {STACK + 0x38: 0x11, STACK + 0x3C: 0x1234})
    assert [found[n] for n in (11, SP, PC)] == [0x11, STACK + 0x40, 0x1234]
    top = STACK + 0x208
    found = caller(3, {top: 1, top + 4: 2, top + 8: 0x1234})
    assert [found[n] for n in (0, 1, SP, PC)] == [1, 2, top + 12, 0x1234]


def test_prologues(caller):
    found = caller(6, at=4)  # the instruction before counts, as in calls
    assert [found[n] for n in (SP, PC)] == [STACK, 7]
    found = caller(6, {STACK: 4, STACK + 4: 5, STACK + 8: 0x1234}, at=5)
    assert [found[n] for n in (4, SP, PC)] == [4, STACK + 12, 0x1234]
    found = caller(6, {STACK + 8: 4, STACK + 12: 5, STACK + 16: 0x1234}, at=12)
    assert [found[n] for n in (4, SP, PC)] == [4, STACK + 20, 0x1234]


def test_where_nothing_calls_and_stacks_end(caller):
    for number in (1, 4):
        with pytest.raises(KeyError):
            caller(number)
    assert caller(5) is None


def test_each_section_of_a_modules_text_has_a_table():
    init, texts = START + 0x2000, [(START, START + 0x1000), (END - 0x1000, END)]
    words = {}
    for at, begins in ((TABLE, (START, START + SIZE)), (LONG, (END - 0x1000, init))):
        for number, begin in enumerate(begins):
            words[at + 8 * number] = leading(at + 8 * number, begin)
            words[at + 8 * number + 4] = 0x8000_0000 | int.from_bytes(POPS, "big")
    tables = [(LONG, LONG + 16), (TABLE, TABLE + 8)]
    section = module_frame(Memory(words), texts, tables)
    frames = CallFrames(section, LITTLE_32, NUMBERINGS[elf.EM_ARM])

    def caller(place):
        known = {SP: STACK, LR: 7, PC: place + 8}
        found = frames.caller(known, lambda at: at, is_call=True)
        return found and found.registers[PC]

    ends = START, START + SIZE, END - 0x1000, END - 0x100  # all functions reach there
    assert [caller(place) for place in ends] == [STACK + 16] * 4
    with pytest.raises(KeyError):
        caller(init)  # a row of no text


def test_without_a_table():
    with pytest.raises(MemoryFault):
        debug_frame(Memory({}), START, END)
