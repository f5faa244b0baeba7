# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows of instructions that the board has made.  Tests kpfs.linux.search.texts."""

import ctypes
import os
import platform

import pytest

from kpfs.base import abi
from kpfs.linux.board.board import IMAGE_DIR
from kpfs.linux.search.texts import InsnRow, LookedText, Texts, has_instructions


@pytest.mark.parametrize(
    ("code", "has"),
    [
        ("48c7c700000000 e900000000 0000 0000", False),  # mov, jmp, and what fills
        ("48c7c700000000 0000 488b07 0000", True),  # a load
        ("488b4424 08 0000", False),  # a word on the stack
    ],
)
def test_what_fills_text_is_no_instruction(code, has):
    board = os.path.join(IMAGE_DIR, "x86", f"board-{platform.machine()}.so")
    decode, text = ctypes.CDLL(board).board_decode, bytes.fromhex(code)
    rows, at = (InsnRow * len(text))(), 0
    while at < len(text):
        decode(text[at:], ctypes.c_uint64(len(text) - at), ctypes.byref(rows[at]))
        at += rows[at].size
    assert has_instructions(bytes(rows)) is has


def test_an_address_belongs_to_the_text_that_was_there_at_that_time():
    texts = object.__new__(Texts)
    texts.all = [
        LookedText(name, 0x1000, 0x2000, 0, None, number)
        for number, name in enumerate(("first", "second", "third"), 1)
    ]
    texts.began = [100, 200, 300]
    names = []
    for texts.when in (150, 200, 299, 300, None):
        text = texts.text_at(0x1234)
        names.append(text and text.name)
    assert names == ["first", "second", "second", "third", "third"]
    texts.when = 50
    assert texts.text_at(0x1234) is None


def test_instructions_that_access_the_stack_are_no_places_to_wait():
    flags = abi.INSN_READS, abi.INSN_READS | abi.INSN_ON_STACK, abi.INSN_CALLS
    rows = (InsnRow * 4)(*(InsnRow(flags=each | abi.INSN_SEEN) for each in flags))
    texts = object.__new__(Texts)
    texts.all = [LookedText("m", 0x1000, 0x1004, 0, None, 1)]
    texts._rows = [bytes(rows)]  # type: ignore[list-item]
    assert [*texts.seen()] == [0x1000, 0x1002]
