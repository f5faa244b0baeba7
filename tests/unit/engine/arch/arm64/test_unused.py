# SPDX-License-Identifier: GPL-2.0-or-later
"""Loads that race on arm64, with a value that is used or not on the way that ran."""

import pytest

from kpfs.engine.arch import arches

LOAD, RET = 0xF9400020, 0xD65F03C0  # ldr x0, [x1]
SETS, ADDS, CALL = 0x52800000, 0x91000400, 0x94000100  # mov w0, #0; add x0, x0, #1; bl


def is_unused(*words, trail=(), looked_at=()):
    code = b"".join(word.to_bytes(4, "little") for word in words)
    return arches.is_unused(code, 0, [0, *looked_at], [trail], "arm64")


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
