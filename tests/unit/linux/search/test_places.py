# SPDX-License-Identifier: GPL-2.0-or-later
"""The calls that words of a stack may return behind."""

import pytest

from kpfs.linux.search.places import ARCHES


@pytest.mark.parametrize(
    ("arch", "code", "is_call"),
    [
        ("x86", "9090 e811223344", True),
        ("x86", "9090909090 ffd0", True),  # call *%rax
        ("x86", "90909090 ff5308", True),  # call *8(%rbx)
        ("x86", "90909090 ff6308", False),  # jmp *8(%rbx)
        ("x86", "90909090909090", False),
        ("arm64", "10000094", True),  # bl
        ("arm64", "20003fd6", True),  # blr x1
        ("arm64", "10000014", False),  # b
        ("arm64", "20001fd6", False),  # br x1
    ],
)
def test_a_call(arch, code, is_call):
    known = ARCHES[arch]
    text = bytes.fromhex(code)
    assert len(text) == known.longest_call
    assert known.is_call(text) is is_call
