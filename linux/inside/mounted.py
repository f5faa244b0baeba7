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
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from kpfs.base import pagemap
from kpfs.base import syscall_numbers as nr
from kpfs.base.units import PAGE_SIZE
from kpfs.linux.board.board import Board, written_pages
from kpfs.linux.errors import UnfitError
from kpfs.linux.inside import oops, runnable, tree
from kpfs.linux.inside.hostfiles import EmptyFiles, HostFiles
from kpfs.linux.inside.lines import KnownLines, LinePlaces, find
from kpfs.linux.inside.loop import Loop, Worker
from kpfs.linux.inside.oops import Oopses
from kpfs.linux.inside.packagefiles import PackageFiles
from kpfs.linux.inside.tree import FileSources
from kpfs.linux.memory.memory import LiveMemory
from kpfs.linux.running.kernel_on_board import KernelOnBoard
from kpfs.linux.running.losses import Losses
from kpfs.linux.running.machine import STOP, LinuxMachine, Op, Result
from kpfs.linux.running.own import hide_own_tasks
from kpfs.linux.running.saved_kernel import SavedKernel
from kpfs.linux.store import image
from kpfs.linux.store.kept import KeptFile

if TYPE_CHECKING:
    from kpfs.linux.memory.modules import LoadedModule

FILE = "mounted"  # its name in the folder of a kernel
_IFREQ = "16sh22x"
_IFF_UP, _SIOCSIFFLAGS = 1, 0x8914
_RANDOMIZE = b"/proc/sys/kernel/randomize_va_space\0"
MAX_SECONDS = 120  # longest start: a kernel may never come up


class PreparedKernel(KernelOnBoard):
    """A running kernel, ready to fork commands from when start() returns it.

    Whoever debugs it takes the lock and keeps it.  No calls are left out.
    """

    worker: Worker
    oopses: Oopses
    losses: Losses

    def __init__(
        self, saved: SavedKernel, board: Board, host: HostFiles, *, quiet: bool
    ) -> None:
        super().__init__(saved)
        self.machine = LinuxMachine(board, quiet=quiet)
        self.machine.end_where(self.symbols.address)
        self.memory = LiveMemory(board)
        self.served = FileSources(host, PackageFiles(self.folder, self.meta.release))
        self._own: frozenset[int] = frozenset()  # modules for the host's files

    def begin(self, counts: Sequence[int], on_turn: Callable[[], None]) -> None:
        """Make its loop.  counts, on_turn: see Loop."""
        cpu_of_agent = partial(runnable.cpu_of_agent, self)
        self.loop = Loop(self.machine, counts, cpu_of_agent)
        self.loop.on_turn = on_turn

    def leave_out_modules(self) -> None:
        """Have modules() return those alone that are loaded from now on."""
        self._own = frozenset(module.address for module in super().modules())

    def modules(self) -> list[LoadedModule]:
        return [each for each in super().modules() if each.address not in self._own]


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
    saved = SavedKernel(folder)
    meta = saved.meta
    go_on = _patience(meta.release, wanted)
    kept: KeptPages | None = None
    if os.access(pagemap.PATH, os.R_OK):
        kept = read(folder, meta) or make(saved, go_on)
    if kept:
        meta = image.with_board_fields(meta, kept.facts["board"])
    board = image.load(saved.file, meta)
    if kept:
        _put(kept, board)
    kernel = PreparedKernel(saved, board, HostFiles(root=root), quiet=quiet)
    facts = kept.facts if kept else _found(kernel)
    kernel.begin(facts["counts"], go_on)
    KnownLines(kernel, [LinePlaces(*row) for row in facts["lines"]])
    if kept:
        kernel.machine.adopt()
        kernel.served.host.adopt(facts["host"])
        kernel.served.package.adopt(facts["package"])
        built = tree.adopt(kernel.loop, kernel.served, facts["tree"])
    else:
        built = _build(kernel)
    kernel.worker = built.worker
    kernel.loop.on_turn = lambda: None
    kernel.oopses = Oopses(kernel, facts["taints"])
    kernel.losses = Losses(kernel)
    kernel.losses.enter(board)
    hide_own_tasks(kernel, stand_for_processes=False)
    return kernel


def _found(kernel: PreparedKernel) -> dict[str, Any]:
    """Return what a start has to find in the kernel's memory."""
    counts, taints = runnable.find(kernel), oops.find(kernel)
    return {"counts": counts, "lines": find(kernel), "taints": taints}


def _patience(release: str, wanted: Callable[[], bool]) -> Callable[[], None]:
    """Return a function that ends a start, by UnfitError, that is to go no further."""
    ends = monotonic() + MAX_SECONDS

    def go_on() -> None:
        if not wanted():
            raise UnfitError("nobody waits for it any more")
        if monotonic() > ends:
            raise UnfitError(f"{release} does not come up within {MAX_SECONDS} s")

    return go_on


def make(saved: SavedKernel, go_on: Callable[[], None] = lambda: None) -> KeptPages:
    """Mount everything, and keep the result if the folder is writable.

    Raises UnfitError, EmulatorError, CallError.
    """
    file = KeptFile(saved.folder, FILE, saved.meta)
    with closing(image.load(saved.file, saved.meta)) as board:
        kernel = PreparedKernel(saved, board, EmptyFiles(), quiet=True)
        found = _found(kernel)
        kernel.begin(found["counts"], go_on)
        built = _build(kernel)
        kernel.loop.settle()
        kept = _changes(board, saved.file.fileno())
        kept.facts.update(
            found,
            board=image.board_fields(board),
            tree=built.packed(),
            host=kernel.served.host.packed(),
            package=kernel.served.package.packed(),
        )
    facts = json.dumps(kept.facts, sort_keys=True).encode()
    file.keep([facts, kept.pages])
    return kept


def _build(kernel: PreparedKernel) -> tree.MountedTree:
    """Set up the loopback interface and the places of programs; mount the files."""
    agent = kernel.loop.agent
    up = agent.model.struct(_IFREQ).pack(b"lo", _IFF_UP)
    (fd,) = agent.attempt(Op(nr.SOCKET, (socket.AF_INET, socket.SOCK_DGRAM, 0)))
    if fd >= 0:
        agent.call(Op(nr.IOCTL, (fd, _SIOCSIFFLAGS, up)), Op(nr.CLOSE, (fd,)))
    # code is translated for an address: elsewhere, each process would need it anew
    agent.attempt(
        Op(nr.OPEN, (_RANDOMIZE, os.O_WRONLY), STOP),
        Op(nr.WRITE, (Result(0), b"0", 1)),
        Op(nr.CLOSE, (Result(0),)),
    )
    return tree.build(kernel.loop, kernel.served, kernel.folder)


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
