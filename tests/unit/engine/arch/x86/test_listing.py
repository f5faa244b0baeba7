# SPDX-License-Identifier: GPL-2.0-or-later
"""machine/text/SYMBOL: text as it stands."""

import pytest

from tests.unit.engine.arch.bare import NOP5

pytestmark = pytest.mark.guest

# 5: push rbp; 6: mov rbp,rsp; 9: lea eax,[rdi+1]; 12: pop rbp; 13: ret
F = NOP5 + bytes.fromhex("55 4889e5 8d4701 5d c3")


def listing(b):
    at = b.machine.addr("f")
    return b.arch.text_listing(at, at + len(F)).splitlines()


def column(lines, what):
    return [line for line in lines if what in line]


def test_plain(box):
    b = box({"f": F})
    lines = listing(b)
    assert lines[0] == "f:"
    assert len(lines) == 7
    assert "push rbp" in lines[2]
    assert not column(lines, "#")


def test_breakpoint_and_slot(box):
    b = box({"f": F}, optprobes=False)
    p = b.probe("f", 6, pre_handler=b.note("hit"))
    lines = listing(b)
    (line,) = column(lines, "breakpoint, was: mov rbp, rsp")
    assert "cc 89 e5" in line
    assert "int3" in line
    at = lines.index("slot of f+0x6:")
    assert f"{p.ainsn.slot:016x}  48 89 e5" in lines[at + 1]
    assert "jmp" in lines[at + 2]
    assert "<f+0x9>" in lines[at + 2]
    assert len(column(lines[:at], "f+0x")) == 0


def test_single_step_slot_ends_in_int3(box):
    b = box({"f": F}, optprobes=False)
    b.probe("f", 6, post_handler=b.note("hit"))
    lines = listing(b)
    assert "int3" in lines[-1]


def test_jump_and_detour_buffer(box):
    b = box({"f": F})
    p = b.probe("f", 5, pre_handler=b.note("hit"))
    b.probe("f", 5, pre_handler=b.machine.addr("f"))  # guest code: the long way
    b.machine.run_later()
    lines = listing(b)
    assert column(lines, "jump, was: push rbp; mov rbp, rsp; lea eax, [rdi + 1]")
    at = lines.index("detour buffer of f+0x5:")
    detour = lines[at + 1 :]
    assert f"{b.state.kprobe_table[p.addr].optinsn.buffer:016x}" in detour[0]
    assert "kp_entry_opt" in detour[2]
    assert [line.split()[-2:] for line in detour[3:4]] == [["push", "rbp"]]
    assert "<f+0xc>" in detour[-1]


def test_ftrace_call_and_stub(box):
    b = box({"f": F})
    b.probe("f", 0, pre_handler=b.note("hit"))
    lines = listing(b)
    assert column(lines, "ftrace call, was: nop")
    at = lines.index("stub of f:")
    assert "push" in lines[at + 1]
    assert "kp_entry_ftrace" in lines[at + 2]
