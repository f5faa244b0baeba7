# SPDX-License-Identifier: GPL-2.0-or-later
"""Writing text: what stood there, what is dropped, in batches and not."""

from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kpfs.base.errors import MemoryFault
from kpfs.engine.arch.x86.text_patching import (
    DROP_ALL,
    TextPatcher,
    call,
    jmp,
    push_imm32,
)
from kpfs.engine.machine import Memory

BASE = 0xFFFFFFFF81000000
SIZE = 3 * 4096


class Text:
    """Memory that notes what is dropped."""

    def __init__(self):
        self.bytes = bytearray(i * 7 & 0xFF for i in range(SIZE))
        self.dropped = []

    def read(self, addr, size):
        if not (BASE <= addr and addr + size <= BASE + SIZE):
            raise MemoryFault(addr)
        return bytes(self.bytes[addr - BASE : addr - BASE + size])

    def poke_text(self, addr, data):
        self.bytes[addr - BASE : addr - BASE + len(data)] = data

    def drop(self, addr, size):
        self.dropped.append((addr, size))

    def drop_all(self):
        self.dropped.append("all")


def patcher_of(text):
    """Return a patcher that can only read this text."""
    return TextPatcher(cast(Memory, text), text)


def test_patch_and_back():
    text = Text()
    patcher, before = patcher_of(text), text.read(BASE, 64)
    patcher.patch(BASE + 8, b"\xcc", before[8:9])
    assert patcher.patched(BASE + 8)
    assert [*patcher.addresses()] == [BASE + 8]
    assert patcher.changes == 1
    assert text.read(BASE + 8, 1) == b"\xcc"
    assert patcher.original(BASE, 64) == before
    patcher.unpatch(BASE + 8)
    assert text.read(BASE, 64) == before
    assert not patcher.patched(BASE + 8)
    assert [*patcher.addresses()] == []
    assert patcher.changes == 2
    assert text.dropped == [(BASE + 8, 1)] * 2
    patcher.unpatch(BASE + 8)
    assert len(text.dropped) == 2


def test_breakpoint_to_jump_and_back_to_breakpoint():
    text = Text()
    patcher, before = patcher_of(text), text.read(BASE, 64)
    patcher.patch(BASE + 8, b"\xcc", before[8:9])
    patcher.patch(BASE + 8, b"\xe9abcd", before[8:13])
    assert text.read(BASE + 8, 5) == b"\xe9abcd"
    assert patcher.original(BASE, 64) == before
    patcher.patch(BASE + 8, b"\xcc", before[8:13])
    assert text.read(BASE + 8, 5) == b"\xcc" + before[9:13]
    patcher.unpatch(BASE + 8)
    assert text.read(BASE, 64) == before


def test_forgotten_text_is_left_alone():
    text = Text()
    patcher = patcher_of(text)
    patcher.patch(BASE, b"\xcc", text.read(BASE, 1))
    patcher.forget(BASE)
    patcher.unpatch(BASE)
    assert text.read(BASE, 1) == b"\xcc"


@pytest.mark.parametrize("count", [1, DROP_ALL, DROP_ALL + 1])
def test_batch_drops_once(count):
    text = Text()
    patcher = patcher_of(text)
    with patcher:
        with patcher:
            for i in range(count):
                patcher.patch(BASE + 2 * i, b"\xcc", text.read(BASE + 2 * i, 1))
        assert text.dropped == []
    few = [(BASE + 2 * i, 1) for i in range(count)]
    assert text.dropped == (few if count <= DROP_ALL else ["all"])


def test_original_of_missing_memory():
    with pytest.raises(MemoryFault):
        patcher_of(Text()).original(BASE + SIZE - 4, 8)


@settings(deadline=None)  # how busy the machine is does not matter
@given(
    st.lists(st.tuples(st.integers(0, SIZE - 6), st.booleans()), max_size=40),
    st.integers(0, SIZE - 1),
    st.integers(1, 9000),
)
def test_original_is_what_was_there(places, start, size):
    text = Text()
    patcher, before = patcher_of(text), bytes(text.bytes)
    taken: set[int] = set()
    for at, long in places:
        span = set(range(at, at + (5 if long else 1)))
        if span & taken:
            continue
        taken |= span
        patch = b"\xe9\x11\x22\x33\x44" if long else b"\xcc"
        patcher.patch(BASE + at, patch, before[at : at + len(patch)])
    size = min(size, SIZE - start)
    assert patcher.original(BASE + start, size) == before[start : start + size]
    for at, _ in places:
        patcher.unpatch(BASE + at)
    assert bytes(text.bytes) == before


def test_code():
    assert jmp(BASE, BASE + 5) == b"\xe9\0\0\0\0"
    assert call(BASE, BASE) == b"\xe8\xfb\xff\xff\xff"
    assert push_imm32(0xFFFFFFFFC0001234) == b"\x68\x34\x12\x00\xc0"


def test_patches_are_counted():
    text = Text()
    patcher = TextPatcher(cast(Memory, text), text)
    patcher.patch(BASE + 1, b"\xcc", text.read(BASE + 1, 1))
    patcher.patch(BASE + 9, call(BASE + 9, BASE), text.read(BASE + 9, 5))
    patcher.patch(BASE + 1, jmp(BASE + 1, BASE), text.read(BASE + 1, 5))
    assert len([*patcher.addresses()]) == 2
    patcher.unpatch(BASE + 1)
    patcher.unpatch(BASE + 1)
    assert len([*patcher.addresses()]) == 1
    patcher.forget(BASE + 9)
    patcher.forget(BASE + 9)
    assert len([*patcher.addresses()]) == 0
