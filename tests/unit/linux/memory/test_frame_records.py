# SPDX-License-Identifier: GPL-2.0-or-later
"""Call frame information made of the instructions of arm64.

With it kpfs.linux.memory.call_frames.
"""

import struct

from kpfs.linux.memory.frame_records import debug_frame

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
    return entries(debug_frame(TEXT, text, starts, **more))


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
    """Those without a record have none, nor do bytes that are no instruction."""
    first = (pair(STP_FIRST, -16), MOV_FRAME, RET)
    found = made((NOP, RET), first, (NOP, RET), first)
    assert [(at - TEXT, size) for _, at, size, _ in found] == [(8, 12), (28, 12)]
    shifted = (STP_FIRST & 0xFFFF) << 16, STP_FIRST >> 16
    assert made((NOP, *shifted, RET)) == []


def test_a_far_prologue_is_none():
    assert made((*[NOP] * 32, pair(STP_FIRST, -16), MOV_FRAME)) == []


def test_stacks_end_where_it_is_said():
    ((head, start, size, code),) = made((NOP, RET), lasts=[(TEXT, TEXT + 4), (0, 0)])
    assert head
    assert (start, size, any(code)) == (TEXT, 4, False)


def test_a_stack_goes_on_where_an_interrupt_came_in():
    """At all registers of a struct pt_regs, whose record x29 points to."""
    text = (NOP).to_bytes(4, "little") * 8
    places = [(TEXT + 8, TEXT + 24)]
    section = debug_frame(TEXT, text, [TEXT], (), places, 304)
    assert b"\xff\xff\xff\xff\1S\0\4\x78\x20" in section  # where it was, not x30
    _, _, code = section.partition(struct.pack("<QQ", TEXT + 8, 16))
    assert code.startswith(bytes.fromhex("0f038d4806"))  # CFA: the word at x29+248-304
    assert code.rstrip(b"\0").endswith(bytes.fromhex("1020028d50"))  # pc
