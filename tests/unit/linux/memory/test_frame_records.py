# SPDX-License-Identifier: GPL-2.0-or-later
"""Call frame information made of the instructions of arm64 and riscv64.

With it kpfs.linux.memory.call_frames.
"""

import struct

from kpfs.linux.memory.call_frames import debug_frame
from kpfs.linux.memory.frame_records import ARM64, RISCV64

TEXT = 0xFFFF_8000_0000_1000
NOP, RET, B, BL = 0xD503_201F, 0xD65F_03C0, 0x1400_0010, 0x9400_0010
MOV_FRAME = 0x9100_03FD  # mov x29, sp
X29, X30, SP = 29, 30, 31


def sub_sp(size):
    return 0xD100_03FF | size << 10


def add_sp(size):
    return 0x9100_03FF | size << 10


def pair(word, offset):
    """Return a load or store of x29 and x30 at [sp, offset]."""
    return word | (offset // 8 & 0x7F) << 15


STP, STP_FIRST, LDP, LDP_LAST = 0xA900_7BFD, 0xA980_7BFD, 0xA940_7BFD, 0xA8C0_7BFD


def uleb(code):
    value = shift = 0
    while (byte := code.pop(0)) > 0x7F:
        value |= (byte & 0x7F) << shift
        shift += 7
    return value | byte << shift


def states(code):
    """Return register and offset of the CFA, and what is saved, by instruction."""
    at, cfa = 0, (SP, 0)
    saved: dict[int, int] = {}
    kept, found = [], {}
    while code:
        op = code.pop(0)
        if op >> 6 == 1:
            at += op & 0x3F
        elif op >> 6 == 2:
            saved = {**saved, op & 0x3F: -8 * uleb(code)}
        elif op == 0x0C:
            cfa = code.pop(0), uleb(code)
        elif op == 0x08:
            saved = {n: where for n, where in saved.items() if n != code[0]}
            del code[0]
        elif op == 0x0A:
            kept.append((cfa, saved))
        elif op == 0x0B:
            cfa, saved = kept.pop()
        elif op == 4:
            at += int.from_bytes(bytes(code[:4]), "little")
            del code[:4]
        else:
            assert op == 0
        found[at] = cfa, saved
    return found


def entries(section):
    """Return (CIE, start, size, operations) of each FDE."""
    found, at = [], 0
    while at < len(section):
        size, head = struct.unpack_from("<II", section, at)
        body = section[at + 8 : at + 4 + size]
        if head != 0xFFFF_FFFF:
            found.append((head, *struct.unpack_from("<QQ", body), list(body[16:])))
        at += 4 + size
    return found


def made(*functions, **more):
    words = [word for function in functions for word in function]
    starts, at = [], TEXT
    for function in functions:
        starts.append(at)
        at += 4 * len(function)
    text = struct.pack(f"<{len(words)}I", *words)
    return entries(debug_frame(ARM64, TEXT, text, starts, **more))


def test_a_record_that_is_made_as_the_stack_grows():
    """Behind a return in the middle all is as before it."""
    ((_, start, size, code),) = made(
        (NOP, pair(STP_FIRST, -32), MOV_FRAME, BL, pair(LDP_LAST, 32), RET, BL, B)
    )
    assert (start, size) == (TEXT, 32)
    record = {X29: -32, X30: -24}
    assert states(code) == {
        2: ((SP, 32), record),
        3: ((X29, 32), record),
        5: ((SP, 0), {}),
        6: ((X29, 32), record),
    }


def test_a_record_above_what_else_is_on_the_stack():
    frame = MOV_FRAME | 96 << 10
    ((_, _, _, code),) = made(
        (
            NOP,
            sub_sp(160),
            NOP,
            pair(STP, 96),
            frame,
            BL,
            pair(LDP, 96),
            add_sp(160),
            RET,
        )
    )
    record = {X29: -64, X30: -56}
    assert states(code) == {
        2: ((SP, 160), {}),
        4: ((SP, 160), record),
        5: ((X29, 64), record),
        7: ((SP, 160), {}),
        8: ((SP, 0), {}),
        9: ((X29, 64), record),
    }


def test_each_function_has_its_own():
    """Functions without a record have none, nor have bytes that are no code."""
    first = (pair(STP_FIRST, -16), MOV_FRAME, RET)
    found = made((NOP, RET), first, (NOP, RET), first)
    assert [(at - TEXT, size) for _, at, size, _ in found] == [(8, 12), (28, 12)]
    shifted = (STP_FIRST & 0xFFFF) << 16, STP_FIRST >> 16
    assert made((NOP, *shifted, RET)) == []


def test_a_far_prologue_is_none():
    assert made((*[NOP] * 32, pair(STP_FIRST, -16), MOV_FRAME)) == []


def test_stacks_end_where_it_is_said():
    ((head, start, size, code),) = made((NOP, RET), lasts=[(TEXT, TEXT + 4)])
    assert head
    assert (start, size, any(code)) == (TEXT, 4, False)


def test_a_stack_goes_on_where_an_interrupt_came_in():
    """At all registers of a struct pt_regs, whose record x29 points to."""
    text = (NOP).to_bytes(4, "little") * 8
    places = [(TEXT + 8, TEXT + 24)]
    section = debug_frame(ARM64, TEXT, text, [TEXT], (), places, 304)
    assert b"\xff\xff\xff\xff\1S\0\4\x78\x20" in section  # where it was, not x30
    _, _, code = section.partition(struct.pack("<QQ", TEXT + 8, 16))
    assert code.startswith(bytes.fromhex("0f038d4806"))  # CFA: the word at x29+248-304
    assert code.rstrip(b"\0").endswith(bytes.fromhex("1020028d50"))  # pc


# ---- riscv64: forms of two bytes, and of four
RA, RISCV_SP, S0 = 1, 2, 8
C_NOP, C_RET, C_J, LUI = 0x0001, 0x8082, 0xA001, 0x0000_07B7


def addi(to, offset):
    return 0x0001_0013 | to << 7 | (offset & 0xFFF) << 20


def sd(register, offset):
    return 0x0001_3023 | register << 20 | offset >> 5 << 25 | (offset & 31) << 7


def ld(register, offset):
    return 0x0001_3003 | register << 7 | offset << 20


def riscv(*functions):
    """Return the states of each function; the units of text are two bytes."""
    text, starts = b"", []
    for words in functions:
        starts.append(TEXT + len(text))
        text += b"".join(w.to_bytes(4 if w & 3 == 3 else 2, "little") for w in words)
    found = entries(debug_frame(RISCV64, TEXT, text, starts))
    return [(at - TEXT, size, states(code)) for _, at, size, code in found]


def test_a_record_by_short_instructions():
    """addi sp,-96; sd s0,32; sd s1,24; addi s0,sp,48; sd ra,40, and back."""
    prologue = 0x711D, 0xF022, 0xEC26, 0x1800, 0xF406
    epilogue = 0x70A2, 0x7402, 0x64E2, 0x6125
    ((_, _, found),) = riscv((C_NOP, *prologue, C_NOP, *epilogue, C_RET, LUI, C_J))
    record = {S0: -64, RA: -56}
    assert found == {
        2: ((RISCV_SP, 96), {}),
        3: ((RISCV_SP, 96), {S0: -64}),
        5: ((S0, 48), {S0: -64}),
        6: ((S0, 48), record),
        9: ((RISCV_SP, 96), {}),
        11: ((RISCV_SP, 0), {}),
        12: ((S0, 48), record),
    }


def test_a_record_by_long_instructions():
    """The stack below is known, too; loads of other registers change nothing."""
    prologue = addi(RISCV_SP, -2032), sd(RA, 2024), sd(S0, 2016), addi(S0, 2032)
    epilogue = addi(RISCV_SP, 64), ld(RA, 2024), ld(S0, 2016), addi(RISCV_SP, 2032)
    body = addi(RISCV_SP, -64), ld(S0, 8), C_NOP
    ((_, _, found),) = riscv((*prologue, *body, *epilogue, C_RET))
    record = {RA: -8, S0: -16}
    assert found == {
        2: ((RISCV_SP, 2032), {}),
        4: ((RISCV_SP, 2032), {RA: -8}),
        6: ((RISCV_SP, 2032), record),
        8: ((S0, 0), record),
        19: ((RISCV_SP, 2032), {}),
        21: ((RISCV_SP, 0), {}),
        22: ((S0, 0), record),
    }


def test_a_leaf_keeps_its_return_address():
    """addi sp,-16; sd s0,8; addi s0,sp,16; ld s0,8; addi sp,16."""
    leaf = 0x1141, 0xE422, 0x0800, 0x6422, 0x0141, C_RET
    without = 0x1141, C_NOP, 0x0141, C_RET
    ((start, size, found),) = riscv(without, leaf, (C_RET,))
    assert (start, size) == (8, 12)
    assert found == {
        1: ((RISCV_SP, 16), {}),
        2: ((RISCV_SP, 16), {S0: -8}),
        3: ((S0, 0), {S0: -8}),
        4: ((RISCV_SP, 16), {}),
        5: ((RISCV_SP, 0), {}),
        6: ((S0, 0), {S0: -8}),
    }


def test_half_an_instruction_is_none():
    """The upper half of lui a5,0x71d0 is addi sp,-96."""
    assert riscv((0x711D_07B7, 0xF022, 0xEC26, 0x1800, 0xF406, C_RET)) == []
