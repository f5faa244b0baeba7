# SPDX-License-Identifier: GPL-2.0-or-later
"""The common part of architectures whose listings take their words from capstone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


class CapstoneWords:
    """Words for instructions."""

    def __init__(self, cs: Any) -> None:
        """cs: capstone.Cs of the architecture."""
        self._cs = cs

    def text(self, raw: bytes, addr: int) -> str:
        """Return mnemonic and operands, unknown() if capstone has none."""
        for _addr, _size, mnemonic, operands in self._cs.disasm_lite(raw, addr, 1):
            return f"{mnemonic} {operands}".rstrip()
        return self.unknown(raw)

    def named(self, raw: bytes, addr: int, name: Callable[[int], str]) -> str:
        """Return text(), with the name of the address that a jump or branch goes to."""
        target = self.target(raw, addr)
        text = self.text(raw, addr)
        return text if target is None else f"{text} <{name(target)}>"

    def unknown(self, raw: bytes) -> str:
        """Return the words for an instruction that capstone does not know."""
        raise NotImplementedError

    def target(self, raw: bytes, addr: int) -> int | None:
        """Return where an instruction goes that has its target in itself."""
        raise NotImplementedError


def instructions(
    code: bytes, size_of: Callable[[bytes], int]
) -> Iterator[tuple[int, bytes]]:
    """Yield places and bytes of instructions; the last one may be cut short.

    size_of: tells the size of the instruction that begins with some bytes.
    """
    at = 0
    while at < len(code):
        raw = code[at : at + size_of(code[at:])]
        yield at, raw
        at += len(raw)


def ends_whole(code: bytes, size_of: Callable[[bytes], int]) -> bool:
    """Return True if the last instruction of code is not cut short."""
    at = 0
    while at < len(code):
        at += size_of(code[at:])
    return at == len(code)
