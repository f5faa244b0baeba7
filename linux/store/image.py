# SPDX-License-Identifier: GPL-2.0-or-later
"""A booted kernel in a directory: its memory, its processor, its symbols.

``ram`` is sparse and mapped privately by every machine, so it may be replaced only by
rename.  Nothing in it depends on when and where it was made.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import re
from collections.abc import Iterable
from typing import IO, Any, NamedTuple

from kpfs import abi
from kpfs.linux.board import registers
from kpfs.linux.board.board import (
    CPU_MODEL,
    MAX_RAM,
    PAGE_SIZE,
    Board,
    read_agent,
)
from kpfs.linux.errors import UnfitError
from kpfs.linux.package.bzimage import is_release

VERSION = 1
RAM, META, SYMBOLS, CONFIG, MODULES = "ram", "meta.json", "symbols", "config", "modules"
FUNCTIONS = "functions"  # available_filter_functions; those of an older kpfs lack it
# Functions that write code by another mapping of its page than it runs through.
FLUSHERS = (
    "text_poke_copy",
    "text_poke_copy_locked",
    "text_poke_set",
    "bpf_arch_text_copy",
    "bpf_jit_binary_pack_finalize",
    "arch_prepare_bpf_trampoline",
    "arch_ftrace_update_trampoline",
    "set_memory_x",
    "set_memory_rox",
    "post_relocation",
)
WIDTHS = 16, 64, 32, 32  # bits of a table's selector, base, limit and flags
_KEPT_WORDS = ("now", "timer", "apic_start", "apic_period", "cr2", "cmos")


class Booted(NamedTuple):
    """A board whose kernel is up: the agent stands at its pause."""

    board: Board
    pause: int  # address
    symbols: bytes  # /proc/kallsyms


class Meta(NamedTuple):
    """What an image says of itself."""

    version: int
    release: str
    memory: int  # bytes
    append: str
    cpu_model: int
    agent: str  # digest of the agent that runs in it
    pause: int  # address at which the agent waits
    registers: dict[str, int]
    tables: dict[str, list[int]]
    words: dict[str, int]  # of the board
    apic: list[int]
    panic: int  # address of panic()
    flushers: list[int]
    digest: str = ""  # of all this and of RAM
    origin: str = ""  # the file that it was made of, which the digest is not of


def symbol_table(text: bytes, names: Iterable[str]) -> dict[str, int]:
    """Addresses of some symbols of the kernel itself, by /proc/kallsyms."""
    wanted = b"|".join(re.escape(name.encode()) for name in names)
    rows = re.findall(rb"^([0-9a-f]+) \w (" + wanted + rb")$", text, re.M)
    return {name.decode(): int(address, 16) for address, name in reversed(rows)}


def processor(board: Board) -> dict[str, Any]:
    """The fields of Meta that say how a board stands."""
    kept = registers.GENERAL | registers.CONTROL | registers.FPU
    values = {name: board.read_reg(number) for name, number in kept.items()}
    values |= {n: board.read_msr(number) for n, number in registers.MSRS.items()}
    first = abi.Board.apic >> 3
    return {
        "registers": values,
        "tables": {name: list(board.read_table(name)) for name in registers.TABLES},
        "words": {name: board.get(getattr(abi.Board, name)) for name in _KEPT_WORDS},
        "apic": list(board.words[first : first + abi.NR_APIC_REGS]),
    }


def save(
    booted: Booted, release: str, append: str, folder: str, origin: str = ""
) -> Meta:
    """Write what has booted into a folder that is there."""
    board = booted.board
    found = symbol_table(booted.symbols, ("panic", *FLUSHERS))
    meta = Meta(
        version=VERSION,
        release=release,
        memory=len(board.ram),
        append=append,
        cpu_model=CPU_MODEL,
        agent=agent_digest(),
        pause=booted.pause,
        **processor(board),
        panic=found.get("panic", 0),
        flushers=[found[name] for name in FLUSHERS if name in found],
    )
    digest = hashlib.sha256(json.dumps(meta).encode())
    _write_sparse(board.ram, os.path.join(folder, RAM), digest)
    meta = meta._replace(digest=digest.hexdigest(), origin=origin)
    with open(os.path.join(folder, SYMBOLS), "wb") as file:
        file.write(booted.symbols)
    with open(os.path.join(folder, META), "w", encoding="utf-8") as file:
        json.dump(meta._asdict(), file, indent=1)
    return meta


def _write_sparse(ram: mmap.mmap, path: str, digest: hashlib._Hash) -> None:
    zero = bytes(PAGE_SIZE)
    with open(path, "wb") as file:
        for at in range(0, len(ram), PAGE_SIZE):
            page = ram[at : at + PAGE_SIZE]
            if page != zero:
                digest.update(at.to_bytes(8, "little"))
                digest.update(page)
                file.seek(at)
                file.write(page)
        file.truncate(len(ram))


def read_meta(folder: str, name: str = "") -> Meta:
    """UnfitError where it is none, or one of another version of kpfs.

    name: what the error calls it, if not as the folder.
    """
    name = name or os.path.basename(folder)
    try:
        with open(os.path.join(folder, META), encoding="utf-8") as file:
            fields = json.load(file)
        found = fields["version"], fields["cpu_model"], fields["agent"]
    except (OSError, ValueError, KeyError, TypeError):
        raise UnfitError(f"{name}: this is no kernel of kpfs; make it anew") from None
    if found != (VERSION, CPU_MODEL, agent_digest()):
        raise UnfitError(f"{name}: made by another version of kpfs; make it anew")
    try:
        meta = Meta(**fields)
        sound = _is_sound(meta)
    except (TypeError, ValueError, AttributeError):
        sound = False
    if not sound:
        raise UnfitError(f"{name}: the image is damaged; make it anew")
    return meta


def _is_sound(meta: Meta) -> bool:
    """Whether a machine can be given all this; TypeError and others: it cannot.

    The file may be a stranger's, and words of the board hold addresses of the host.
    """
    kept = registers.GENERAL.keys() | registers.CONTROL.keys() | registers.FPU.keys()
    texts = meta.release, meta.append, meta.agent, meta.digest, meta.origin
    numbers = [
        *(meta.pause, meta.panic, *meta.flushers, *meta.apic),
        *(*meta.registers.values(), *meta.words.values()),
    ]
    return (
        is_release(meta.release)
        and all(text.isprintable() for text in texts)
        and _fits(meta.memory, MAX_RAM.bit_length())
        and 0 < meta.memory <= MAX_RAM
        and not meta.memory % PAGE_SIZE
        and meta.registers.keys() == kept | registers.MSRS.keys()
        and meta.words.keys() == set(_KEPT_WORDS)
        and meta.tables.keys() == registers.TABLES.keys()
        and all(len(row) == len(WIDTHS) for row in meta.tables.values())
        and all(all(map(_fits, row, WIDTHS)) for row in meta.tables.values())
        and len(meta.apic) == abi.NR_APIC_REGS
        and all(_fits(number, 64) for number in numbers)
    )


def _fits(number: object, bits: int) -> bool:
    return type(number) is int and 0 <= number < 1 << bits


def agent_digest() -> str:
    return hashlib.sha256(read_agent()).hexdigest()


def open_ram(folder: str, meta: Meta) -> IO[bytes]:
    """The memory of an image, which stays what it is though another replaces it."""
    file = open(os.path.join(folder, RAM), "rb")
    if os.fstat(file.fileno()).st_size != meta.memory:
        file.close()
        raise UnfitError(f"{folder}: the image is damaged; make it anew")
    return file


def load(saved: IO[bytes], meta: Meta, *, exact: bool) -> Board:
    """A board that goes on where the image was saved."""
    access = mmap.PROT_READ | mmap.PROT_WRITE
    ram = mmap.mmap(saved.fileno(), meta.memory, mmap.MAP_PRIVATE, access)
    region = mmap.mmap(-1, abi.REGION_SIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    board = Board(ram, region, exact=exact)
    values = meta.registers
    for name, number in registers.MSRS.items():
        board.write_msr(number, values[name])
    for name in ("cr3", "cr4", "cr0", "cr2"):
        board.write_reg(registers.CONTROL[name], values[name])
    for name in registers.TABLES:
        selector, base, limit, flags = meta.tables[name]
        board.write_table(name, (selector, base, limit, flags))
    for name, number in (registers.GENERAL | registers.FPU).items():
        board.write_reg(number, values[name])
    board.set(pause=meta.pause, break_at=meta.panic or abi.NEVER, **meta.words)
    first = abi.Board.apic >> 3
    for number, value in enumerate(meta.apic):
        board.words[first + number] = value
    if not exact:
        board.add_flushers(meta.flushers)
    board.user_mode()
    return board
