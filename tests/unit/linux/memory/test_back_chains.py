# SPDX-License-Identifier: GPL-2.0-or-later
"""Call frame information made of the instructions of ppc64 and s390x."""

import struct

from kpfs.linux.memory.back_chains import PPC64, S390X
from kpfs.linux.memory.call_frames import cfa, cfa_behind, debug_frame, kept
from tests.unit.linux.memory.test_frame_records import entries

MFLR, STD_R0, STDU, ADDI = 0x7C08_02A6, 0xF801_0010, 0xF821_FFA1, 0x3821_0060
STD_R31, BL, BLR, NOP, BEQ = (
    0xFBE1_FFF8,
    0x4800_0101,
    0x4E80_0020,
    0x6000_0000,
    0x41820020,
)
PPC_CHAIN, BEGIN = cfa_behind(1, 0), cfa(1, 0)
LR, R31 = kept(65, -16), kept(31, 8)


def rows(code, text):
    """Return what holds from where on in the only function of a text."""
    (function,) = code.functions(text, [0])
    return list(function.rows)


def of_words(*words):
    return rows(PPC64, struct.pack(f"<{len(words)}I", *words))


def branch(words):
    return 0x4800_0000 | (4 * words & 0x03FF_FFFC)


def test_a_frame_of_ppc64_from_its_making_to_the_return():
    words = MFLR, STD_R31, STD_R0, STDU, BL, ADDI, BLR, NOP
    assert of_words(*words) == [(2, R31), (3, LR), (4, PPC_CHAIN), (6, BEGIN)]


def test_a_frame_goes_on_behind_a_return_in_the_middle():
    """A path there that leaves the function without freeing one has none, though."""
    words = MFLR, STD_R0, STDU, BEQ, ADDI, BLR, BL, branch(-3), NOP, BLR
    assert of_words(*words) == [
        *((2, LR), (3, PPC_CHAIN), (5, BEGIN)),
        (6, LR + PPC_CHAIN),
        (8, BEGIN + PPC64.unsaved),
    ]


def test_a_path_that_makes_its_frame_late():
    words = NOP, BEQ, BLR, MFLR, STDU, 0xF801_0070, BL, ADDI, BLR
    assert of_words(*words) == [(5, PPC_CHAIN), (6, LR), (8, BEGIN)]


def test_a_jump_out_of_a_function_leaves_it():
    words = STDU, BL, ADDI, BLR, NOP, branch(64)
    assert of_words(*words) == [
        *((1, PPC_CHAIN), (3, BEGIN)),
        (4, BEGIN + PPC64.unsaved),
    ]


STMG, LAY, CHAIN = "ebbff0700024", "e3f0ff60ff71", "e310f0980024"
LMG, BR, BRASL, J = "ebbff1100004", "07fe", "c0e500000100", "a7f4fffd"
NOP_6, LGR = "c00400000000", "b90400ef"
UNSAVED = cfa(15, 160) + S390X.unsaved
SAVED = b"".join(kept(11 + n, 48 - 8 * n) for n in range(5))


def test_a_frame_of_s390x():
    """Frames lie 160 bytes below what DWARF calls the caller's stack."""
    code = (
        "c00400000000" + STMG + "b90400ef" + LAY + CHAIN + BRASL + LMG + BR + BRASL + J
    )
    chain = cfa_behind(15, 152, 160)
    assert rows(S390X, bytes.fromhex(code)) == [
        *((6, SAVED), (11, cfa(15, 320)), (14, chain), (20, UNSAVED)),
        (21, SAVED + cfa(15, 320) + chain),
    ]


def test_places_and_sizes_are_in_the_kernel_s_order():
    text = bytes.fromhex(BRASL + BR)
    section = debug_frame(S390X, 0x1000, text, [0x1000], [(0x1006, 0x1008)])
    assert struct.unpack_from(">II", section)[1] == 0xFFFF_FFFF
    assert section[-20:-4] == struct.pack(">QQ", 0x1006, 2)
    little = debug_frame(PPC64, 0x1000, struct.pack("<I", BLR), [0x1000])
    ((_, start, size, code),) = entries(little)
    assert (start, size, any(code)) == (0x1000, 4, False)


def test_what_has_interrupted_a_kernel_has_its_registers():
    """The place of struct pt_regs is what a handler is given in r3."""
    text = struct.pack("<II", NOP, 0x3861_0030)
    rules = PPC64.interrupted(0, text)
    assert rules.startswith(cfa_behind(1, 0x30 + 8))
    assert PPC64.interrupted(0, text[:4]) == b""
