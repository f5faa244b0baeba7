# SPDX-License-Identifier: GPL-2.0-or-later
"""Python's side of the board: its C library, one libunicorn engine and the machine's
memory.

An unmodified Linux kernel runs here. All hooks are in C, and the GIL is released while
the kernel runs.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum

from kpfs.base import abi, mapping, pagemap
from kpfs.base.units import PAGE_SIZE
from kpfs.emulator import exports, libunicorn
from kpfs.emulator.libunicorn import EmulatorError, MemoryRegion
from kpfs.emulator.registers import EngineRegisters
from kpfs.emulator.stops import Stops
from kpfs.linux.arch.arch import LinuxArch, SavedRegisters
from kpfs.linux.arch.arches import X86_64

IMAGE_DIR = os.path.join(os.path.dirname(os.path.dirname(__file__)), "image")
MAX_RAM = abi.HOLE_BASE
_PROT_ALL = 7
_API = (
    "uc_reg_read", "uc_reg_write", "uc_emu_start", "uc_emu_stop", "uc_hook_add",
    "uc_mmio_map", "uc_ctl",
    "uc_context_alloc", "uc_context_save", "uc_context_restore",
)  # fmt: skip
_UNKNOWN = "this libunicorn is not known here: 2.1.4 is wanted"
_STATE_SIZE = 1 << 17  # bytes: more than any architecture knows of libunicorn's
TURN_TICKS = 2_000_000_000  # about 1 s; a whole turn of usual code takes 0.05 s


class Space(IntEnum):
    """Whose addresses are meant, where kernel and programs have some in common."""

    KERNEL = 0
    PROGRAM = 1  # the one that runs, or has called the kernel
    AGENT = 2


class BoardWords:
    """A struct board, and the library that works on it. ``ram`` is its memory."""

    def __init__(self, arch: LinuxArch, ram: mmap.mmap) -> None:
        self.arch = arch
        self.ram = ram
        self.ram_address = address_of(ram)
        self._board = _load_board(arch)
        self._raw = ctypes.create_string_buffer(abi.Board.SIZE)
        self._pointer = ctypes.c_void_p(ctypes.addressof(self._raw))
        self.words = memoryview(self._raw).cast("B")[: abi.Board.console].cast("Q")
        self.set(ram=self.ram_address, ram_size=len(ram))

    def get(self, field: int) -> int:
        """Return the word at an offset of abi.Board."""
        return self.words[field >> 3]

    def set(self, **values: int) -> None:
        for name, value in values.items():
            self.words[self.arch.board_field(name) >> 3] = value

    def translate(self, address: int, space: Space = Space.KERNEL) -> int:
        """Return the offset in RAM of a virtual address, or abi.NEVER."""
        words = ctypes.c_uint64(address), ctypes.c_int(space)
        return int(self._board.board_translate(self._pointer, *words))


class SavedBoard(BoardWords):
    """The board of an image, which never runs, but finds addresses in its memory.

    Context: any.
    """

    def __init__(
        self,
        arch: LinuxArch,
        ram: mmap.mmap,
        saved: SavedRegisters,
        words: Mapping[str, int],
    ) -> None:
        """saved: of a processor; words: the board's, by the names in LinuxArch.kept."""
        super().__init__(arch, ram)
        self._state = ctypes.create_string_buffer(_STATE_SIZE)
        state = ctypes.addressof(self._state)
        arch.place(saved, state)
        self.set(state=state, **words)

    def close(self) -> None:
        """Unmap the image. The board cannot be used afterwards."""
        mapping.unmap(self.ram)


class Board(BoardWords, EngineRegisters):
    """One machine. ``ram`` and ``region`` are its memory, ``words`` is struct board.

    Context: the caller holds the machine's lock.
    """

    def __init__(
        self,
        ram: mmap.mmap,
        region: mmap.mmap,
        *,
        arch: LinuxArch = X86_64,
        cpus: int = 1,
    ) -> None:
        self.region = region
        self._lib = libunicorn.without_gil()
        if self._lib.uc_version(None, None) != libunicorn.VERSION:
            raise EmulatorError(_UNKNOWN)
        BoardWords.__init__(self, arch, ram)
        self.counter = libunicorn.BlockCounter.from_buffer(self._raw)
        self.stops: Stops | None = None  # a debugger's
        self.calls: Sequence[tuple[int, int]] = ()  # as of set_calls()
        self._debug: ctypes.Array[ctypes.c_char] | None = None
        engine = libunicorn.open_engine(*arch.engine, cpu_model=arch.cpu_model)
        EngineRegisters.__init__(self, self._lib, ctypes.c_void_p(engine))
        try:
            self._prepare(cpus)
        except BaseException:
            self.close()
            raise

    def _prepare(self, cpus: int) -> None:
        """Give the engine memory and hooks, and the board its words."""
        arch = self.arch
        memory = [
            self._map(0, self.ram),
            self._map(arch.region_phys, self.region),
        ]
        names = *_API, *exports.of_all(arch.exported_as)
        found = [libunicorn.address(self._lib, name) for name in names]
        api = (ctypes.c_void_p * len(found))(*found)
        self._replace(api)
        arch.prepare(self)
        trial = self.execute, arch.load_here
        self.counts = libunicorn.count(
            self.address, ctypes.addressof(self.counter), *trial
        )
        pages = arch.exported_as, arch.engine_page
        self.tracks = self.counts and libunicorn.track(
            self.address, self.counter, *pages, memory, *trial
        )
        state = arch.find_state(self)
        if not state:
            raise EmulatorError(_UNKNOWN)
        self.set(
            uc=self.address,
            state=state,
            nr_cpus=cpus,
            break_at=abi.NEVER,
            pause=abi.NEVER,
            turn_ticks=TURN_TICKS,
            counts=self.counts,
            tracks=self.tracks,
        )
        if cpus > 1:
            for field, value in arch.features(self).items():
                self.words[field >> 3] = value
        if not self._board.board_init(self._pointer):
            raise EmulatorError("libunicorn refuses the hooks of the board")
        self._run = self._board.board_run

    def _replace(self, api: ctypes.Array[ctypes.c_void_p]) -> None:
        """Put the board's functions in the place of libunicorn's, and tell it others.

        See replaced.c.
        """
        count, listed = ctypes.c_uint64(), self._board.board_replacements
        listed.restype = ctypes.POINTER(libunicorn.Replacement)
        rows = listed(ctypes.byref(count), api)[: count.value]
        if missed := libunicorn.replace(rows):
            raise EmulatorError(
                f"libunicorn's {missed} cannot be replaced: it is not the one of the "
                "package unicorn 2.1.4, or another program part has loaded it before"
            )

    def _map(self, address: int, memory: mmap.mmap) -> MemoryRegion:
        mapped = MemoryRegion(address, address_of(memory), len(memory))
        libunicorn.check(
            self._lib.uc_mem_map_ptr(
                self._engine,
                ctypes.c_uint64(address),
                ctypes.c_size_t(mapped.size),
                ctypes.c_uint32(_PROT_ALL),
                ctypes.c_void_p(mapped.host),
            )
        )
        return mapped

    @property
    def address(self) -> int:
        return self._engine.value or 0

    def execute(self, code: bytes) -> None:
        """Run instructions that need no memory.  The board has not run yet."""
        self.region[: len(code)] = code
        begin = self.arch.region_phys
        end = begin + len(code)
        words = ctypes.c_uint64(begin), ctypes.c_uint64(end)
        nothing = ctypes.c_uint64(0), ctypes.c_size_t(0)  # no limit
        error = self._lib.uc_emu_start(self._engine, *words, *nothing)
        self.region[: len(code)] = bytes(len(code))
        libunicorn.check(error)

    @property
    def blocks(self) -> int:
        """The number of blocks of code that have begun."""
        return self.counter.begun

    # ---- fields of struct board
    def get_cpu(self, number: int, field: int) -> int:
        """Return the word of a processor at an offset of abi.Cpu."""
        return self.words[self.cpu_word(number, field)]

    def set_cpu(self, number: int, **values: int) -> None:
        for name, value in values.items():
            self.words[self.cpu_word(number, self.arch.cpu_field(name))] = value

    @staticmethod
    def cpu_word(number: int, field: int) -> int:
        """Return the index in ``words`` of a field of struct cpu."""
        return (abi.Board.cpus + number * abi.Cpu.SIZE + field) >> 3

    def set_calls(self, calls: Sequence[tuple[int, int]]) -> None:
        """Stop with STOP_CALL where these functions begin.

        Each comes with an offset from its first argument: the board stops only if the
        word there is 0. abi.NEVER: it always stops. abi.FAILED: the place is behind a
        call, and it stops only if that has returned an error.
        """
        self.calls = calls
        calls = [*calls, *[(0, abi.NEVER)] * (abi.NR_CALLS - len(calls))]
        first, zeros = abi.Board.calls >> 3, abi.Board.call_zeros >> 3
        for number, (address, zero) in enumerate(calls):
            self.words[first + number], self.words[zeros + number] = address, zero
        self._board.board_watch(self._pointer)

    # ---- text whose instructions are looked at: see text.h
    def look(self, texts: int) -> None:
        """Have texts looked at. texts: address of struct texts."""
        if not self._board.board_look(self._pointer, ctypes.c_void_p(texts)):
            raise EmulatorError("libunicorn refuses the hooks of the board")

    def make_rows(self, number: int, start: int, size: int) -> None:
        """Decode instructions of a text, by its index in struct texts."""
        words = (ctypes.c_uint64(word) for word in (number, start, size))
        self._board.board_make_rows(self._pointer, *words)

    def decode(self, code: bytes, row: ctypes.Structure) -> None:
        """Fill the row, struct insn, of the instruction that code begins with."""
        size = ctypes.c_uint64(len(code))
        self._board.board_decode(code, size, ctypes.byref(row))

    def hook_code(self, first: int, last: int) -> None:
        """Hook the instructions of [first, last]. All code has to be dropped then."""
        words = ctypes.c_uint64(first), ctypes.c_uint64(last)
        if not self._board.board_hook_code(self._pointer, *words):
            raise EmulatorError("libunicorn refuses a hook")

    def look_at_branches(self, first: int, size: int) -> None:
        """Look at indirect branches: branch.c.  first, size: the kernel's text."""
        if not libunicorn.finds(self.address):
            raise EmulatorError("this libunicorn does not tell of indirect branches")
        words = ctypes.c_uint64(first), ctypes.c_uint64(size)
        self._board.board_look_at_branches(self._pointer, *words)

    def watch_frame(self, start: int, size: int) -> None:
        """Look where a function begins and ends: frames.c.  Its rows are made."""
        words = ctypes.c_uint64(start), ctypes.c_uint64(size)
        self._board.board_watch_frame(self._pointer, *words)

    def mark_gap(self, start: int, size: int) -> None:
        """Report accesses of looked-at text to a gap between variables: shadow.c."""
        words = ctypes.c_uint64(start), ctypes.c_uint64(size)
        self._board.board_mark_gap(self._pointer, *words)

    def unmark(self, start: int, size: int) -> None:
        """Report accesses to this memory no longer."""
        words = ctypes.c_uint64(start), ctypes.c_uint64(size)
        self._board.board_unmark(self._pointer, *words)

    def forget_locks(self, start: int, size: int) -> None:
        """Forget the orders of locks that lie there: locks.c."""
        words = ctypes.c_uint64(start), ctypes.c_uint64(size)
        self._board.board_forget_locks(self._pointer, *words)

    def listen(self, size: int) -> None:
        """Keep up to that many bytes of what the agent writes to its port."""
        self._debug = (ctypes.c_char * size)()
        self.set(debug=ctypes.addressof(self._debug), debug_limit=size, debug_size=0)

    def heard(self) -> bytes:
        """Return what the agent has written to its port."""
        size = self.get(abi.Board.debug_size)
        return ctypes.string_at(self._debug, size) if self._debug else b""

    def console(self, since: int) -> tuple[bytes, int]:
        """Return what the serial port printed since then, and the length of it all."""
        size, limit = self.get(abi.Board.console_size), abi.CONSOLE_SIZE
        ring = bytes(self._raw)[abi.Board.console :]
        start = max(since, size - limit)
        return bytes(ring[at % limit] for at in range(start, size)), size

    # ---- registers, beside those of EngineRegisters
    def set_mode(self, mode: int) -> None:
        """Put the processor into the mode that it was saved in: abi.MODE_*.

        Or, on armhf, have it begin in AArch32, at an address.
        """
        self._board.board_mode(self._pointer, ctypes.c_uint64(mode))

    def select(self, cpu: int) -> None:
        """Make registers those of one processor. The next run begins on it."""
        self._board.board_select(self._pointer, ctypes.c_uint64(cpu))

    # ---- running
    def run(self) -> int:
        """Run until the host has to act; return the reason, one of abi.STOP_*."""
        if self.stops is None:
            return int(self._run(self._pointer))
        self.stops.on_begin()
        try:
            why = self._run(self._pointer)
            while self.stops.stopped():
                why = self._run(self._pointer)
        finally:
            self.stops.on_end()
        return int(why)

    def debug(self) -> Stops:
        """Return what makes this engine stop for a debugger."""
        if self.stops is None:
            counter = ctypes.addressof(self.counter)
            arch = self.arch
            self.stops = Stops(
                self.address,
                counter,
                arch.exported_as,
                lambda: self.read_reg(arch.counter),
            )
            self.set(stops=self.stops.address)
        return self.stops

    def flush(self) -> None:
        """Drop all translated code."""
        self._board.board_flush(self._pointer)

    @property
    def translated(self) -> int:
        """The number of blocks of code that are translated."""
        return int(self._board.board_translated(self._pointer))

    def list_translated(self, since: int, rows: mmap.mmap) -> int:
        """Fill memory with struct translation of each block; return the count.

        since: of those at the start that are left out.
        """
        room = len(rows) // abi.Translation.SIZE
        with mmap.mmap(-1, len(self.ram) // 8) as known:
            places = [ctypes.c_void_p(address_of(memory)) for memory in (known, rows)]
            words = ctypes.c_uint64(since), *places, ctypes.c_uint64(room)
            return int(self._board.board_list(self._pointer, *words))

    def translate_ahead(self, rows: mmap.mmap, first: int, count: int) -> None:
        """Translate blocks whose code is there already. Context: at a pause."""
        at = address_of(rows) + first * abi.Translation.SIZE
        words = ctypes.c_void_p(at), ctypes.c_uint64(count)
        self._board.board_translate_ahead(self._pointer, *words)

    def close(self) -> None:
        """Free the engine and its memory. The board cannot be used afterwards."""
        if self._engine:
            places = [self.get_cpu(n, abi.Cpu.context) for n in range(abi.MAX_CPUS)]
            for context in (*places, self.get(abi.Board.reset)):
                if context:
                    self._lib.uc_context_free(ctypes.c_void_p(context))
            libunicorn.forget(self.address, ctypes.addressof(self.counter))
            self._lib.uc_close(self._engine)
            self._engine = ctypes.c_void_p()
            mapping.unmap(self.ram, self.region)


def read_agent(arch: LinuxArch) -> bytes:
    """Return the program that is the kernel's first process."""
    with open(os.path.join(IMAGE_DIR, arch.name, "agent"), "rb") as file:
        return file.read()


def _load_board(arch: LinuxArch) -> ctypes.CDLL:
    path = os.path.join(IMAGE_DIR, arch.name, f"board-{os.uname().machine}.so")
    try:
        board = ctypes.CDLL(path)
    except OSError as error:
        raise EmulatorError(f"{path}: {error}") from error
    for function in ("run", "translate", "translated", "list"):
        getattr(board, f"board_{function}").restype = ctypes.c_uint64
    for function in ("init", "look", "hook_code"):
        if hasattr(board, f"board_{function}"):
            getattr(board, f"board_{function}").restype = ctypes.c_bool
    return board


def address_of(memory: mmap.mmap) -> int:
    """Return the address of a mapping in this process."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def written_pages(memory: mmap.mmap) -> Iterator[tuple[int, bytes]]:
    """Yield number and contents of each page of a private mapping that was written."""
    for first, end in pagemap.runs(address_of(memory), len(memory), pagemap.WRITTEN):
        for number in range(first, end):
            yield number, memory[number * PAGE_SIZE : (number + 1) * PAGE_SIZE]
