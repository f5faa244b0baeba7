# SPDX-License-Identifier: GPL-2.0-or-later
"""Follow the text whose instructions are looked at: modules and BPF programs.

The board stops where the kernel is about to run a module's init function, where it
frees that function's text, and where it frees the module; and where it makes the symbol
of a BPF program. ``board/search/text.h`` tells what happens to the text.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from kpfs.base import abi, mapping
from kpfs.base.ktypes import FUNCTION_TYPES
from kpfs.base.structures import fields
from kpfs.linux.board.board import address_of
from kpfs.linux.errors import UnfitError
from kpfs.linux.memory.btf import read_btf
from kpfs.linux.search.functions import KnownFunction, known_functions
from kpfs.linux.search.places import ARCHES
from kpfs.linux.store.kept import KeptFile

if TYPE_CHECKING:
    import mmap

    from kpfs.linux.memory.modules import LoadedModule
    from kpfs.linux.running.kernel_on_board import KernelOnBoard
    from kpfs.linux.running.saved_kernel import SavedKernel

_BEGINS, _INIT_ENDS, _ENDS = "do_init_module", "trim_init_extable", "free_module"
_BPF_BEGINS, _BPF_ENDS = "bpf_ksym_add", "bpf_ksym_del"
_BPF_NAME_MAX = 128
_BPF_NAME = len("bpf_prog_0123456789abcdef_")  # where the program's own name begins
_KEPT = "looked"  # the file of a kernel's folder that lists known functions
# for each value of the lower and the upper byte of a row's flags, whether it is one to
# look at, and whether it has INSN_SEEN
_LOOKED = bytes(bool(byte & abi.INSN_HOOKED & 0xFF) for byte in range(256))
_LOOKED_AT = abi.INSN_HOOKED & ~abi.INSN_BEHIND
_SEEN = bytes(bool(byte & abi.INSN_SEEN >> 8) for byte in range(256))
_CALLED_BY_ADDRESS = "kfree"  # modules may do so: branches may land there


class InsnRow(ctypes.Structure):
    """struct insn."""

    _fields_ = fields(abi.Insn)


_NO_REGISTER = 255
# two zero bytes, which are no compiler's: they fill text behind its last function
_FILLING = bytes(
    InsnRow(
        flags=abi.INSN_READS | abi.INSN_WRITES | abi.INSN_COMPARES,
        size=2,
        bytes=1,
        index=_NO_REGISTER,
        scale=1,
    )
)


class FunctionRow(ctypes.Structure):
    """struct function."""

    _fields_ = fields(abi.Function)


class FindingRow(ctypes.Structure):
    """struct finding."""

    _fields_ = fields(abi.Finding)


class _TextRow(ctypes.Structure):
    """struct text."""

    _fields_ = fields(abi.Text)


class LookedText(NamedTuple):
    """Text that is or was looked at."""

    name: str  # the module's file or BPF program
    start: int
    end: int
    owner: int  # address of its struct module or bpf_ksym
    module: LoadedModule | None
    number: int  # its place in Texts.all, from 1: what struct text calls it

    def symbol(self, address: int) -> tuple[str, int]:
        """Return the name of the function around an address, and the offset in it."""
        symbol = self.module.symbol_at(address) if self.module else None
        if symbol is None:
            return self.name, address - self.start
        return symbol.name, address - symbol.addr


class CountedRow(NamedTuple):
    """struct counted."""

    kind: int
    at: int
    other: int
    block: int


class FunctionCode(NamedTuple):
    """The code of a function of a text."""

    begin: int
    code: bytes
    looked_at: list[int]  # offsets of the instructions that lookers see


Follower = Callable[[LookedText], object]


class Texts:
    """The texts of one kernel.  Context: the kernel stands still."""

    def __init__(
        self, kernel: KernelOnBoard, of: Sequence[str] = (), *, hooks: bool = True
    ) -> None:
        """of: names of all that is looked at; empty: each module and BPF program.

        hooks: look at each instruction; False: texts are followed for their names.
        Raises UnfitError if this kernel does not tell of its modules, EmulatorError.
        """
        self._kernel, self._board = kernel, kernel.machine.board
        if kernel.arch.name not in ARCHES:
            raise UnfitError(
                f"searches and checks do not know instructions of {kernel.arch.name}:"
                f" take a kernel for {' or '.join(sorted(ARCHES))}"
            )
        self.arch = ARCHES[kernel.arch.name]
        self._followers: list[tuple[Follower, Follower]] = []
        self._hooks = hooks
        self._named: Callable[[LoadedModule], str] = lambda module: module.name
        self._of, self._met = of, set[str]()  # names, and those that have come
        self.all: list[LookedText] = []  # with those that are gone, the last one last
        self._numbers: dict[int, LookedText] = {}  # those that are there, by index
        self._hooked: set[tuple[int, int]] = set()
        self.began: list[int] = []  # the block at which each did
        # names are those of texts that had begun by this block; None: of all
        self.when: int | None = None
        self._rows: list[mmap.mmap] = []  # which the board reads
        self._code: list[bytes] = []  # what each text began with
        symbols = kernel.symbols
        names = _BEGINS, _INIT_ENDS, _ENDS, _BPF_BEGINS, _BPF_ENDS
        self._places = {symbols.address(name): name for name in names}
        self._places.pop(0, None)
        if not {_BEGINS, _ENDS} <= set(self._places.values()):
            raise UnfitError("this kernel does not tell of its modules")
        self._memory = mapping.make(abi.Texts.SIZE)
        self.words = memoryview(self._memory).cast("Q")
        self.functions = _known_functions(kernel.saved)
        self._fill()
        self._board.look(address_of(self._memory))
        self._begin()

    @property
    def address(self) -> int:
        return address_of(self._memory)

    def set(self, **values: int) -> None:
        """Set words of struct texts."""
        for name, value in values.items():
            self.words[getattr(abi.Texts, name) >> 3] = value

    def get(self, field: int) -> int:
        return int(self.words[field >> 3])

    def _fill(self) -> None:
        """Say where the kernel keeps what lookers ask for, and its functions."""
        kernel, symbols = self._kernel, self._kernel.symbols
        self.set(
            **self.arch.places(kernel),
            kmalloc=symbols.address("__kmalloc_noprof") or symbols.address("__kmalloc"),
            pid=kernel.structures["task_struct"].at.get("pid", 0),
            comm=kernel.structures["task_struct"].at.get("comm", 0),
            nr_functions=len(self.functions) + 1,
        )
        for number, function in enumerate(self.functions, 1):
            self.set_function(number, function)

    @property
    def no_landings(self) -> str:
        """Return why this kernel's branches cannot be looked at; "" if they can."""
        known, wanted = (
            self._kernel.symbols.address(_CALLED_BY_ADDRESS),
            self.arch.landing,
        )
        lands = wanted and self._kernel.memory.read(known, len(wanted)) == wanted
        return "" if lands else self.arch.no_landing

    def look_at_kernel(self) -> None:
        """Look at indirect branches of the kernel's own text, too.  UnfitError."""
        symbols = self._kernel.symbols
        start, end = symbols.address("_stext"), symbols.address("_etext")
        if self.no_landings:
            raise UnfitError(f"--check ibt: {self.no_landings}")
        self._board.look_at_branches(start, end - start)

    def set_function(self, number: int, known: KnownFunction) -> None:
        row = self.function_row(number)
        row.address, row.kind, row.how = known.address, known.kind, known.how
        row.to, row.source, row.size = known.to, known.source, known.size
        row.fails, row.fails_as, row.error = known.fails, known.fails_as, known.error
        row.entry_kind, row.flags = known.entry_kind, known.flags
        row.bytes = known.bytes

    def function_row(self, number: int) -> FunctionRow:
        at = abi.Texts.functions + number * abi.Function.SIZE
        return FunctionRow.from_buffer(self._memory, at)

    def function_name(self, number: int) -> str:
        return self.functions[number - 1].name if number else ""

    def findings(self) -> Iterator[FindingRow]:
        """Yield what the lookers have found."""
        for number in range(self.get(abi.Texts.nr_findings)):
            at = abi.Texts.findings + number * abi.Finding.SIZE
            yield FindingRow.from_buffer_copy(self._memory, at)

    def counted(self) -> Iterator[CountedRow]:
        """Yield the findings for which there was no room, with less about them."""
        if self.get(abi.Texts.nr_findings) < abi.NR_FINDINGS:
            return
        begin, size = abi.Texts.counted >> 3, abi.Counted.SIZE >> 3
        words = self.words[begin : begin + abi.NR_COUNTED * size].tolist()
        for at in range(0, len(words), size):
            if words[at]:
                yield CountedRow(*words[at : at + size])

    def follow(self, begins: Follower, ends: Follower) -> None:
        """Have functions called with each text that comes, and with each that goes."""
        self._followers.append((begins, ends))

    def call_modules(self, named: Callable[[LoadedModule], str]) -> None:
        """Have a function say what modules that come are called."""
        self._named = named

    # ---- texts
    @property
    def missing(self) -> list[str]:
        """Return the names asked for that nothing had so far."""
        return [name for name in self._of if name not in self._met]

    def _is_asked_for(self, *names: str) -> bool:
        asked = {*self._of} & {*names}
        self._met |= asked
        return bool(asked) or not self._of

    def _begin(self) -> None:
        for row in self.functions:
            if row.entry_kind:
                self._hook(row.address, row.address)
        for name in self._of:
            for symbol in self._kernel.symbols.lookup_name(name):
                self._met.add(name)
                self._add(name, symbol.addr, symbol.addr + symbol.size, symbol.addr)
        for module in self._kernel.modules():
            self._add_module(module)
        self._board.flush()
        calls = [(at, abi.NEVER) for at in self._places]
        self._kernel.machine.stops.set(self._stopped, calls)

    def _hook(self, first: int, last: int) -> None:
        # a hook stays when its text is gone
        if self._hooks and (first, last) not in self._hooked:
            self._hooked.add((first, last))
            self._board.hook_code(first, last)

    def _stopped(self, at: int) -> None:
        kernel, board = self._kernel, self._board
        what = self._places[at]
        address = board.read_reg(board.arch.arguments[0])
        if what == _BEGINS:
            for module in kernel.modules():
                if module.address == address:
                    self._add_module(module)
            board.flush()
        elif what == _BPF_BEGINS:
            start, end = kernel.memory.word(address), kernel.memory.word(address + 8)
            name = kernel.memory.string(address + 16, _BPF_NAME_MAX)
            if self._is_asked_for(name, name[_BPF_NAME:]):
                self._add(name, start, end, address)
                board.flush()
        else:
            self._end(address, of_init=what == _INIT_ENDS)

    def _add_module(self, module: LoadedModule) -> None:
        if not self._is_asked_for(module.name):
            return
        name = self._named(module)
        for start, end in (module.text, module.init_text):
            if start < end:
                self._add(name, start, end, module.address, module)

    def _add(
        self,
        name: str,
        start: int,
        end: int,
        owner: int,
        module: LoadedModule | None = None,
    ) -> None:
        number = next(n for n in range(abi.NR_TEXTS + 1) if n not in self._numbers)
        if number == abi.NR_TEXTS:
            raise UnfitError(f"{abi.NR_TEXTS} texts are looked at, and no more can be")
        text = LookedText(name, start, end, owner, module, len(self.all) + 1)
        rows = mapping.make((end - start) * abi.Insn.SIZE)
        self._rows.append(rows)
        self.began.append(self._board.blocks)
        self._code.append(self._kernel.memory.read(start, end - start))
        at = abi.Texts.texts + number * abi.Text.SIZE
        row = _TextRow.from_buffer(self._memory, at)
        row.first, row.size, row.insns = start, end - start, address_of(rows)
        row.owner = text.number
        self._numbers[number] = text
        self.all.append(text)
        self.set(nr_texts=max(self._numbers) + 1)
        if self._hooks:
            for begin, size in _functions_in(text):
                self._board.make_rows(number, begin, size)
        self._hook(start, end - 1)
        for begins, _ in self._followers:
            begins(text)

    def _end(self, owner: int, *, of_init: bool) -> None:
        for number, text in list(self._numbers.items()):
            if text.owner != owner:
                continue
            if of_init and text.module and text.start != text.module.init_text[0]:
                continue
            at = abi.Texts.texts + number * abi.Text.SIZE
            _TextRow.from_buffer(self._memory, at).size = 0
            del self._numbers[number]
            for _, ends in self._followers:
                ends(text)

    def number_of_accesses(self, text: LookedText) -> int:
        """Return the number of a text's instructions that lookers see."""
        low = self._rows[text.number - 1][:: abi.Insn.SIZE]
        return sum(low.translate(_LOOKED))

    def seen(self) -> Iterator[int]:
        """Yield the addresses of instructions that were about to begin.

        Those that access the stack are left out: nothing waits before them.
        """
        for text, rows in zip(self.all, self._rows, strict=True):
            low, high = rows[:: abi.Insn.SIZE], rows[1 :: abi.Insn.SIZE]
            for at, byte in enumerate(high.translate(_SEEN)):
                if byte and not low[at] & abi.INSN_ON_STACK:
                    yield text.start + at

    def functions_of_texts(self) -> Iterator[tuple[int, int, str]]:
        """Yield begin, end and name of the functions with instructions to look at."""
        for text, rows in zip(self.all, self._rows, strict=True):
            for begin, size in _functions_in(text):
                at = (begin - text.start) * abi.Insn.SIZE
                if has_instructions(rows[at : at + size * abi.Insn.SIZE]):
                    yield begin, begin + size, f"{text.symbol(begin)[0]} [{text.name}]"

    def function_at(self, address: int) -> FunctionCode | None:
        """Return the function around an address in a text."""
        text = self.text_at(address)
        if text is None:
            return None
        number = text.number - 1
        for begin, size in _functions_in(text):
            if begin <= address < begin + size:
                at = begin - text.start
                rows = self._rows[number][at * abi.Insn.SIZE :][: size * abi.Insn.SIZE]
                looked = rows[:: abi.Insn.SIZE], rows[1 :: abi.Insn.SIZE]
                marks = [
                    place
                    for place, (low, high) in enumerate(zip(*looked, strict=True))
                    if (low | high << 8) & _LOOKED_AT
                ]
                return FunctionCode(begin, self._code[number][at : at + size], marks)
        return None

    # ---- names
    def text_at(self, address: int) -> LookedText | None:
        """Return the last text that was at an address, up to `when`."""
        found = (
            text
            for text in reversed(self.all)
            if text.start <= address < text.end
            and (self.when is None or self.began[text.number - 1] <= self.when)
        )
        return next(found, None)

    def place(self, address: int) -> str:
        """Return FUNCTION+OFFSET [MODULE] for an address, "" if it is in no text."""
        text = self.text_at(address)
        if text is not None:
            name, offset = text.symbol(address)
            return f"{name}+{offset:#x} [{text.name}]"
        symbol = self._kernel.symbols.symbol_at(address)
        if symbol is None or symbol.type not in FUNCTION_TYPES:
            return ""
        return f"{symbol.name}+{address - symbol.addr:#x}"


def has_instructions(rows: bytes) -> bool:
    """Return True if some rows of a function are of instructions that seen() tells."""
    low = rows[:: abi.Insn.SIZE]
    return any(
        byte
        and not low[at] & abi.INSN_ON_STACK
        and rows[at * abi.Insn.SIZE :][: abi.Insn.SIZE] != _FILLING
        for at, byte in enumerate(low.translate(_LOOKED))
    )


def _functions_in(text: LookedText) -> Iterator[tuple[int, int]]:
    """Yield start and size of each function of a text, as far as they are known."""
    starts = {text.start}
    if text.module is not None:
        starts |= {
            row.addr
            for row in text.module.rows
            if row.type in FUNCTION_TYPES and text.start <= row.addr < text.end
        }
    ordered = [*sorted(starts), text.end]
    for start, end in pairwise(ordered):
        yield start, end - start


def _known_functions(saved: SavedKernel) -> list[KnownFunction]:
    """Return the functions that lookers know, which take half a second to find."""

    def make() -> Sequence[bytes]:
        btf = read_btf(saved.memory, saved.symbols)
        names = [] if btf is None else btf.prototypes()
        failing = [name for name, words in names if _may_fail(words)]
        return [json.dumps(known_functions(saved, failing)).encode()]

    kept = KeptFile(saved.folder, _KEPT, saved.meta).get(make)
    return [KnownFunction(*row) for row in json.loads(bytes(kept[0]))]


def _may_fail(words: str) -> bool:
    """Return True for the prototype of a function that returns an int or a pointer."""
    result = words.split(" (")[0]
    return result == "int" or result.endswith("*")
