# SPDX-License-Identifier: GPL-2.0-or-later
"""Loads that race, with a value that is used or not on the way that ran.

Also tests kpfs.engine.arch.unused.
"""

import pytest

from kpfs.engine.arch import arches

LOAD = "488b0500000000"  # mov rax, [rip]


def is_unused(code, *trails, looked_at):
    return arches.is_unused(bytes.fromhex(code), 0, [0, *looked_at], trails, "x86")


@pytest.mark.parametrize(
    ("code", "dead"),
    [
        (f"{LOAD} 31c0 c3", True),  # xor eax, eax
        (f"{LOAD} b800000000 c3", True),
        (f"{LOAD} b000 c3", False),  # mov al, 0 keeps the rest
        (f"{LOAD} c3", False),  # returned
        (f"{LOAD} 48ffc0 31c0 c3", False),  # inc rax
        (f"{LOAD} 7402 31c0 c3", False),  # je behind the xor
        (f"{LOAD} ffe0", False),  # jmp rax
        (f"{LOAD}", False),
    ],
)
def test_a_value_is_used_if_any_way_uses_it(code, dead):
    assert is_unused(code, [], looked_at=[]) == dead


def test_the_way_that_ran_decides():
    #      0    7     a    c      f          14
    code = f"{LOAD} 4885ff 7403 48ffc0 e800000000 c3"  # test; je; inc; call
    assert is_unused(code, [0x0F], looked_at=[0x0F]) is False
    # a call that is known to have come next, and not the return
    code = f"{LOAD} 4885ff 7401 c3 e800000000 31c0 c3"  # test; je; ret; call; xor
    assert is_unused(code, [0x0D], looked_at=[0x0D])
    assert not is_unused(code, [], looked_at=[0x0D])
    assert not is_unused(code, [0x0D], [], looked_at=[0x0D])


def test_a_register_of_an_argument_is_used_by_a_call():
    load = "488b3d00000000"  # mov rdi, [rip]
    assert not is_unused(f"{load} e800000000", [7], looked_at=[7])
    assert is_unused(f"{LOAD} e800000000", [7], looked_at=[7])
    kept = "488b1d00000000"  # mov rbx, [rip]
    assert not is_unused(f"{kept} e800000000", [7], looked_at=[7])
