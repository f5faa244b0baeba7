# SPDX-License-Identifier: GPL-2.0-or-later
"""The decoder: lengths, fields, and that it agrees with capstone on real code."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from kpfs.engine.arch.x86.insn import (
    Disassembler,
    decode,
    decode_all,
    disassemble,
    is_direct_branch,
    named_addresses,
)
from kpfs.explain.image import read_functions
from tests.there import there

SAMPLE = Path(__file__).parents[4] / "data" / "optim"
ADDR = 0xFFFF_FFFF_8100_0000


def one(text, addr=ADDR):
    return decode(bytes.fromhex(text), addr)


@pytest.mark.parametrize(
    ("code", "length", "opcode"),
    [
        ("55", 1, "55"),  # push %rbp
        ("0f1f440000", 5, "0f1f"),  # the ftrace nop
        ("66662e0f1f840000000000", 11, "0f1f"),  # padding
        ("48b8" + "11" * 8, 10, "b8"),  # movabs
        ("66b81122", 4, "b8"),
        ("b811223344", 5, "b8"),
        ("48c7c011223344", 7, "c7"),
        ("66c7001122", 5, "c7"),
        ("f6c001", 3, "f6"),  # test $1,%al: has an immediate
        ("f6d0", 2, "f6"),  # not %al: has none
        ("f7c011223344", 6, "f7"),
        ("48f7d8", 3, "f7"),
        ("c8112233", 4, "c8"),  # enter
        ("c21122", 3, "c2"),
        ("a11122334455667788", 9, "a1"),  # mov moffs64,%eax
        ("67a111223344", 6, "a1"),
        ("e811223344", 5, "e8"),
        ("66e811223344", 6, "e8"),  # the prefix does not shorten it
        ("660f8411223344", 7, "0f84"),
        ("488d0511223344", 7, "8d"),  # RIP-relative
        ("488b0425c0fb0100", 8, "8b"),  # SIB, no base
        ("65488b0425c0fb0100", 9, "8b"),
        ("8b442408", 4, "8b"),
        ("0f01e8", 3, "0f01"),  # serialize, which capstone does not know
        ("0f0b", 2, "0f0b"),  # ud2
        ("660f3a0fc108", 6, "0f3a0f"),
        ("f30f38f6c1", 5, "0f38f6"),
        ("0f71d004", 4, "0f71"),
        ("c5f877", 3, "77"),  # vzeroupper
        ("c5fd70c11b", 5, "70"),  # vpshufd
        ("c4e37d39c101", 6, "39"),  # vextracti128
        ("62f1fd486f4704", 7, "6f"),  # vmovdqa64
    ],
)
def test_length_and_opcode(code, length, opcode):
    insn = one(code + "90" * 8)
    assert insn.length == length
    assert insn.opcode.hex() == opcode
    assert insn.raw.hex() == code


@pytest.mark.parametrize(
    ("code", "length", "opcode"),
    [
        ("40", 1, "40"),  # inc %eax
        ("8b442404", 4, "8b"),
        ("3e8d742600", 5, "8d"),  # the ftrace nop
        ("a111223344", 5, "a1"),
        ("67a11122", 4, "a1"),
        ("678b461122", 4, "8b"),  # mov 0x11(%bp)
        ("678b061122", 5, "8b"),  # mov 0x2211
        ("678b8e1122", 5, "8b"),
        ("678b07", 3, "8b"),  # mov (%bx)
        ("c50511223344", 6, "c5"),  # lds
        ("c405" + "11223344", 6, "c4"),  # les
        ("6211", 2, "62"),  # bound
        ("c5f877", 3, "77"),  # vzeroupper
        ("66e81122", 4, "e8"),  # the prefix shortens it
        ("9a112233440800", 7, "9a"),
        ("66b81122", 4, "b8"),
    ],
)
def test_code_of_i386(code, length, opcode):
    insn = there(decode(bytes.fromhex(code + "90" * 8), 0xC1000000, bits=32))
    assert insn.length == length
    assert insn.opcode.hex() == opcode
    assert Disassembler(32).text(insn.raw, insn.addr)


@pytest.mark.parametrize(
    "code",
    [
        "",
        "0f",
        "e8112233",
        "488d05112233",
        "66" * 15 + "90",  # 16 bytes
        "0f3a0fc1",
    ],
)
def test_truncated_instruction(code):
    assert one(code) is None


def test_fields():
    insn = one("65488b0511223384")
    assert insn.prefixes == b"\x65"
    assert insn.rex == 0x48
    assert insn.rip_relative
    assert (insn.disp_off, insn.disp_size) == (4, 4)
    assert insn.disp == 0x84332211 - (1 << 32)
    insn = one("83f8fe")
    assert (insn.imm, insn.imm_off, insn.imm_size, insn.reg) == (-2, 2, 1, 7)
    assert not insn.rip_relative
    assert one("67e305").addr_bytes == 4


@pytest.mark.parametrize(
    ("code", "target"),
    [
        ("eb05", 7),
        ("ebfe", 0),
        ("e900010000", 0x105),
        ("0f85f0ffffff", -10),
        ("e3fc", -2),
    ],
)
def test_target(code, target):
    insn = one(code)
    assert insn.target == ADDR + target
    assert is_direct_branch(insn)


def test_no_direct_branch():
    for code in ("ffe0", "c3", "c5fd70c11b", "0f1f440000", "f30f38f6c1"):
        assert not is_direct_branch(one(code))


def test_addresses_that_instructions_of_i386_name():
    code = bytes.fromhex(
        "64a10008e8c1"  # mov %fs:0xc1e80800, %eax
        "b8e0d5c4c1"  # mov $0xc1c4d5e0, %eax
        "8b1d786eedc1"  # mov 0xc1ed6e78, %ebx
        "a144708dc1"  # mov 0xc18d7044, %eax
        "8d8698feffff"  # lea -0x168(%esi), %eax
        "e80b000000"
        "c3"
    )
    found = list(named_addresses(code, 0xC1000000))
    assert found == [(0xC1C4D5E0, False), (0xC1ED6E78, True), (0xC18D7044, True)]


def test_word_behind_ud2_belongs_to_the_instruction():
    insn = one("0f0b78656e0fa2")  # the hypervisor's cpuid
    assert insn.length == 7
    assert insn.emulate_prefix
    assert insn.opcode.hex() == "0fa2"


def test_agrees_with_capstone_on_real_code():
    dis = Disassembler()
    unknown = 0
    functions = read_functions(SAMPLE / "functions.tsv")
    functions += read_functions(SAMPLE / "more-functions.tsv")
    count = 0
    for fn in functions:
        for insn in decode_all(fn.code, fn.addr, fn.size):
            count += 1
            if dis.text(insn.raw, insn.addr) is None:
                unknown += 1
    assert count > 5000
    assert unknown < count / 500  # what capstone 5 does not know


def test_listing():
    code = bytes.fromhex("55 0f01e8 e8fbffffff 0f")
    lines = disassemble(code, ADDR, name=lambda addr: f"f+{addr - ADDR:#x}")
    assert [line.text for line in lines] == [
        "push rbp",
        ".byte 0x0f, 0x01, 0xe8",
        f"call {ADDR + 4:#x} <f+0x4>",
        ".byte 0x0f",
    ]
    assert b"".join(line.raw for line in lines) == code


def test_capstone_is_loaded_for_listings_only():
    script = (
        "import sys; from kpfs.engine.arch.x86.insn import decode; decode(b'\\x90', 0);"
        "sys.exit('capstone' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_any_bytes_decode_or_do_not():
    rnd = random.Random(1)
    for _ in range(20_000):
        code = rnd.randbytes(rnd.randrange(17))
        insn = decode(code, ADDR)
        if insn is not None:
            assert insn.raw == code[: insn.length]
            assert 0 < insn.length <= 15
            assert insn.disp_off + insn.disp_size <= insn.length
            assert insn.imm_off + insn.imm_size <= insn.length
