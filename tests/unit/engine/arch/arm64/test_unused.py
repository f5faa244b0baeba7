# SPDX-License-Identifier: GPL-2.0-or-later
"""Loads that race on arm64, with a value that is used or not on the way that ran."""

from types import SimpleNamespace

import pytest

from kpfs.engine.arch import arches

LOAD, RET = 0xF9400020, 0xD65F03C0  # ldr x0, [x1]
SETS, ADDS, CALL = 0x52800000, 0x91000400, 0x94000100  # mov w0, #0; add x0, x0, #1; bl
SECOND = 0xF9400041  # ldr x1, [x2]


def code_of(*words):
    return b"".join(word.to_bytes(4, "little") for word in words)


def is_unused(*words, trail=(), looked_at=(), calls=()):
    return arches.is_unused(
        code_of(*words), 0, [0, *looked_at], [trail], "arm64", calls
    )


def called(at, arguments=-1, *words, calls=()):
    code = code_of(*words).hex()
    return SimpleNamespace(at=at, arguments=arguments, code=code, calls=calls)


@pytest.mark.parametrize(
    ("words", "dead"),
    [
        ([LOAD, SETS, RET], True),
        ([LOAD, 0xD2800000, RET], True),  # mov x0, #0
        ([LOAD, RET], False),  # returned
        ([LOAD, ADDS, SETS, RET], False),
        ([LOAD, 0xF100001F, SETS, RET], False),  # cmp x0, #0
        ([LOAD, 0xB4000042, SETS, RET], False),  # cbz x2, behind the mov
        ([LOAD, 0xB4000040, SETS, RET], False),  # cbz x0
        ([LOAD, 0xF8208022, SETS, RET], False),  # swp x0, x2, [x1]
        ([LOAD, 0xF9000040, SETS, RET], False),  # str x0, [x2]
        ([LOAD, 0xD61F0040], False),  # br x2
        ([LOAD], False),
    ],
)
def test_a_value_is_used_if_any_way_uses_it(words, dead):
    assert is_unused(*words) == dead


def test_the_way_that_ran_decides():
    # cbz x2, to the call; the load's value is the argument of a call on one way
    words = LOAD, 0xB4000062, SETS, RET, CALL, RET
    assert not is_unused(*words, trail=[16], looked_at=[16])


def test_a_register_that_functions_keep_is_used_behind_a_call():
    kept, other = 0xF9400033, 0xF9400029  # ldr x19, [x1]; ldr x9, [x1]
    assert not is_unused(kept, CALL, trail=[4], looked_at=[4])
    assert is_unused(other, CALL, trail=[4], looked_at=[4])


@pytest.mark.parametrize(
    ("calls", "dead"),
    [
        ([], False),  # nothing is known of it
        ([called(4, 1)], True),
        ([called(4, 2)], False),
        ([called(4, 1), called(4, 2)], False),  # one place, two functions
        ([called(4, -1)], False),
        ([called(4, -1, 0xD2800001, RET)], True),  # mov x1, #0
        ([called(4, -1, 0xAA0103E0, RET)], False),  # mov x0, x1
        # cbz x3: one way sets it, and the other one leaves it for what comes next
        ([called(4, -1, 0xB4000043, 0xD2800001, RET)], False),
        ([called(4, -1, CALL, RET, calls=[called(0, 1)])], True),
        ([called(4, -1, CALL, RET, calls=[called(0, 2)])], False),
        ([called(4, -1, CALL, RET)], False),
        ([called(4, -1, 0x14000000)], False),  # a loop without an end
    ],
)
def test_a_call_uses_the_arguments_that_it_takes(calls, dead):
    words = SECOND, CALL, 0x8B010000, RET  # add x0, x0, x1
    # what is called is looked at, too
    trail = {"trail": [4, 0x1000], "looked_at": [4]}
    assert is_unused(*words, **trail, calls=calls) == dead


@pytest.mark.parametrize(("calls", "dead"), [([], False), ([called(4, 1)], True)])
def test_a_jump_at_the_end_is_a_call(calls, dead):
    assert is_unused(SECOND, 0x14000100, calls=calls) == dead


def test_a_value_that_a_function_leaves_is_looked_for_behind_its_call():
    leaves = [called(4, -1, 0xD503201F, RET)]  # nop
    trail = {"trail": [4, 0x1000, 0x1004], "looked_at": [4], "calls": leaves}
    assert is_unused(SECOND, CALL, 0xD2800001, RET, **trail)
    assert not is_unused(SECOND, CALL, 0xAA0103E0, RET, **trail)
