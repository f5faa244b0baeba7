# SPDX-License-Identifier: GPL-2.0-or-later
"""The common part of architectures whose listings take their words from capstone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar

from kpfs.engine.judge import StepJudge

FIXED_SIZE = 4  # bytes of an instruction of arm64, armhf, mips64 and ppc64


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


class FixedSizeWords(CapstoneWords):
    """Words for instructions of four bytes."""

    def rows(
        self, code: bytes, start: int, name: Callable[[int], str]
    ) -> list[tuple[int, bytes, str]]:
        """Return address, bytes and words of each instruction.

        start: address of code.  name: as named() has it.
        """
        places = range(0, len(code) - FIXED_SIZE + 1, FIXED_SIZE)
        cut = [(start + at, code[at : at + FIXED_SIZE]) for at in places]
        return [(addr, raw, self.named(raw, addr, name)) for addr, raw in cut]

    def around(
        self,
        read: Callable[[int, int], bytes],
        addr: int,
        size: int,
        name: Callable[[int], str],
    ) -> list[tuple[int, bytes, str]]:
        """Return rows() of the instructions that touch [addr, addr+size)."""
        start, end = addr - addr % FIXED_SIZE, addr + size
        return self.rows(read(start, end + -end % FIXED_SIZE - start), start, name)

    def compared(
        self, live: bytes, saved: bytes, start: int, name: Callable[[int], str]
    ) -> Iterator[str]:
        """Yield a line for each instruction, noting those that were others."""
        for addr, raw, text in self.rows(live, start, name):
            was = saved[addr - start :][:FIXED_SIZE]
            line = f"  {addr:016x}  {raw.hex(' '):<{3 * FIXED_SIZE - 1}} {text}"
            if raw != was:
                line = f"{line:<84} # {self.patch(raw)}, was: {self.text(was, addr)}"
            yield line

    def patch(self, raw: bytes) -> str:
        """Return what an instruction that was put in place of another is."""
        raise NotImplementedError


class FixedSizeJudge(StepJudge):
    """The part of a Judge of instructions of four bytes.  Context: control."""

    disassembler: ClassVar[Callable[[], FixedSizeWords]]

    @cached_property
    def _words(self) -> FixedSizeWords:
        return type(self).disassembler()

    def listing(
        self, addr: int, size: int, name: Callable[[int], str]
    ) -> Sequence[tuple[int, bytes, str]]:
        return self._words.around(self._tables.read, addr, size, name)

    def jump_label_size(self, code: bytes) -> int:
        return FIXED_SIZE


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
