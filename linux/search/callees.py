# SPDX-License-Identifier: GPL-2.0-or-later
"""Tell what functions do with the registers that may hold their arguments.

A value that a call does not take is nobody's argument, though it is in such a register.
The kernel's types tell how many each of its functions takes. A module has these seldom,
and assembly never: their code tells which registers it reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from kpfs.base import abi
from kpfs.base.errors import MemoryFault
from kpfs.linux.memory.btf import ANY, read_btf
from kpfs.linux.search.texts import InsnRow
from kpfs.linux.store.kept import KeptFile

if TYPE_CHECKING:
    from kpfs.linux.running.kernel_on_board import KernelOnBoard
    from kpfs.linux.search.texts import Texts

_KEPT = "arguments"  # the file of a kernel's folder that has their numbers
_LARGEST = 4096  # bytes of a function whose code is told
_DEEPEST = 2  # calls in calls whose code is told
_LONGEST = 15  # bytes of an instruction


class CalledCode(NamedTuple):
    """A call of another function, or a jump to one at the end: see Called."""

    at: int  # offset of the call in its function
    arguments: int = ANY  # how many registers of these it takes at most, if known
    code: str = ""  # else its code, in hexadecimal digits, if known
    calls: Sequence[CalledCode] = ()  # what this calls

    @classmethod
    def unpacked(cls, row: Sequence[Any]) -> CalledCode:
        """Return what JSON had as a list."""
        at, arguments, code, calls = row
        return cls(at, arguments, code, [*map(cls.unpacked, calls)])


class Callees:
    """The functions of one kernel and its texts.  Context: the kernel stands still."""

    def __init__(self, kernel: KernelOnBoard, texts: Texts) -> None:
        self._kernel, self._texts = kernel, texts

    def of(self, begin: int, code: bytes, depth: int = 0) -> Iterator[CalledCode]:
        """Yield what a function calls at addresses that its code says."""
        for at, target in self._branches(code):
            if not 0 <= target < len(code):
                yield self.called(at, begin + target, depth)

    def called(self, at: int, target: int, depth: int = 0) -> CalledCode:
        """Return what a call to an address does."""
        symbols, code = self._kernel.symbols, b""
        if (text := self._texts.function_at(target)) is not None:
            code = text.code if text.begin == target else b""
        elif (symbol := symbols.symbol_at(target)) and symbol.addr == target:
            if (count := self._count(symbol.name)) != ANY:
                return CalledCode(at, count)
            code = self._read(target, symbol.size)
        if not code or depth == _DEEPEST:
            return CalledCode(at)
        return CalledCode(at, ANY, code.hex(), [*self.of(target, code, depth + 1)])

    def _read(self, address: int, size: int) -> bytes:
        try:
            return self._kernel.memory.read(address, min(size, _LARGEST))
        except MemoryFault:
            return b""

    def _branches(self, code: bytes) -> Iterator[tuple[int, int]]:
        """Yield the offsets of direct calls and jumps, and those where they go."""
        at, row, board = 0, InsnRow(), self._kernel.machine.board
        while at < len(code):
            board.decode(code[at : at + _LONGEST], row)
            behind = at + (row.size or 1)
            calls = row.flags & (abi.INSN_CALLS | abi.INSN_TAIL)
            if row.size and calls and not row.flags & abi.INSN_INDIRECT:
                yield at, behind + row.disp
            at = behind

    def _count(self, name: str) -> int:
        """Return how many registers a function's arguments take, or ANY."""
        kept = self._counts
        at = kept.find(b"\n%s " % name.encode())
        if at < 0:
            return ANY
        begin = kept.index(b" ", at) + 1
        return int(kept[begin : kept.index(b"\n", begin)])

    @cached_property
    def _counts(self) -> bytes:
        """Lines of function and number, which take half a second to make."""
        saved = self._kernel.saved

        def make() -> Sequence[bytes]:
            btf = read_btf(saved.memory, saved.symbols)
            known = dict(btf.arguments()) if btf else {}
            lines = (f"{name} {count}\n" for name, count in known.items())
            return ["".join(("\n", *lines)).encode()]

        return bytes(KeptFile(saved.folder, _KEPT, saved.meta).get(make)[0])
