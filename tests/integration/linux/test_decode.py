# SPDX-License-Identifier: GPL-2.0-or-later
"""The board's decoder agrees with capstone, on the code of our own libraries."""

import ctypes
import os
import platform

import capstone
import pytest
from capstone import x86

from kpfs.base import abi, elf
from kpfs.base.structures import fields
from kpfs.linux.board.board import IMAGE_DIR

ROOT = os.path.dirname(os.path.dirname(IMAGE_DIR))
REGISTERS = "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15".split()
NONE, IP = 255, 254
READS, WRITES = abi.INSN_READS, abi.INSN_WRITES
# capstone is wrong of these, and the x87 is left out
ODD = ("ud", "cmpxchg", "f", "set", "test", "vmaskmov", "vzeroupper")


class Insn(ctypes.Structure):
    _fields_ = fields(abi.Insn)


def decoder(arch):
    path = os.path.join(IMAGE_DIR, arch, f"board-{platform.machine()}.so")
    function = ctypes.CDLL(path).board_decode

    def decoded(code):
        insn = Insn()
        function(code, ctypes.c_uint64(len(code)), ctypes.byref(insn))
        return insn

    return decoded


@pytest.fixture(scope="module")
def decode():
    return decoder("x86")


@pytest.fixture(scope="module")
def disassembler():
    made = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    made.detail = True
    return made


def operand(insn):
    """Return capstone's operand in memory, if the instruction accesses it."""
    if insn.mnemonic.startswith(("lea", "nop", "prefetch")):
        return None
    return next((op for op in insn.operands if op.type == x86.X86_OP_MEM), None)


def register(insn, number):
    name = insn.reg_name(number) if number else ""
    return IP if name == "rip" else REGISTERS.index(name) if name else NONE


def differs(insn, row):
    """Return what a row tells otherwise than capstone, "" if nothing."""
    if row.size != insn.size:
        return f"size {row.size}"
    memory = operand(insn)
    if insn.mnemonic.startswith(("call", "jmp", "push", "pop")) and memory is None:
        return ""
    if memory is None:
        return "accesses" * bool(row.flags & (READS | WRITES))
    access = READS * bool(memory.access & 1) | WRITES * bool(memory.access & 2)
    if insn.mnemonic.startswith("mov"):  # capstone has stores of SSE wrong
        access = WRITES if insn.operands[0].type == x86.X86_OP_MEM else READS
    if insn.mnemonic.startswith("rep movs"):
        access = READS | WRITES
    if row.flags & (READS | WRITES) != access or row.bytes != memory.size:
        return f"access {row.flags & 3} of {row.bytes}"
    if row.flags & abi.INSN_STRING:
        return ""
    at = memory.mem
    ours = row.base, row.index, row.disp, row.scale if row.index != NONE else 1
    theirs = register(insn, at.base), register(insn, at.index), at.disp
    if ours != (*theirs, at.scale if at.index else 1):
        return f"operand {ours}"
    is_per_cpu = bool(row.flags & abi.INSN_PER_CPU)
    return "segment" * (is_per_cpu != (at.segment == x86.X86_REG_GS))


def text_of(path):
    with open(path, "rb") as file:
        image = elf.ElfFile(file.read(), elf.ANY_MACHINE)
    section = image.section(".text")
    assert section is not None
    return image.contents(section)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="its own code is compared")
def test_it_agrees_with_capstone(decode, disassembler):
    for path in (
        os.path.join(IMAGE_DIR, "x86", "board-x86_64.so"),
        os.path.join(ROOT, "emulator", "image", "emulator-x86_64.so"),
    ):
        code = text_of(path)
        for insn in disassembler.disasm(code, 0):
            if not insn.mnemonic.removeprefix("lock ").startswith(ODD):
                row = decode(code[insn.address : insn.address + 16])
                assert not differs(insn, row), (insn.mnemonic, insn.op_str)


ROWS = (
    # code, size, bytes, flags
    ("0fb903", 3, 0, 0),
    ("f00fb10f", 4, 4, READS | WRITES | abi.INSN_LOCKED | abi.INSN_COMPARES),
    ("8707", 2, 4, READS | WRITES | abi.INSN_LOCKED),
    ("f0480fab07", 5, 8, abi.INSN_BITS | abi.INSN_LOCKED | abi.INSN_COMPARES | 3),
    ("f348a5", 3, 8, READS | WRITES | abi.INSN_STRING | abi.INSN_REPEATS),
    ("65488b042528000000", 9, 8, READS | abi.INSN_PER_CPU),
    ("64488b042528000000", 9, 0, 0),
    ("4889442408", 5, 8, WRITES | abi.INSN_ON_STACK),
    ("660f6f07", 4, 16, READS),
    ("0f6f07", 3, 8, READS),
    ("c5fd7f07", 4, 32, WRITES),
    ("f20f1007", 4, 8, READS),
    ("e800000000", 5, 0, abi.INSN_CALLS),
    ("e900000000", 5, 0, abi.INSN_TAIL),
    ("41ff5308", 4, 8, READS | abi.INSN_CALLS | abi.INSN_INDIRECT | abi.INSN_COMPARES),
    ("ffe0", 2, 0, abi.INSN_INDIRECT),
    ("3effe0", 3, 0, abi.INSN_INDIRECT | abi.INSN_NO_TRACK),
    ("48a11122334455667788", 10, 0, 0),
    ("48c70712345678", 7, 8, WRITES),
    ("0f9307", 3, 1, WRITES),
    ("0f1f440000", 5, 0, 0),
    ("c3", 1, 0, abi.INSN_LEAVES),
    ("48", 0, 0, 0),  # it goes on behind the text
)


@pytest.mark.parametrize(("code", "size", "count", "flags"), ROWS)
def test_a_row(decode, code, size, count, flags):
    row = decode(bytes.fromhex(code))
    assert (row.size, row.bytes, row.flags) == (size, count, flags)
