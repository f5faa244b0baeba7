# SPDX-License-Identifier: GPL-2.0-or-later
"""The board's decoder of arm64 agrees with capstone, on code of our own libraries."""

import os

import capstone
import pytest
from capstone import arm64

from kpfs.base import abi
from kpfs.linux.board.board import IMAGE_DIR
from tests.integration.linux.test_decode import NONE, decoder, text_of

ROOT = os.path.dirname(os.path.dirname(IMAGE_DIR))
REGISTERS = [*(f"x{number}" for number in range(29)), "x29", "x30", "sp"]
WORDS = [*(f"w{number}" for number in range(31)), "wzr"]
READS, WRITES, LOCKED = abi.INSN_READS, abi.INSN_WRITES, abi.INSN_LOCKED
ALIASES = {"fp": "x29", "lr": "x30"}
# the last two have rows by the loads before them
LEFT_OUT = "prfm", "ld1", "st1", "ld2", "st2", "ld4", "st4", "stxr", "stlxr"
SIZES = {"b": 1, "h": 2, "s": 4, "w": 4, "d": 8, "x": 8, "q": 16}


@pytest.fixture(scope="module")
def decode():
    return decoder("arm64")


def register(insn, number):
    name = insn.reg_name(number) if number else ""
    name = ALIASES.get(name, name)
    names = WORDS if name in WORDS else REGISTERS
    return names.index(name) if name else NONE


def size_of(insn):
    """Return the bytes that capstone's instruction accesses."""
    for ending, size in {"sw": 4, "sb": 1, "sh": 2, "b": 1, "h": 2}.items():
        if insn.mnemonic.endswith(ending):
            return size * (1 + insn.mnemonic.startswith("ldpsw"))
    name = insn.reg_name(insn.operands[0].reg)
    size = SIZES["x" if name in ("fp", "lr") else name[0]]
    return size * (1 + insn.mnemonic.startswith(("ldp", "stp", "ldnp", "stnp")))


def differs(insn, row):
    """Return what a row tells otherwise than capstone, "" if nothing."""
    memory = [op for op in insn.operands if op.type == arm64.ARM64_OP_MEM]
    name = insn.mnemonic
    if not memory or name.startswith(LEFT_OUT):
        return "accesses" * bool(row.flags & (READS | WRITES))
    access = READS if name.startswith("ld") else WRITES
    if name.startswith(("ldxr", "ldaxr")):  # with the store that follows
        access = READS | WRITES
    if row.flags & (READS | WRITES) != access or row.bytes != size_of(insn):
        return f"access {row.flags & 3} of {row.bytes}"
    at, (operand,) = memory[0].mem, memory
    ours = row.base, row.index, row.disp, row.scale & 0x3F
    theirs = register(insn, at.base), register(insn, at.index), at.disp
    if ours != (*theirs, 1 << operand.shift.value):
        return f"operand {ours}"
    words = {arm64.ARM64_EXT_UXTW: 0x40, arm64.ARM64_EXT_SXTW: 0x80}
    return "extension" * (words.get(operand.ext, 0) != row.scale & 0xC0)


def test_it_agrees_with_capstone(decode):
    disassembler = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    disassembler.detail, seen = True, 0
    for path in (
        os.path.join(IMAGE_DIR, "arm64", "board-aarch64.so"),
        os.path.join(ROOT, "emulator", "image", "emulator-aarch64.so"),
    ):
        code = text_of(path)
        for insn in disassembler.disasm(code, 0):
            if insn.op_str.endswith(("!", "]")) or "[" not in insn.op_str:
                row = decode(code[insn.address : insn.address + 4])
                assert not differs(insn, row), (insn.mnemonic, insn.op_str)
                seen += 1
    assert seen > 4000


BOTH = READS | WRITES | LOCKED
ROWS = (
    # code, bytes, flags
    (0xC85F7C20, 8, BOTH),  # ldxr x0, [x1]
    (0x885FFC20, 4, BOTH),  # ldaxr w0, [x1]
    (0xC87F0820, 16, BOTH),  # ldxp x0, x2, [x1]
    (0xC8027C20, 0, 0),  # stxr w2, x0, [x1]: with its load it is one access
    (0x88A07C22, 4, BOTH),  # cas w0, w2, [x1]
    (0x48207C82, 16, BOTH),  # casp x0, x1, x2, x3, [x4]
    (0xF8200022, 8, BOTH),  # ldadd x0, x2, [x1]
    (0x38208022, 1, BOTH),  # swpb w0, w2, [x1]
    (0xB8BFC020, 4, READS | LOCKED),  # ldapr w0, [x1]
    (0x889FFC20, 4, WRITES | LOCKED),  # stlr w0, [x1]
    (0x08DFFC20, 1, READS | LOCKED),  # ldarb w0, [x1]
    (0xF8408420, 8, READS),  # ldr x0, [x1], #8
    (0x58000040, 8, READS),  # ldr x0, . + 8
    (0xF9000BE0, 8, WRITES | abi.INSN_ON_STACK),  # str x0, [sp, #16]
    (0xF8400820, 0, 0),  # ldtr x0, [x1]: a program's
    (0x94000000, 0, abi.INSN_CALLS),
    (0x14000000, 0, abi.INSN_TAIL),
    (0xD63F0020, 0, abi.INSN_CALLS | abi.INSN_INDIRECT),  # blr x1
    (0xD61F0020, 0, abi.INSN_INDIRECT),
    (0xD65F03C0, 0, abi.INSN_LEAVES),
    (0xD65F0BFF, 0, abi.INSN_LEAVES),  # retaa
    (0xD503201F, 0, 0),
)


@pytest.mark.parametrize(("word", "count", "flags"), ROWS)
def test_a_row(decode, word, count, flags):
    row = decode(word.to_bytes(4, "little"))
    assert (row.size, row.bytes, row.flags) == (4, count, flags)


def test_an_instruction_goes_on_behind_the_text(decode):
    assert decode(b"\0\0\0").size == 0
