# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel that is run for a moment, to see where it keeps what.

It goes on from the image, on a board of its own, and is thrown away afterwards: so all
of it may be tried.  The same calls find the same addresses each time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import IO, NamedTuple, TypeVar

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import MemoryFault
from kpfs.base.units import NSEC, PAGE_SIZE
from kpfs.emulator.libunicorn import EmulatorError
from kpfs.linux.board.board import Board
from kpfs.linux.errors import UnfitError
from kpfs.linux.memory.memory import LiveMemory, pages_of
from kpfs.linux.memory.symbols import CoreSymbols
from kpfs.linux.running.inserting import insert
from kpfs.linux.running.machine import AGENT, LinuxMachine, Op, Out, Reply, writing
from kpfs.linux.store import image
from kpfs.linux.store.modules import ModuleArchive

_SLABS, _OBJECT_SIZE = "/proc/slabinfo", 3  # a column of it
_MAX_NAME = 64
_DATA = 48 << 20  # bytes of data behind the text
_ROOM = 32 << 10  # bytes of one read
_PATIENCE = 10 * NSEC  # ns in the kernel's time
_LETTERS = {1: "B", 4: "I", 8: "Q"}  # for array, by the size of a number
T = TypeVar("T")
Fits = Callable[..., bool]


class UnseenError(Exception):
    """The kernel did not show where it keeps something."""


class SeenCall(NamedTuple):
    """A function of the kernel that has been called."""

    arguments: tuple[int, ...]  # the first three
    stack: int


class Trial:
    """A kernel on trial.  All methods may raise UnseenError and MachineDiedError."""

    def __init__(self, folder: str, board: Board, symbols: CoreSymbols) -> None:
        """folder: of the kernel."""
        self._folder = folder
        self.board, self.symbols, self.arch = board, symbols, board.arch
        self.machine, self.memory = LinuxMachine(board, quiet=True), LiveMemory(board)
        self.model, self.long = board.arch.model, board.arch.model.long
        self._slots = AGENT

    # ---- to run
    def run(self, *ops: Op, slot: int = AGENT, memory: bytes = b"") -> Reply:
        """Make system calls of a task.  memory: see LinuxMachine.start()."""
        machine = self.machine
        places = machine.start(slot, ops, memory)
        if not machine.run(slot):
            until = machine.now() + _PATIENCE
            machine.advance(until, lambda: machine.has_done(slot))
            if not machine.has_done(slot):
                raise UnseenError
        return Reply(machine, slot, places, len(ops))

    def fork(self, parent: int, name: str) -> tuple[int, int]:
        """Make a task of this name; return its slot and its number."""
        self._slots += 1
        self.machine.clear(self._slots, name.encode(), abi.KEEP_ID, abi.KEEP_ID)
        made = self.run(Op(abi.AGENT_FORK, (self._slots, 0)), slot=parent)
        return self._slots, self._done(made)[0]

    @staticmethod
    def _done(reply: Reply) -> list[int]:
        """Return the results of calls, none of which may fail."""
        if min(reply.results) < 0:
            raise UnseenError
        return reply.results

    def write(self, path: str, words: str, flags: int = 0) -> None:
        """Write a line to a file of the kernel."""
        self._done(self.run(*writing(path, words, flags)))

    def text(self, path: str) -> str:
        """Return what a file of the kernel has."""
        opening = nr.AT_FDCWD, path.encode() + b"\0", os.O_RDONLY, 0
        (fd,) = self._done(self.run(Op(nr.OPENAT, opening)))
        found = bytearray()  # which thousands of reads do not copy
        while True:
            reply = self.run(Op(nr.READ, (fd, Out(_ROOM), _ROOM)))
            (size,) = self._done(reply)
            if not size:
                break
            found += reply.out(0, size)
        self.run(Op(nr.CLOSE, (fd,)))
        return found.decode("latin-1")

    def calls(
        self,
        functions: Sequence[str],
        action: Callable[[], object],
        look: Callable[[str, SeenCall], object] = lambda _name, _call: None,
    ) -> dict[str, list[SeenCall]]:
        """Return the calls of functions during an action, in order.

        look: called where one begins.
        """
        seen, board = {name: list[SeenCall]() for name in functions}, self.board
        registers, names = self.arch.arguments[:3], dict[int, str]()
        for name in functions:
            names.update(dict.fromkeys(self.functions(name), name))

        def asked(at: int) -> None:
            found = tuple(map(board.read_reg, registers))
            call = SeenCall(found, board.read_reg(self.arch.stack_pointer))
            seen[names[at]].append(call)
            look(names[at], call)

        self.machine.stops.set(asked, [(start, abi.NEVER) for start in names])
        try:
            action()
        finally:
            self.machine.stops.set(asked, [])
        return seen

    def call(self, function: str, argument: int) -> None:
        """Have a function of the kernel run in place of a system call's."""
        target, board, arch = self.function(function), self.board, self.arch

        def divert(_name: str, _call: SeenCall) -> None:
            board.write_reg(arch.arguments[0], argument)
            for register in (arch.entry_register, arch.counter):
                if register is not None:
                    board.write_reg(register, target)

        instead = f"{arch.syscall_prefix}getppid"
        self.calls((instead,), lambda: self.run(Op(nr.GETPPID)), divert)

    def module(self, names: Iterable[str]) -> tuple[str, bytes]:
        """Return the first of these modules that the kernel's package has, its file."""
        with ModuleArchive(os.path.join(self._folder, image.MODULES)) as archive:
            return first(
                (name, archive.read(name))
                for name in names
                if name in archive and not archive.needed(name)
            )

    def insert(self, data: bytes) -> None:
        """Load a module's file."""
        if insert(lambda ops: self.run(*ops), data) < 0:
            raise UnseenError

    def functions(self, name: str) -> list[int]:
        """Return where the functions of a name begin, and what compilers made of it."""
        return [row.addr for row in self.symbols.functions_made_of([name])]

    def function(self, name: str) -> int:
        """Return where a function begins."""
        return first(self.functions(name))

    def object_size(self, cache: str) -> int:
        """Return the size of the objects in a cache."""
        rows = map(str.split, self.text(_SLABS).splitlines())
        return first(int(row[_OBJECT_SIZE]) for row in rows if row[0] == cache)

    # ---- to look
    def raw(self, addr: int, size: int) -> bytes:
        """Return bytes, as many as are there."""
        found = b""
        with suppress(MemoryFault):
            for at, count in pages_of(addr, size):
                found += self.memory.read(at, count)
        return found

    def words(self, addr: int, size: int) -> Sequence[int]:
        """Return the longs in so many bytes, as far as they are there."""
        return self.model.array(self.model.letter, self.raw(addr, size))

    def pages(self) -> Iterator[tuple[int, bytes]]:
        """Yield the address of each page behind the kernel's text, and its bytes."""
        start = self.symbols.address("_etext") & -PAGE_SIZE
        for at in range(start, start + _DATA, PAGE_SIZE):
            yield at, self.raw(at, PAGE_SIZE)

    def data(self) -> Iterator[tuple[int, Sequence[int]]]:
        """Yield the same with the longs of each page."""
        for at, page in self.pages():
            yield at, self.model.array(self.model.letter, page)

    def string(self, addr: int) -> str:
        """Return the text at an address, "" if there is no memory."""
        with suppress(MemoryFault):
            return self.memory.string(addr, _MAX_NAME)
        return ""

    def there(self, addr: int) -> int:
        """Return the long at an address, 0 if there is no memory."""
        with suppress(MemoryFault):
            return self.memory.word(addr)
        return 0

    def offsets(
        self, raws: Sequence[bytes], fits: Fits, size: int = 0, count: int = 1
    ) -> Iterator[int]:
        """Yield the offsets at which all of these structures have what fits.

        fits: called with the place of a structure among them, and so many numbers.
        size: bytes of a number, by default those of a long.
        """
        size = size or self.long
        letter = self.model.letter if size == self.long else _LETTERS[size]
        rows = [self.model.array(letter, raw[: len(raw) & -size]) for raw in raws]
        for at in range(min(map(len, rows)) - count + 1):
            if all(fits(n, *row[at : at + count]) for n, row in enumerate(rows)):
                yield at * size

    def offset(
        self, raws: Sequence[bytes], fits: Fits, size: int = 0, count: int = 1
    ) -> int:
        """Return the first of these offsets."""
        return first(self.offsets(raws, fits, size, count))

    def equal(
        self, raws: Sequence[bytes], numbers: Sequence[int], size: int = 0
    ) -> int:
        """Return the first offset at which each structure has its number."""
        return self.offset(raws, lambda n, number: number == numbers[n], size)

    def number(self, raw: bytes, at: int, size: int = 0) -> int:
        """Return a number in a structure, by default a long."""
        return self.model.number(raw[at : at + (size or self.long)])


def first(found: Iterable[T]) -> T:
    """Return the first of these.  Raises UnseenError."""
    for each in found:
        return each
    raise UnseenError


@contextmanager
def trial_of(
    folder: str, ram: IO[bytes], meta: image.Meta, symbols: CoreSymbols
) -> Iterator[Trial]:
    """Run a kernel from its image.  Raises UnfitError."""
    try:
        board = image.load(ram, meta)
    except (EmulatorError, OSError, MemoryError) as error:
        raise UnfitError(f"no machine to look at: {error}") from None
    trial = Trial(folder, board, symbols)
    with closing(trial.machine):
        yield trial
