# SPDX-License-Identifier: GPL-2.0-or-later
"""Text beside what it was."""

from kpfs.engine.arch.x86.compare import compared_listing

START = 0x1000
SAVED = bytes.fromhex("0f1f440000 55 4889e5 90 c3")


def listing(live):
    lines = compared_listing(bytes.fromhex(live), SAVED, START, hex)
    return [" ".join(line.split()) for line in lines]


def test_the_same():
    assert listing("0f1f440000 55 4889e5 90 c3") == [
        "0000000000001000 0f 1f 44 00 00 nop dword ptr [rax + rax]",
        "0000000000001005 55 push rbp",
        "0000000000001006 48 89 e5 mov rbp, rsp",
        "0000000000001009 90 nop",
        "000000000000100a c3 ret",
    ]


def test_code_of_i386():
    """Some of it would be prefixes on x86-64."""
    saved = bytes.fromhex("40 3e8d742600 55 89e5 57 56")
    live = bytes.fromhex("40 3e8d742600 e900010000")
    lines = [" ".join(x.split()) for x in compared_listing(live, saved, START, hex, 32)]
    assert lines == [
        "0000000000001000 40 inc eax",
        "0000000000001001 3e 8d 74 26 00 lea esi, ds:[esi]",
        "0000000000001006 e9 00 01 00 00 jmp 0x110b "
        "# jump, was: push ebp; mov ebp, esp; push edi; push esi",
    ]


def test_a_call_and_a_breakpoint():
    lines = listing("e8fb0f0000 cc 4889e5 90 c3")
    assert lines[0].endswith("call 0x2000 # call, was: nop dword ptr [rax + rax]")
    assert lines[1] == "0000000000001005 cc int3 # breakpoint, was: push rbp"
    assert len(lines) == 5


def test_a_jump_replaces_whole_instructions():
    lines = listing("0f1f440000 e9f60f0000 c3")
    assert lines[1] == (
        "0000000000001005 e9 f6 0f 00 00 jmp 0x2000 "
        "# jump, was: push rbp; mov rbp, rsp; nop"
    )
    assert lines[2].startswith("000000000000100a c3 ret")
