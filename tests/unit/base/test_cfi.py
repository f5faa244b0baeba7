# SPDX-License-Identifier: GPL-2.0-or-later
"""Call frame information, by programs made here."""

import pytest

from kpfs.base.cfi import Cfa, CfaOp, CfiRules, Cie
from kpfs.base.data_model import BIG_64, LITTLE_64

STACK, RETURN, SAVED, FRAME = 7, 16, 3, 6
# at the first instruction, the return address is on top of the stack
BEGIN = bytes((Cfa.DEF_CFA, STACK, 8, Cfa.OFFSET | RETURN, 1))
X86 = Cie(1, -8, RETURN, BEGIN)
REGISTERS = {STACK: 0x1000, RETURN: 0x500, SAVED: 1, FRAME: 0x2000}


def by(*program, left=0, cie=X86, model=LITTLE_64):
    """Return the registers of the caller; a word of memory is its address + 1."""
    rules = CfiRules(cie, bytes(program), left, model)
    return rules.caller(REGISTERS, lambda at: at + 1, STACK)


CALLER = {STACK: 0x1008, RETURN: 0x1001, SAVED: 1, FRAME: 0x2000}
ADVANCED = [
    ((Cfa.ADVANCE_LOC | 4,), LITTLE_64),
    ((Cfa.ADVANCE_LOC1, 4), LITTLE_64),
    ((Cfa.ADVANCE_LOC2, 4, 0), LITTLE_64),
    ((Cfa.ADVANCE_LOC2, 0, 4), BIG_64),
    ((Cfa.ADVANCE_LOC4, 4, 0, 0, 0), LITTLE_64),
    ((Cfa.ADVANCE_LOC4, 0, 0, 0, 4), BIG_64),
]


@pytest.mark.parametrize(("advance", "model"), ADVANCED)
def test_what_follows_holds_from_there_on(advance, model):
    program = *advance, Cfa.DEF_CFA_OFFSET, 16
    assert by(*program, left=3, model=model) == CALLER
    moved = {STACK: 0x1010, RETURN: 0x1009}
    assert by(*program, left=4, model=model) == CALLER | moved
    assert by(*program, left=15, cie=X86._replace(code_align=4), model=model) == CALLER


EXPRESSION = CfaOp.BREG0 + FRAME, 16, CfaOp.DEREF, CfaOp.PLUS_UCONST, 4
# instructions, and what they change; None: the register is not known then
CHANGES: dict[str, tuple[tuple[int, ...], dict[int, int | None]]] = {
    "offset": ((Cfa.OFFSET | SAVED, 2), {SAVED: 0xFF9}),
    "offset_extended": ((Cfa.OFFSET_EXTENDED, SAVED, 2), {SAVED: 0xFF9}),
    "offset_extended_sf": ((Cfa.OFFSET_EXTENDED_SF, SAVED, 0x7F), {SAVED: 0x1011}),
    "undefined": ((Cfa.UNDEFINED, SAVED), {SAVED: None}),
    "same_value": ((Cfa.OFFSET | SAVED, 2, Cfa.SAME_VALUE, SAVED), {}),
    "restore": ((Cfa.OFFSET | RETURN, 2, Cfa.RESTORE | RETURN), {}),
    "restore_extended": ((Cfa.OFFSET | SAVED, 2, Cfa.RESTORE_EXTENDED, SAVED), {}),
    "remember_state": (
        (
            Cfa.REMEMBER_STATE,
            Cfa.OFFSET | SAVED,
            2,
            Cfa.DEF_CFA_OFFSET,
            16,
            Cfa.RESTORE_STATE,
        ),
        {},
    ),
    "def_cfa_register": (
        (Cfa.DEF_CFA_REGISTER, FRAME),
        {STACK: 0x2008, RETURN: 0x2001},
    ),
    "def_cfa_expression": (
        (
            Cfa.DEF_CFA_EXPRESSION,
            5,
            CfaOp.BREG0 + FRAME,
            16,
            CfaOp.DEREF,
            CfaOp.PLUS_UCONST,
            4,
        ),
        {STACK: 0x2015, RETURN: 0x200E},
    ),
    "expression": (
        (Cfa.EXPRESSION, SAVED, 2, CfaOp.BREG0 + FRAME, 0x78),
        {SAVED: 0x1FF9},
    ),
    "gnu_args_size": ((Cfa.GNU_ARGS_SIZE, 16, Cfa.NOP), {}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_instruction(name):
    program, changes = CHANGES[name]
    expected = {**CALLER, **changes}
    expected = {number: word for number, word in expected.items() if word is not None}
    assert by(*program) == expected


def test_an_instruction_that_is_unknown_is_told():
    with pytest.raises(KeyError):
        by(0x3F, 0)


def test_a_register_that_is_not_known_is_told():
    with pytest.raises(KeyError):
        by(Cfa.DEF_CFA, 5, 0)
