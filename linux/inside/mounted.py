# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel with everything mounted, kept beside its image for quick starts.

Loading modules and mounting takes longer than most commands. It is therefore done once,
over files that are the same on every host, and the pages that changed since the image
was saved are kept in a file. The file is as reproducible as the image. A start maps the
image, puts these pages over it and goes on from there.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Callable
from contextlib import closing
from time import monotonic
from typing import Any, NamedTuple

from kpfs.base import pagemap
from kpfs.base import syscall_numbers as nr
from kpfs.base.units import PAGE_SIZE
from kpfs.linux.board.board import Board, written_pages
from kpfs.linux.board.call_stops import CallStops
from kpfs.linux.errors import UnfitError
from kpfs.linux.inside import oops, runnable, tree
from kpfs.linux.inside.hostfiles import EmptyFiles, HostFiles
from kpfs.linux.inside.lines import KnownLines, LinePlaces, find
from kpfs.linux.inside.loop import Loop, Worker
from kpfs.linux.inside.oops import Oopses
from kpfs.linux.inside.packagefiles import PackageFiles
from kpfs.linux.inside.tree import FileSources
from kpfs.linux.running.machine import STOP, LinuxMachine, Op, Result
from kpfs.linux.store import image
from kpfs.linux.store.kept import KeptFile

FILE = "mounted"  # its name in the folder of a kernel
_IFREQ = struct.Struct("<16sh22x")
_IFF_UP, _SIOCSIFFLAGS = 1, 0x8914
_RANDOMIZE = b"/proc/sys/kernel/randomize_va_space\0"
MAX_SECONDS = 120  # longest start: a kernel may never come up


class PreparedKernel(NamedTuple):
    """A running kernel, ready to fork commands from."""

    loop: Loop
    files: HostFiles
    worker: Worker
    stops: CallStops
    folder: str  # its image's
    package: PackageFiles
    oopses: Oopses


class KeptPages(NamedTuple):
    """The contents of the file."""

    facts: dict[str, Any]  # board, tasks, and the numbers of the pages that follow
    pages: memoryview  # pages of RAM, then of the region


def start(
    folder: str,
    *,
    quiet: bool,
    root: str = "/",
    wanted: Callable[[], bool] = lambda: True,
) -> PreparedKernel:
    """Return a kernel with the host's files below a root.

    wanted: returns False when nobody waits for it any more.  Raises UnfitError, also
    then and when it does not come up, EmulatorError, CallError.
    """
    meta = image.read_meta(folder)
    go_on = _patience(meta.release, wanted)
    kept: KeptPages | None = None
    if os.access(pagemap.PATH, os.R_OK):
        kept = read(folder, meta) or make(folder, meta, go_on)
    with image.open_ram(folder, meta) as saved:
        if kept:
            meta = image.with_board_fields(meta, kept.facts["board"])
        board = image.load(saved, meta)
    if kept:
        _put(kept, board)
    counts = kept.facts["counts"] if kept else runnable.find(folder, board)
    taints = kept.facts["taints"] if kept else oops.find(folder, board)
    loop = Loop(LinuxMachine(board, quiet=quiet), counts)
    loop.on_turn = go_on
    served = FileSources(HostFiles(root=root), PackageFiles(folder, meta.release))
    places = (
        [LinePlaces(*row) for row in kept.facts["lines"]]
        if kept
        else find(folder, board)
    )
    stops = loop.machine.stops
    KnownLines(board, stops, folder, places)
    if kept:
        loop.machine.adopt()
        served.host.adopt(kept.facts["host"])
        served.package.adopt(kept.facts["package"])
        built = tree.adopt(loop, served, kept.facts["tree"])
    else:
        built = _build(loop, served, folder)
    loop.on_turn = lambda: None
    oopses = Oopses(board, folder, taints)
    return PreparedKernel(
        loop, served.host, built.worker, stops, folder, served.package, oopses
    )


def _patience(release: str, wanted: Callable[[], bool]) -> Callable[[], None]:
    """Return a function that ends a start, by UnfitError, that is to go no further."""
    ends = monotonic() + MAX_SECONDS

    def go_on() -> None:
        if not wanted():
            raise UnfitError("nobody waits for it any more")
        if monotonic() > ends:
            raise UnfitError(f"{release} does not come up within {MAX_SECONDS} s")

    return go_on


def make(
    folder: str, meta: image.Meta, go_on: Callable[[], None] = lambda: None
) -> KeptPages:
    """Mount everything, and keep the result if the folder is writable.

    Raises UnfitError, EmulatorError, CallError.
    """
    file = KeptFile(folder, FILE, meta)
    with (
        image.open_ram(folder, meta) as saved,
        closing(image.load(saved, meta)) as board,
    ):
        counts = runnable.find(folder, board)
        loop = Loop(LinuxMachine(board, quiet=True), counts)
        loop.on_turn = go_on
        served = FileSources(EmptyFiles(), PackageFiles(folder, meta.release))
        built = _build(loop, served, folder)
        loop.settle()
        kept = _changes(board, saved.fileno())
        kept.facts.update(
            lines=find(folder, board),
            counts=counts,
            taints=oops.find(folder, board),
            board=image.board_fields(board),
            tree=built.packed(),
            host=served.host.packed(),
            package=served.package.packed(),
        )
    facts = json.dumps(kept.facts, sort_keys=True).encode()
    file.keep([facts, kept.pages])
    return kept


def _build(loop: Loop, served: FileSources, folder: str) -> tree.MountedTree:
    """Set up the loopback interface and the places of programs; mount the files."""
    agent, up = loop.agent, _IFREQ.pack(b"lo", _IFF_UP)
    (fd,) = agent.attempt(Op(nr.SOCKET, (socket.AF_INET, socket.SOCK_DGRAM, 0)))
    if fd >= 0:
        agent.call(Op(nr.IOCTL, (fd, _SIOCSIFFLAGS, up)), Op(nr.CLOSE, (fd,)))
    # code is translated for an address: elsewhere, each process would need it anew
    agent.attempt(
        Op(nr.OPEN, (_RANDOMIZE, os.O_WRONLY), STOP),
        Op(nr.WRITE, (Result(0), b"0", 1)),
        Op(nr.CLOSE, (Result(0),)),
    )
    return tree.build(loop, served, folder)


# ---- pages
def _changes(board: Board, saved: int) -> KeptPages:
    """Return the pages in which a board differs from the image that it started with."""
    facts: dict[str, Any] = {}
    pages, empty = [], bytes(PAGE_SIZE)
    for name, memory in (("ram", board.ram), ("region", board.region)):
        facts[name] = []
        for number, page in written_pages(memory):
            in_ram = memory is board.ram
            old = os.pread(saved, PAGE_SIZE, number * PAGE_SIZE) if in_ram else empty
            if page != old:
                facts[name].append(number)
                pages.append(page)
    return KeptPages(facts, memoryview(b"".join(pages)))


def _put(kept: KeptPages, board: Board) -> None:
    at, pages = 0, kept.pages
    for memory, name in ((board.ram, "ram"), (board.region, "region")):
        for number in kept.facts[name]:
            start = number * PAGE_SIZE
            memory[start : start + PAGE_SIZE] = pages[at : at + PAGE_SIZE]
            at += PAGE_SIZE


def read(folder: str, meta: image.Meta) -> KeptPages | None:
    """Return what is kept for an image, None if it is of another version of kpfs."""
    pieces = KeptFile(folder, FILE, meta).read()
    if pieces is None:
        return None
    facts, pages = pieces
    return KeptPages(json.loads(bytes(facts)), memoryview(pages))
