# SPDX-License-Identifier: GPL-2.0-or-later
"""Speed up the kernel's long texts: it makes one line, and the known rest is put in.

The kernel makes /proc/kallsyms and available_filter_functions line by line into a
buffer, from which it answers reads. The lines about the kernel itself never change, and
are kept with the image. So the board stops after the first line. If that line is the
known one, as this reader is shown it, the known lines that follow are put behind it,
and the kernel is told that there were no more for now. The kernel makes the lines of
modules and BPF programs itself, behind these.

Nobody can see the difference: while any function that makes a line is probed or traced,
the kernel makes all lines itself.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from typing import NamedTuple

from kpfs.base import abi
from kpfs.base.errors import MemoryFault
from kpfs.base.units import PAGE_SIZE, WORD
from kpfs.linux.board.board import Board
from kpfs.linux.memory.memory import KernelMemory, pages_of
from kpfs.linux.running.kernel_on_board import KernelOnBoard
from kpfs.linux.running.ready import ADDRESS, hide, open_texts
from kpfs.linux.store import image

ROOM = 1 << 20  # bytes to which the kernel itself enlarges a reader's buffer
# struct seq_file: its first fields; the range in which op lies; file is behind op
_BUF, _SIZE, _COUNT, _INDEX = 0, 8, 24, 40
_OP_FROM, _OP_TO, _FILE_BEHIND_OP = 56, 160, 16
_FILE_SIZE = 256  # bytes at the start of struct file, f_op among them
_NEXT, _SHOW = 2, 3  # indices in struct seq_operations
_READER = "seq_read_iter"  # the caller of next()
# The functions that make a line, besides those of the operations themselves.  Compilers
# may append a dot and a suffix to a name.
_PRINTS = (
    "seq_printf", "seq_vprintf", "seq_puts", "__seq_puts", "seq_putc", "seq_write",
    "vsnprintf", "format_decode", "number", "string", "string_nocheck", "pointer",
    "default_pointer", "pointer_string", "restricted_pointer", "special_hex_number",
    "widen_string", "put_dec", "put_dec_full8", "put_dec_trunc8", "strlen", "strnlen",
    "memcpy", "memcpy_orig", "__memcpy", "kallsyms_expand_symbol",
    "kallsyms_sym_address", "get_symbol_offset", "get_symbol_pos",
)  # fmt: skip


class Source(NamedTuple):
    """One long text: where the kernel makes it, and by which functions."""

    file: str  # name of the image's file with the known text
    operations: str
    file_operations: str  # those of the one file that shows the text; "" for any
    functions: tuple[str, ...]


SOURCES = (
    Source(image.SYMBOLS, "kallsyms_op", "", ("update_iter", "reset_iter")),
    Source(
        image.FUNCTIONS,
        "show_ftrace_seq_ops",
        "ftrace_avail_fops",
        (
            "t_func_next", "print_rec", "lookup_symbol_name", "kallsyms_lookup",
            "kallsyms_lookup_buildid", "test_for_valid_rec", "arch_ftrace_match_adjust",
        ),
    ),
)  # fmt: skip


class LinePlaces(NamedTuple):
    """A Source resolved to addresses of one kernel. JSON can hold it."""

    file: str
    op: int
    file_ops: list[int]
    next: int
    show: int
    reader: list[int]  # begin and end of the function that calls next()
    functions: list[list[int]]  # begin and size of each


def find(kernel: KernelOnBoard) -> list[LinePlaces]:
    """Return the texts that a kernel surely has."""
    found = (_find(source, kernel) for source in SOURCES)
    return [place for place in found if place]


def _find(source: Source, kernel: KernelOnBoard) -> LinePlaces | None:
    symbols, memory = kernel.symbols, kernel.memory
    ops = symbols.lookup_name(source.operations)
    files = symbols.lookup_name(source.file_operations)
    readers = symbols.lookup_name(_READER)
    if len(ops) != 1 or len(readers) != 1 or (source.file_operations and not files):
        return None
    if memory.model.long != WORD:  # struct seq_file is another one
        return None
    op, reader = ops[0].addr, readers[0]
    try:
        step, show = memory.word(op + 8 * _NEXT), memory.word(op + 8 * _SHOW)
    except MemoryFault:
        return None
    own = [found for at in (step, show) if (found := symbols.symbol_at(at))]
    made = symbols.functions_made_of(_PRINTS + source.functions)
    return LinePlaces(
        file=source.file,
        op=op,
        file_ops=[found.addr for found in files],
        next=step,
        show=show,
        reader=[reader.addr, reader.addr + reader.size],
        functions=[[found.addr, found.size] for found in (*own, *made)],
    )


class KnownLines:
    """Puts known lines into a machine's buffers while it stands still."""

    def __init__(self, kernel: KernelOnBoard, places: Sequence[LinePlaces]) -> None:
        """Context: the kernel is as in its image; nothing has changed it yet."""
        self._board, self._stops = kernel.machine.board, kernel.machine.stops
        self._memory = kernel.memory
        texts = open_texts(kernel.folder)
        self._known = [
            _KnownText(texts[place.file], place, self._board, self._memory)
            for place in places
            if place.file in texts
        ]
        self._armed = False
        self._arm(armed=True)  # what is to stop later is translated so from the start
        self._arm(armed=False)

    def _arm(self, *, armed: bool) -> None:
        """Stop the board where a text begins and, if armed, before each next line."""
        self._armed = armed
        shows = [(known.place.show, _INDEX) for known in self._known]
        steps = [(known.place.next, abi.NEVER) for known in self._known if armed]
        self._stops.set(self._asked, shows + steps)

    def _asked(self, at: int) -> None:
        """Act on a stop of the board at the beginning of a function."""
        seq = self._board.read_reg(self._board.arch.arguments[0])
        for known in self._known:
            try:
                if at == known.place.show and known.is_meant(seq):
                    self._begin(known, seq)
                elif at == known.place.next:
                    self._step(known, seq)
            except MemoryFault:
                self._arm(armed=False)

    def _begin(self, known: _KnownText, seq: int) -> None:
        """Make the kernel double its buffer until it suffices, before line 1."""
        if not known.is_unchanged():
            return
        size = self._memory.word(seq + _SIZE)
        if size < ROOM and not self._memory.word(seq + _COUNT):
            self._memory.write_number(seq + _COUNT, size)
        elif not self._armed:
            self._arm(armed=True)

    def _step(self, known: _KnownText, seq: int) -> None:
        """After a line, put in the known lines that follow it.

        If that is impossible, the kernel makes the rest itself, for this reader and all
        others.
        """
        board, memory = self._board, self._memory
        caller = board.arch.return_address(board, memory)
        begin, end = known.place.reader
        found: tuple[bytes, int] | None = None
        index, size = memory.word(seq + _INDEX), memory.word(seq + _SIZE)
        count, buffer = memory.word(seq + _COUNT), memory.word(seq + _BUF)
        # other callers may seek an offset by the length of each line
        reads = begin <= caller < end and 0 < count < min(size, PAGE_SIZE)
        if reads and known.is_meant(seq) and known.is_unchanged():
            begun = memory.read(buffer, count)
            found = known.after(index, begun, size - 1 - count)
        if found is None:
            self._arm(armed=False)
            return
        lines, index = found
        if not lines:
            return
        self._memory.write(buffer + count, lines)
        self._memory.write_number(seq + _COUNT, count + len(lines))
        self._memory.write_number(seq + _INDEX, index)
        # next() returns NULL: no more lines for now
        board.arch.return_now(board, memory, 0)
        board.set(asked_at=0)


class _KnownText:
    """One text of one machine."""

    def __init__(
        self, text: mmap.mmap, place: LinePlaces, board: Board, memory: KernelMemory
    ) -> None:
        self.place = place
        self._text = text
        self._ram = board.ram
        self._memory = memory
        self._code = [
            (start, self._ram[start : start + size])
            for begin, count in place.functions
            for at, size in pages_of(begin, count)
            if (start := board.translate(at)) < len(self._ram)
        ]
        self._offsets = {0: 0}  # line number -> offset in the text

    def is_unchanged(self) -> bool:
        """Return True if no function that makes lines is probed or traced."""
        ram = self._ram
        return all(ram[at : at + len(code)] == code for at, code in self._code)

    def is_meant(self, seq: int) -> bool:
        """Return True if a struct seq_file belongs to this text. Raises MemoryFault."""
        word = self._memory.model.struct("L").pack
        raw = self._memory.read(seq + _OP_FROM, _OP_TO - _OP_FROM)
        at = raw.find(word(self.place.op))
        if at < 0 or at % 8:
            return False
        if not self.place.file_ops:
            return True
        file = self._memory.word(seq + _OP_FROM + at + _FILE_BEHIND_OP)
        raw = self._memory.read(file, _FILE_SIZE)
        return any(word(ops) in raw for ops in self.place.file_ops)

    def after(self, number: int, lines: bytes, room: int) -> tuple[bytes, int] | None:
        """Return the whole lines that follow, and the number of the line behind them.

        lines: what stands in the buffer; number: of its last line; room: bytes left.
        None: the lines differ from the known ones, or there are no more. No lines: it
        is not clear yet whether this reader may see addresses.
        """
        at = self._offsets.get(number - lines.count(b"\n") + 1, -1)
        if at < 0 or not lines.endswith(b"\n"):
            return None
        start = at + len(lines)
        shown = self._text[at:start]
        hidden = hide(shown)
        if lines not in (shown, hidden):
            return None
        if shown == hidden and ADDRESS.match(lines):
            return b"", number
        piece = self._text[start : start + room]
        piece = piece[: piece.rfind(b"\n") + 1]
        if not piece:
            return None
        number += piece.count(b"\n") + 1
        self._offsets[number] = start + len(piece)
        return piece if lines == shown else hide(piece), number
