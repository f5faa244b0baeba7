# SPDX-License-Identifier: GPL-2.0-or-later
"""Find and load libunicorn, and count the blocks of code that an engine begins.

Counting by a hook for blocks takes longer than most blocks. ``blocks.c`` tells how a
library that is loaded before libunicorn counts for nothing. libunicorn looks for a
reason to stop behind each access to memory, too, where it cannot stop without repeating
the access. So count() has it leave that out: a flag in the engine's structure tells the
translator. The engine stops where its counter says, then. Both hold only in the known
version; count() tries it. If somebody else has loaded libunicorn before, its functions
are bound to each other, so this loads a copy.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from kpfs.base import abi, limits
from kpfs.base.structures import fields
from kpfs.base.typed import NamedTuple

_IMAGE_DIR = os.path.join(os.path.dirname(__file__), "image")
VERSION = 0x020104FF  # the one whose inside is known here
# as libunicorn's functions name them
_ARCHES = "x86_64", "aarch64", "riscv64", "s390x", "ppc64", "mips64el"
EXIT_CHECK = "helper_check_exit_request_"  # and the architecture: see blocks.c
_MANY = 1 << 20  # blocks, more than execute() takes
CODE_SIZE = 1 << 30  # bytes for translated code that libunicorn maps for an engine
SPARE = 128 << 20  # for what else it and the process come to need: it may not fail
_CODE_FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_CODE_PROT = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
_CTL_CPU_MODEL = 7 | 1 << 26 | 1 << 30
_CTL_TB_FLUSH = 10 | 1 << 30
_CTL_TLB_FLUSH = 11 | 1 << 30
_CTL_SET_CODE_SIZE = 13 | 1 << 26 | 1 << 30
_CTL_CODE_SIZE = 13 | 1 << 26 | 2 << 30


class EmulatorError(Exception):
    """libunicorn is missing or failed: a bug or a broken guest, not a refusal."""


class MemoryRegion(NamedTuple):
    """Memory of an engine: its physical address, its address in this process, bytes."""

    address: int
    host: int
    size: int


class BlockCounter(ctypes.Structure):
    """struct block_counter."""

    left: int
    end: int
    look: int
    own: int
    hooks_need_no_pc: int
    run_end: int
    run_since: int
    run_step: int
    early: int
    _fields_ = fields(abi.BlockCounter)

    def keep(self) -> None:
        """Have the counter itself hold what is left, as no engine does."""
        self.own = self.remaining().value if self.left else 0
        self.left = ctypes.addressof(self) + abi.BlockCounter.own

    def remaining(self) -> ctypes.c_int32:
        """Return what is left, where it stands."""
        return ctypes.c_int32.from_address(self.left)

    @property
    def begun(self) -> int:
        """The number of blocks that have begun."""
        return int(self.end - self.remaining().value)


def find_library() -> str:
    """Return the path of libunicorn in the unicorn package, without importing it."""
    for folder in sys.path:
        for name in ("libunicorn.so.2", "libunicorn.so", "libunicorn.2.dylib"):
            path = os.path.join(folder, "unicorn", "lib", name)
            if os.path.exists(path):
                return path
    raise EmulatorError("the Python package unicorn is not installed")


@cache
def load() -> tuple[ctypes.PyDLL, ctypes.PyDLL | None]:
    """Return libunicorn, and the library that counts if it can be loaded."""
    path = os.path.join(_IMAGE_DIR, f"emulator-{os.uname().machine}.so")
    try:
        blocks = ctypes.PyDLL(path, mode=ctypes.RTLD_GLOBAL)
    except OSError:
        blocks = None
    library = _load_alone(find_library())
    if blocks is None or not _bind(library, blocks):
        return library, None
    if library.uc_version(None, None) == VERSION:
        blocks.emulator_is_known()
    blocks.blocks_count.restype = blocks.track_works.restype = ctypes.c_bool
    blocks.search_age.restype = ctypes.c_uint64
    blocks.search_table.restype = blocks.track_pages.restype = ctypes.c_void_p
    return library, blocks


class _Original(ctypes.Structure):
    """struct original."""

    name: bytes | None
    place: int
    _fields_ = [("name", ctypes.c_char_p), ("place", ctypes.c_void_p)]


def originals(blocks: ctypes.PyDLL) -> Iterator[tuple[str, ctypes.c_void_p]]:
    """Yield the names of functions of libunicorn, and where their addresses go."""
    count, table = ctypes.c_uint64(), blocks.emulator_originals
    table.restype = ctypes.POINTER(_Original)
    for row in table(ctypes.byref(count))[: count.value]:
        if row.name:  # the compiler leaves room between the rows of two files
            yield row.name.decode(), ctypes.c_void_p.from_address(row.place)


def _bind(library: ctypes.PyDLL, blocks: ctypes.PyDLL) -> bool:
    """Find the functions of libunicorn that are called; False if one is missing."""
    found_all = True
    for name, place in originals(blocks):
        try:
            place.value = address(library, name).value
        except AttributeError:
            found_all = False
    return found_all


class Replacement(ctypes.Structure):
    """struct replacement of a board."""

    name: bytes
    function: int
    original: int
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("original", ctypes.c_void_p),
    ]


def replace(rows: Sequence[Replacement]) -> str:
    """Have libunicorn call functions of a board in place of its own: replaced.c.

    Rows without a function only ask for the address of libunicorn's.  Return the name
    of one of which libunicorn would still call its own, or "".
    """
    library, blocks = load()
    places = {} if blocks is None else dict(originals(blocks))
    for row in rows:
        name = row.name.decode()
        if not row.function:
            ctypes.c_void_p.from_address(row.original).value = called(name).value
            continue
        if blocks is None or name not in places:
            return name
        own = address(library, name)
        blocks.replaced_in.restype = ctypes.c_bool
        if not blocks.replaced_in(ctypes.c_void_p(library._handle), own):
            return name
        if row.original:
            ctypes.c_void_p.from_address(row.original).value = own.value
        places[name].value = row.function
    return ""


def _load_alone(path: str) -> ctypes.PyDLL:
    """Load libunicorn, or a copy of it if something else has loaded it before.

    The dynamic linker knows a library by its file: a copy is another one.
    """
    if _dlopen(path, os.RTLD_NOLOAD):
        with contextlib.suppress(OSError), open(path, "rb") as file:
            with os.fdopen(os.memfd_create("libunicorn"), "wb") as copy:
                copy.write(file.read())
                copy.flush()
                handle = _dlopen(f"/proc/self/fd/{copy.fileno()}")
            if handle:
                return ctypes.PyDLL(path, handle=handle)
    return ctypes.PyDLL(path, handle=_dlopen(path))


def _dlopen(path: str, mode: int = 0) -> int | None:
    """Load a library whose functions are bound when they are first called.

    ctypes has all of them bound at once. There are 7,600 that a start does not call,
    in libunicorn's parts for other architectures.
    """
    dlopen = ctypes.PyDLL(None).dlopen
    dlopen.restype = ctypes.c_void_p
    handle: int | None = dlopen(os.fsencode(path), os.RTLD_LAZY | mode)
    return handle


def without_gil() -> ctypes.CDLL:
    """Return libunicorn for calls that release the GIL."""
    library = load()[0]
    return ctypes.CDLL(library._name, handle=library._handle)


def address(library: ctypes.CDLL, name: str) -> ctypes.c_void_p:
    """Return the address of a function of libunicorn."""
    return ctypes.cast(library[name], ctypes.c_void_p)


def called(name: str) -> ctypes.c_void_p:
    """Return the address of the function that libunicorn calls by a name.

    That is one of this folder's own in place of libunicorn's, if there is one: who
    calls the latter keeps from it what libunicorn forgets.
    """
    library, blocks = load()
    with contextlib.suppress(AttributeError):
        if blocks is not None:
            return address(blocks, name)
    return address(library, name)


def open_engine(arch: int, mode: int, cpu_model: int | None = None) -> int:
    """Return a new engine, with its memory for translated code.

    libunicorn ends the process if it cannot map that. So a mapping like it is tried
    before. cpu_model: None for libunicorn's own. Raises SetupError.
    """
    library, engine = load()[0], ctypes.c_void_p()
    with _opening():  # the mapping that was tried is nobody else's
        try:
            mmap.mmap(-1, CODE_SIZE + SPARE, _CODE_FLAGS, _CODE_PROT).close()
        except OSError as error:
            raise limits.no_room(CODE_SIZE + SPARE, error) from None
        check(library.uc_open(arch, mode, ctypes.byref(engine)))
        if cpu_model is not None:
            check(library.uc_ctl(engine, _CTL_CPU_MODEL, cpu_model))
        check(library.uc_ctl(engine, _CTL_SET_CODE_SIZE, ctypes.c_uint32(CODE_SIZE)))
        size = ctypes.c_uint32()  # asked for, as the first such call maps it
        check(library.uc_ctl(engine, _CTL_CODE_SIZE, ctypes.byref(size)))
    return engine.value or 0


class Stopper:
    """A function in C that stops an engine, for a timer that may be late."""

    def __init__(self, engine: int, stop: int | None = None) -> None:
        """stop: address of a function in place of uc_emu_stop()."""
        library, self._blocks = load()
        self.function = stop or address(library, "uc_emu_stop").value or 0
        self.argument = engine
        self._number = 0
        if self._blocks is not None:
            begin = self._blocks.stopper_begin
            begin.restype = ctypes.c_uint64
            self._number = begin(*map(ctypes.c_void_p, (engine, self.function)))
        if self._blocks is not None and self._number:
            self.function = address(self._blocks, "stopper_call").value or 0
            self.argument = self._number

    def end(self) -> None:
        """Have it stop nothing any more, however late the call comes."""
        if self._blocks is not None and self._number:
            self._blocks.stopper_end(ctypes.c_uint64(self._number))
            self._number = 0


def check(error: int) -> None:
    """Raise EmulatorError for an error of libunicorn."""
    if error:
        raise EmulatorError(f"libunicorn: error {error}")


@cache
def _opening() -> threading.Lock:
    """Return the lock under which this process makes engines."""
    return threading.Lock()


def count(
    engine: int, counter: int, execute: Callable[[bytes], None], load_here: bytes
) -> bool:
    """Have an engine that has not run yet count its blocks; False if it does not.

    counter: address of a struct block_counter. execute() runs code in the engine.
    load_here: instructions that load a word from where they stand.
    """
    library, blocks = load()
    word = ctypes.c_void_p(engine)
    counts = BlockCounter.from_address(counter)
    counts.keep()
    if blocks is None or not _begin(blocks, engine, counter):
        return False
    flag = _flag(engine)
    took = []
    for quiet in (False, True):
        flag.value = quiet
        counts.end = counts.look = counts.remaining().value = _MANY
        execute(load_here * 3)
        library.uc_ctl(word, _CTL_TB_FLUSH)
        took.append(counts.begun)
    counts.end = counts.remaining().value
    if took[1] and took[0] == took[1] + 3:
        _find_in_table(engine)
        return True
    flag.value = False
    forget(engine, counter)
    return False


def _begin(blocks: ctypes.PyDLL, engine: int, counter: int) -> bool:
    words = engine, counter, _state(engine)
    return bool(blocks.blocks_count(*map(ctypes.c_void_p, words)))


def _state(engine: int) -> int | None:
    """Return the address of the processor's state, if its place is known."""
    if load()[0].uc_version(None, None) != VERSION:
        return None
    return state_of(engine)


def processor_of(engine: int) -> int:
    """Return the address of an engine's processor in the known libunicorn."""
    return ctypes.c_size_t.from_address(engine + abi.ENGINE_PROCESSOR).value


def in_processor(offset: int) -> int:
    """Return an offset in a processor on this host; it is x86-64's in layout.h."""
    aarch64 = os.uname().machine == "aarch64"
    return offset + (abi.MORE_ON_AARCH64 if aarch64 else 0)


def state_of(engine: int) -> int:
    """Return the address of its state."""
    at = processor_of(engine) + in_processor(abi.PROCESSOR_STATE)
    return ctypes.c_size_t.from_address(at).value


def _find_in_table(engine: int) -> None:
    """Have blocks be found in a table (search.c), unless libunicorn forgets unheard."""
    library, blocks = load()
    if blocks is None or not _state(engine):
        return
    word = ctypes.c_void_p(engine)
    size = ctypes.c_size_t(blocks.search_size())
    table = ctypes.c_void_p(_calloc()(ctypes.c_size_t(1), size))
    if not table:
        return
    blocks.search_in(word, table)
    for what in (_CTL_TLB_FLUSH, _CTL_TB_FLUSH):
        before = blocks.search_age(word)
        library.uc_ctl(word, what)
        if blocks.search_age(word) == before:
            blocks.search_in(word, None)
            ctypes.PyDLL(None).free(table)
            return


def _calloc() -> Callable[..., int | None]:
    calloc = ctypes.PyDLL(None).calloc
    calloc.restype = ctypes.c_void_p
    return calloc


def finds(engine: int) -> bool:
    """Return True if the blocks of an engine that counts are found in a table."""
    _, blocks = load()
    return blocks is not None and bool(blocks.search_table(ctypes.c_void_p(engine)))


def track(
    engine: int,
    counter: BlockCounter,
    arch: str,
    page_size: int,
    memory: Sequence[MemoryRegion],
    execute: Callable[[bytes], None],
    load_here: bytes,
) -> bool:
    """Have an engine that counts notice all stores to code (track.c); False: it cannot.

    page_size: libunicorn's. execute(), load_here: as count() has them; the code runs
    at the begin of the last memory.
    """
    library, blocks = load()
    if blocks is None or not _state(engine):
        return False
    word, tried = ctypes.c_void_p(engine), memory[-1]
    find = library[f"qemu_ram_addr_from_host_{arch}"]
    find.restype = ctypes.c_uint64
    end = max(find(word, ctypes.c_void_p(one.host)) + one.size for one in memory)
    count = ctypes.c_uint64(end // page_size)
    pages = ctypes.c_void_p(_calloc()(count, ctypes.c_size_t(2)))
    if not pages:
        return False
    blocks.track_in(word, pages, count, page_size.bit_length() - 1)
    execute(load_here)
    counter.end = counter.remaining().value  # this block does not count
    place = ctypes.c_uint64(tried.address), ctypes.c_void_p(tried.host)
    works = bool(blocks.track_works(word, _ARCHES.index(arch), *place))
    for what in (_CTL_TLB_FLUSH, _CTL_TB_FLUSH):
        library.uc_ctl(word, what)
    if not works:
        blocks.track_in(word, None, ctypes.c_uint64(0), 0)
        ctypes.PyDLL(None).free(pages)
    return works


def pause(engine: int) -> None:
    """Do not count for now, so that the engine can stop within blocks.

    It has to behind hooked accesses, and at hooked instructions. The caller drops what
    is translated, as after resume(). Context: count() has returned True.
    """
    _forget(engine)
    _flag(engine).value = False


def resume(engine: int, counter: int) -> None:
    """Count again after pause()."""
    _, blocks = load()
    if blocks is not None:
        _begin(blocks, engine, counter)
        _flag(engine).value = True
        _find_in_table(engine)


def forget(engine: int, counter: int) -> None:
    """End the count of an engine, as before it is closed."""
    _forget(engine)
    BlockCounter.from_address(counter).keep()


def _forget(engine: int) -> None:
    _, blocks = load()
    if blocks is not None:
        word = ctypes.c_void_p(engine)
        used = [blocks.search_table(word), blocks.track_pages(word)]
        blocks.blocks_forget(word)
        for memory in used:
            ctypes.PyDLL(None).free(ctypes.c_void_p(memory))


def _flag(engine: int) -> ctypes.c_bool:
    return ctypes.c_bool.from_address(engine + abi.ENGINE_QUIET)
