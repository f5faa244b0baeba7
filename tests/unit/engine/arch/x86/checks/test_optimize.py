# SPDX-License-Identifier: GPL-2.0-or-later
"""x86's verdicts on bytes: where a jump may replace them."""

import pytest

from kpfs.engine.arch.x86.checks.optimize import Obstacle, Region, Why, can_optimize
from kpfs.engine.arch.x86.checks.probe import KernelView, Rules
from tests.unit.engine.arch.x86.checks.tables import PLAIN, THUNKS, F, Tables, text


def region_size(code, at=0, **kwargs):
    verdict = can_optimize(text(code, **kwargs), F + at)
    assert isinstance(verdict, Region), verdict
    return len(verdict.code)


def obstacle(code, at=0, **kwargs):
    verdict = can_optimize(text(code, **kwargs), F + at)
    assert isinstance(verdict, Obstacle)
    return verdict.why, verdict.addr - F if verdict.addr else None


def test_region_is_whole_instructions():
    assert region_size(PLAIN) == 8
    assert region_size(PLAIN, 1) == 7
    assert region_size(PLAIN, 4) == 6


def test_fewer_than_five_bytes():
    code = "90" * 16
    assert region_size(code, 11) == 5
    assert obstacle(code, 12)[0] is Why.NO_ROOM


def test_instruction_that_needs_a_step():
    assert obstacle("55 7420 90909090 c3") == (Why.NOT_BOOSTABLE, 1)
    assert obstacle("55 c3 cccccccccccc") == (Why.NOT_RELOCATABLE, 2)


def test_no_jump_gets_a_prefix_of_others():
    # nops; REX and a prefix behind it; mov di,ax
    code = "909090 4866 89f8 90909090"
    assert region_size(code, 1) == 6
    assert obstacle(code) == (Why.NOT_BOOSTABLE, 3)
    assert obstacle(code, 5) == (Why.NOT_BOOSTABLE, 3)


@pytest.mark.parametrize("jump", ["eb", "74", "e2", "e3"])
@pytest.mark.parametrize("at", range(8))
def test_jump_into_the_region(jump, at):
    # 8 nops, then a jump to one of them; the probe is on the first
    code = "90" * 8 + jump + (at - 10 & 0xFF).to_bytes(1, "little").hex() + "90" * 4
    if 1 <= at <= 5:  # behind the jump's own bytes, too
        assert obstacle(code) == (Why.JUMP_INTO, 8)
    else:
        assert region_size(code) == 5


def test_near_jump_into_the_region():
    code = "90" * 8 + "0f85f7ffffff" + "90" * 4
    assert obstacle(code)[0] is Why.JUMP_INTO


@pytest.mark.parametrize("at", range(8))
def test_call_into_the_region(at):
    # as before, with a call; its target must be in the bytes of the jump
    code = "90" * 8 + "e8" + rel32(13, at) + "90" * 4
    if 1 <= at <= 4:
        assert obstacle(code) == (Why.CALL_INTO, 8)
    else:
        assert region_size(code) == 5


def test_call_into_the_region_is_named():
    verdict = can_optimize(text("90" * 8 + "e8" + rel32(13, 2) + "90" * 4), F)
    assert str(verdict) == f"a call goes into the region: call to {F + 2:#x}"


def test_whole_function_is_looked_at():
    body = "9090909090909090"
    assert obstacle(body + "8b00c3", exceptions=[8]) == (Why.EXCEPTION, 8)
    assert obstacle(body + "ffe0") == (Why.INDIRECT_JUMP, 8)
    assert obstacle(body + "ff24c511223344") == (Why.INDIRECT_JUMP, 8)
    assert obstacle(body + "0f3a") == (Why.UNDECODABLE, 8)
    assert region_size(body + "ffd0c3") == 5  # an indirect call is harmless


def rel32(source, target):
    return (target - source).to_bytes(4, "little", signed=True).hex()


@pytest.mark.parametrize("target", [THUNKS, THUNKS + 0x100])
def test_retpoline(target):
    body = "90" * 8
    jump = "e9" + rel32(F + 13, target)
    assert obstacle(body + jump) == (Why.THUNK_JUMP, 8)
    jcc = "0f84" + rel32(F + 14, target)
    assert obstacle(body + jcc) == (Why.THUNK_JUMP, 8)
    call = "e8" + rel32(F + 13, target)
    assert region_size(body + call + "c3") == 5
    near = "e9" + rel32(F + 13, THUNKS + 0x101)
    assert region_size(body + near) == 5


def test_text_that_others_patch():
    code = "90" * 16
    assert obstacle(code, reserved=[(4, 5)])[0] is Why.RESERVED
    assert obstacle(code, 8, reserved=[(4, 5)])[0] is Why.RESERVED
    assert region_size(code, reserved=[(5, 2)]) == 5
    assert obstacle("90" * 4 + "0f1f440000" + "90" * 8, ftrace=[4]) == (Why.RESERVED, 4)


def test_later_kernels_without_jump_tables_do_not_look_for_them():
    later = text("90" * 8 + "ffe0")
    later.rules = Rules(jump_tables=False)
    assert isinstance(can_optimize(later, F), Region)


def test_first_culprit_is_named():
    code = "90" * 8 + "ffe0" + "0f3a"
    assert obstacle(code) == (Why.INDIRECT_JUMP, 8)
    assert obstacle(code, exceptions=[3]) == (Why.EXCEPTION, 3)


def test_vex_instruction_with_the_opcode_of_a_jump():
    # vpshufd's immediate is taken for the distance of a ja: the kernel errs so, too
    code = "90" * 8 + "c5f970c1f5" + "c3"
    assert obstacle(code) == (Why.JUMP_INTO, 8)


def test_entry_code():
    tables = Tables("90" * 16)
    tables.markers["__entry_text_start"] = F
    tables.markers["__entry_text_end"] = F + 16
    verdict = can_optimize(KernelView(tables), F)
    assert isinstance(verdict, Obstacle)
    assert verdict.why is Why.ENTRY_TEXT
