# SPDX-License-Identifier: GPL-2.0-or-later
"""The common part of architectures whose listings take their words from capstone."""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar

from kpfs.base.errors import KernelError
from kpfs.engine.judge import Jump, StepJudge
from kpfs.engine.step import Pattern, StepMethod, refuse

_AT_CALL = "ftrace puts its calls there, and this kernel has no probes on these"
FIXED_SIZE = 4  # bytes of an instruction of arm64, armhf, mips64 and ppc64


class CapstoneWords(ABC):
    """Words for instructions; capstone is loaded by the first one made."""

    processor: ClassVar[str]  # capstone's names: what is behind CS_ARCH_
    modes: ClassVar[Sequence[str]]  # likewise behind CS_MODE_
    unit: ClassVar[int]  # bytes; instructions begin at multiples of it
    longest: ClassVar[int]  # bytes
    # text that was never patched tells where instructions begin, as a breakpoint may be
    # shorter than the one that it stands in
    cut_by_saved: ClassVar[bool] = False

    def __init__(self) -> None:
        self._cs = self.capstone()

    @classmethod
    def capstone(cls) -> Any:
        """Return capstone's disassembler of the architecture."""
        import capstone

        modes = (getattr(capstone, f"CS_MODE_{name}") for name in cls.modes)
        return capstone.Cs(getattr(capstone, f"CS_ARCH_{cls.processor}"), sum(modes))

    @staticmethod
    @abstractmethod
    def size_of(raw: bytes) -> int:
        """Return the size of the instruction that begins with these bytes."""

    @staticmethod
    def number(raw: bytes) -> int:
        """Return an instruction as the number that patterns are matched with."""
        return int.from_bytes(raw, "little")

    @abstractmethod
    def unknown(self, raw: bytes) -> str:
        """Return the words for an instruction that capstone does not know."""

    @abstractmethod
    def target(self, raw: bytes, addr: int) -> int | None:
        """Return where an instruction goes that has its target in itself."""

    @abstractmethod
    def patch(self, raw: bytes) -> str:
        """Return what an instruction that was put in place of another is."""

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

    def around(
        self,
        read: Callable[[int, int], bytes],
        addr: int,
        size: int,
        name: Callable[[int], str],
    ) -> list[tuple[int, bytes, str]]:
        """Return address, bytes and words of what touches [addr, addr+size).

        name: as named() has it.
        """
        start, end = addr - addr % self.unit, addr + size
        code = read(start, end + -end % self.unit - start)
        rows = []
        for at, raw in instructions(code, self.size_of):
            if len(raw) < self.size_of(raw):
                raw = read(start + at, self.size_of(raw))
            rows.append((start + at, raw, self.named(raw, start + at, name)))
        return rows

    def compared(
        self, live: bytes, saved: bytes, start: int, name: Callable[[int], str]
    ) -> Iterator[str]:
        """Yield a line for each instruction, noting those that were others.

        name: as named() has it.
        """
        width = 3 * self.longest - 1
        for at, cut in instructions(saved if self.cut_by_saved else live, self.size_of):
            addr, raw = start + at, live[at : at + len(cut)]
            line = f"  {addr:016x}  {raw.hex(' '):<{width}} "
            line += self.named(raw, addr, name)
            if raw != saved[at : at + len(cut)]:
                was = self.text(saved[at : at + self.size_of(saved[at:])], addr)
                line = f"{line:<84} # {self.patch(raw)}, was: {was}"
            yield line


class FixedSizeWords(CapstoneWords):
    """Words for instructions of four bytes, which are little-endian numbers."""

    unit = longest = FIXED_SIZE
    directive: ClassVar[str]  # makes an instruction of a number, in assembly

    @staticmethod
    def size_of(raw: bytes) -> int:
        return FIXED_SIZE

    @staticmethod
    @abstractmethod
    def branch_target(word: int, addr: int) -> int | None:
        """Return where an instruction goes that has its target in itself."""

    def unknown(self, raw: bytes) -> str:
        return f"{self.directive} {self.number(raw):#010x}"

    def target(self, raw: bytes, addr: int) -> int | None:
        return self.branch_target(self.number(raw), addr)

    def patch(self, raw: bytes) -> str:
        return self.kind(self.number(raw))

    @abstractmethod
    def kind(self, word: int) -> str:
        """Return what an instruction that was put in place of another is."""


class ListingJudge(StepJudge):
    """The part of a Judge whose listings are an architecture's words.

    Context: control.
    """

    arch: ClassVar[str]
    words: ClassVar[type[CapstoneWords]]
    refused: ClassVar[Sequence[Pattern]] = ()
    simulated: ClassVar[Sequence[Pattern]] = ()
    # the error where no instruction begins; 0: the kernel does not see that
    misplaced: ClassVar[int] = errno.EINVAL
    knows_begins = True  # it refuses what is in no function
    has_calls = True  # it refuses places of ftrace's calls, unless it probes by these

    @cached_property
    def _words(self) -> CapstoneWords:
        return self.words()

    def listing(
        self, addr: int, size: int, name: Callable[[int], str]
    ) -> Sequence[tuple[int, bytes, str]]:
        return self._words.around(self._tables.read, addr, size, name)

    def jump_label_size(self, code: bytes) -> int:
        return self.words.longest

    def word_at(self, addr: int) -> int:
        """Return an instruction as a number; MemoryFault where it is unknown."""
        return self.words.number(self._insn_at(addr))

    def _insn_at(self, addr: int) -> bytes:
        size = self.words.size_of(self._tables.read(addr, self.words.unit))
        return self._tables.read(addr, size)

    def way_of(self, word: int) -> StepMethod:
        """Return how an instruction has its effect; EINVAL if it cannot be probed."""
        refuse(self.refused, word)
        simulated = any(pattern.matches(word) for pattern in self.simulated)
        return StepMethod.SIMULATED if simulated else StepMethod.STEPPED

    def check_instruction(self, addr: int) -> None:
        """Raise MemoryFault, too, if its bytes are not there."""
        if self._tables.text.ftrace_location(addr, addr) == addr:
            if self.kprobes_on_ftrace:
                return
            if self.has_calls:
                raise KernelError(errno.EINVAL, _AT_CALL)
        if self.misplaced and not self._begins_at(addr):
            raise KernelError(self.misplaced, "no instruction begins there")
        self.way_of(self.word_at(addr))

    def _begins_at(self, addr: int) -> bool:
        """Return True if an instruction begins there, counted from its function's."""
        if addr % self.words.unit or self.words.unit == self.words.longest:
            return not addr % self.words.unit
        symbol = self._tables.kallsyms.symbol_at(addr)
        if symbol is None:
            return not self.knows_begins
        code = self._tables.read(symbol.addr, addr - symbol.addr)
        return ends_whole(code, self.words.size_of)

    def check_jump(self, addr: int) -> Jump:
        """Return the verdict where the kernel never puts any jump."""
        way = self.way_of(self.word_at(addr)).value
        why = f"{self.arch} has no jump optimisation; this instruction is {way}"
        return Jump(len(self._insn_at(addr)), why)


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
