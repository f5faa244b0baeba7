# SPDX-License-Identifier: GPL-2.0-or-later
"""An image: the memory, the processors and the symbols of a booted kernel.

It is a directory. Every machine maps ``ram`` privately, so the file may be replaced
only by rename; it is sparse. An image does not depend on when and where it was made.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import re
import time
from collections.abc import Iterable
from typing import IO, Any, NamedTuple

from kpfs.base import abi, mapping
from kpfs.base.data_model import LITTLE_64
from kpfs.base.units import PAGE_SIZE
from kpfs.linux.arch.arch import LinuxArch, fits
from kpfs.linux.arch.arches import ARCHES, X86_64
from kpfs.linux.board.board import MAX_RAM, Board, SavedBoard, read_agent
from kpfs.linux.errors import UnfitError
from kpfs.linux.package.bzimage import is_release
from kpfs.linux.store import processor
from kpfs.linux.store.processor import Processor

VERSION = 3
RAM, META, SYMBOLS, CONFIG, MODULES = "ram", "meta.json", "symbols", "config", "modules"
FUNCTIONS = "functions"  # available_filter_functions; images of older versions lack it
_DAMAGED = "the image is damaged"
MAX_TIME = 1 << 62  # ns; the clock goes on from there
_NO_META = (
    *(OSError, ValueError, KeyError, TypeError),
    *(AttributeError, RecursionError),
)


class BootedBoard(NamedTuple):
    """A board whose kernel has booted: the agent stands at its pause."""

    board: Board
    pause: int  # address
    symbols: bytes  # /proc/kallsyms


class Meta(NamedTuple):
    """The description of an image, which is in its meta.json."""

    version: int
    release: str
    memory: int  # bytes
    append: str
    cpu_model: int | None
    agent: str  # digest of the agent that runs in it
    pause: int  # address at which the agent waits
    words: dict[str, int]  # the board's
    processors: list[Processor]
    panic: int  # address of panic()
    digest: str = ""  # digest of all this and of RAM
    origin: str = ""  # the file that it was made of, which the digest is not of
    arch: str = X86_64.name  # likewise, as the rest depends on it


def version(release: str) -> list[int]:
    """Return the first numbers of a release, at most three."""
    return [int(number) for number in re.findall(r"\d+", release)[:3]]


def symbol_table(text: bytes, names: Iterable[str]) -> dict[str, int]:
    """Return the addresses of some of the kernel's symbols, given /proc/kallsyms."""
    found = ((name, symbol_address(text, name)) for name in names)
    return {name: address for name, address in found if address}


def symbol_address(text: bytes | mmap.mmap, name: str) -> int:
    """Return the address of a symbol of the kernel, 0 if it has none of this name."""
    at = text.find(f" {name}\n".encode())
    begin = text.rfind(b"\n", 0, at) + 1
    return int(text[begin:at].split()[0], 16) if at >= 0 else 0


def board_fields(board: Board) -> dict[str, Any]:
    """Return the fields of Meta that tell the state of a board."""
    kept, field = board.arch.kept, board.arch.board_field
    words = {name: board.get(field(name)) for name in kept}
    cpus = range(board.get(abi.Board.nr_cpus))
    processors = [processor.save(board, number) for number in cpus]
    board.select(words["current"])
    return {"words": words, "processors": processors}


def with_board_fields(meta: Meta, fields: dict[str, Any]) -> Meta:
    """Return meta with board_fields(), or with what JSON made of them."""
    processors = [Processor(*row) for row in fields["processors"]]
    return meta._replace(words=fields["words"], processors=processors)


def save(
    booted: BootedBoard, release: str, append: str, folder: str, origin: str = ""
) -> Meta:
    """Write a booted kernel into an existing folder."""
    board = booted.board
    found = symbol_table(booted.symbols, ("panic",))
    meta = Meta(
        version=VERSION,
        release=release,
        memory=len(board.ram),
        append=append,
        cpu_model=board.arch.cpu_model,
        agent=agent_digest(board.arch),
        pause=booted.pause,
        **board_fields(board),
        panic=found.get("panic", 0),
    )
    digest = hashlib.sha256(json.dumps(meta[:-1]).encode())
    _write_sparse(board.ram, os.path.join(folder, RAM), digest)
    meta = meta._replace(digest=digest.hexdigest(), origin=origin, arch=board.arch.name)
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
                digest.update(LITTLE_64.raw(at, 8))
                digest.update(page)
                file.seek(at)
                file.write(page)
        file.truncate(len(ram))


def read_meta(folder: str, name: str = "") -> Meta:
    """Read the description of an image.

    name: what errors call it if it has come in a file. Raises UnfitError if it is no
    image, is damaged, or belongs to another version of kpfs.
    """
    try:
        with open(os.path.join(folder, META), encoding="utf-8") as file:
            fields = json.load(file)
        fields.pop("flushers", None)  # in images that were made before
        arch = ARCHES[fields.get("arch", X86_64.name)]
        found = fields["version"], fields["cpu_model"], fields["agent"]
    except _NO_META:
        raise _unfit("this is no kernel of kpfs", folder, name) from None
    if found != (VERSION, arch.cpu_model, agent_digest(arch)):
        raise _unfit("made by another version of kpfs", folder, name)
    try:
        meta = with_board_fields(Meta(**fields), fields)
        sound = _is_sound(arch, meta)
    except (TypeError, ValueError, AttributeError, KeyError):
        sound = False
    if not sound:
        raise _unfit(_DAMAGED, folder, name)
    return meta


def _unfit(why: str, folder: str, name: str = "") -> UnfitError:
    """Return the error about an image, with the command that makes it anew.

    name: what errors call it if it was not made here, but has come in a file.
    """
    from kpfs.linux.distribution import distributions

    if name:
        return UnfitError(f"{name}: {why}")
    name = os.path.basename(folder)
    how = f"kpfs kernel make {name}"
    if not distributions.is_name(name.partition("+")[0]):
        how += ", with the options that it was made with"
    return UnfitError(f"{name}: {why} ({how})")


def read_config(folder: str) -> str:
    """Return the configuration of a kernel, "" if it has come without one."""
    with open(os.path.join(folder, CONFIG), encoding="utf-8") as file:
        return file.read()


def config_place(folder: str, release: str) -> str:
    """Return where programs look for a kernel's configuration, "" if it has none."""
    there = os.path.getsize(os.path.join(folder, CONFIG))
    return f"/boot/config-{release}" * bool(there)


def _is_sound(arch: LinuxArch, meta: Meta) -> bool:
    """Return True if a machine can safely be given all this.

    The file may be a stranger's, and words of the board hold addresses of the host.
    Raises TypeError and others if the types are wrong.
    """
    texts = meta.release, meta.append, meta.agent, meta.digest, meta.origin
    numbers = meta.pause, meta.panic, *meta.words.values()
    times = [meta.words["now"], *(one.words["timer"] for one in meta.processors)]
    return (
        is_release(meta.release)
        and all(text.isprintable() for text in texts)
        and fits(meta.memory, MAX_RAM.bit_length())
        and 0 < meta.memory <= arch.max_ram
        and not meta.memory % PAGE_SIZE
        and meta.words.keys() == set(arch.kept)
        and all(fits(number, 64) for number in numbers)
        and 0 < len(meta.processors) <= abi.MAX_CPUS
        and all(processor.is_sound(arch, one) for one in meta.processors)
        and meta.words["current"] < len(meta.processors)
        and all(time < MAX_TIME or time == abi.NEVER for time in times)
        and meta.words["now"] != abi.NEVER
    )


def agent_digest(arch: LinuxArch) -> str:
    return hashlib.sha256(read_agent(arch)).hexdigest()


def open_ram(folder: str, meta: Meta) -> IO[bytes]:
    """Open the memory of an image. It stays as it is if another image replaces it."""
    file = open(os.path.join(folder, RAM), "rb")
    if os.fstat(file.fileno()).st_size != meta.memory:
        file.close()
        raise _unfit(_DAMAGED, folder)
    _mark_used(folder)
    return file


def _mark_used(folder: str) -> None:
    path = os.path.join(folder, META)
    with contextlib.suppress(OSError):  # somebody else's
        times = time.time_ns(), os.stat(path).st_mtime_ns
        os.utime(path, ns=times)


def last_use(folder: str) -> float:
    """Return when a kernel was used last, or made, in seconds since 1970."""
    return os.stat(os.path.join(folder, META)).st_atime


def map_saved(saved: IO[bytes], meta: Meta) -> SavedBoard:
    """Return a board that finds addresses in the image's memory."""
    registers = meta.processors[meta.words["current"]].saved()
    return SavedBoard(ARCHES[meta.arch], _map(saved, meta), registers, meta.words)


def _map(saved: IO[bytes], meta: Meta) -> mmap.mmap:
    return mapping.make(meta.memory, mmap.MAP_PRIVATE, saved.fileno())


def load(saved: IO[bytes], meta: Meta) -> Board:
    """Return a board that continues where the image was saved."""
    ram = _map(saved, meta)
    region = mapping.make(abi.REGION_SIZE)
    arch, cpus = ARCHES[meta.arch], len(meta.processors)
    board = Board(ram, region, arch=arch, cpus=cpus)
    for number, saved_one in enumerate(meta.processors):
        processor.load(board, number, saved_one)
    board.select(meta.words["current"])
    board.set(pause=meta.pause, break_at=meta.panic or abi.NEVER, **meta.words)
    return board
