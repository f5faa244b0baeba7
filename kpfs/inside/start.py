# SPDX-License-Identifier: GPL-2.0-or-later
"""Starts the process of a command that runs inside a kernel."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kpfs.base.errors import SetupError
from kpfs.base.programs import shell
from kpfs.base.signals import fork
from kpfs.config import CheckChoice, CoverageChoice, GdbChoice, KernelChoice
from kpfs.host import process
from kpfs.inside import warm
from kpfs.inside.client import Client, LostError, request_of
from kpfs.linux.inside.inherited import further
from kpfs.linux.inside.request import PATIENCE, RunRequest
from kpfs.linux.store.store import JOIN

if TYPE_CHECKING:
    from kpfs.inside.files import InsideFile
    from kpfs.linux.search.seed import Seed


class FilesWatcher(Protocol):
    """Something that looks at the files of a command's kernel while it runs."""

    def prepare(self, tree: InsideFile) -> None:
        """Begin to look, in another process."""

    def end(self) -> None:
        """Stop that process: the command has ended."""


class Ended(NamedTuple):
    """How a command has ended."""

    status: int
    reasons: list[str]  # what the kernel says of a failure, the best one first
    lost: list[str]  # what it has lost, each with its cause


def run(
    choice: KernelChoice,
    argv: list[str],
    writable: list[str],
    memory: int = 0,
    gdb: GdbChoice | None = None,
    coverage: CoverageChoice | None = None,
    timeout: float = 0.0,
    checks: CheckChoice | None = None,
    seed: Seed | None = None,
    watcher: FilesWatcher | None = None,
) -> int:
    """Run a command inside a kernel, and return its status.

    memory: MiB that the kernel must have. gdb: who may attach. timeout: s that the
    command has, 0: as many as it wants. checks: what errors are looked for. seed: of
    the run of a search that is to be seen again. watcher: of the kernel's files.
    Raises SetupError.
    """
    request = request_of(argv or [shell(choice.root)], writable, timeout)
    if seed is not None:
        return _replay(choice, request, seed, gdb)
    request = request._replace(further=further())
    watched = gdb, coverage, checks
    return run_request(choice, request, memory, *watched, watcher=watcher).status


def _replay(
    choice: KernelChoice, request: RunRequest, seed: Seed, gdb: GdbChoice | None
) -> int:
    """Make the run of a seed again, and return its status.  Raises SetupError."""
    from kpfs.linux.running import chosen
    from kpfs.linux.search import seed as seeds
    from kpfs.linux.store import image

    digest = image.read_meta(chosen.folder(choice.kernel)).digest
    request = seeds.replayed(request, seed)
    now = seeds.without_run(choice.kernel, digest, request)
    if changes := seeds.changes(seed, now):
        raise SetupError(f"the seed would show another run: {'; '.join(changes)}")
    choice = choice._replace(quiet=True)
    return run_request(choice, request, gdb=gdb, seed=seed).status


def run_request(
    choice: KernelChoice,
    request: RunRequest,
    memory: int = 0,
    gdb: GdbChoice | None = None,
    coverage: CoverageChoice | None = None,
    checks: CheckChoice | None = None,
    seed: Seed | None = None,
    *,
    tells: bool = True,
    watcher: FilesWatcher | None = None,
) -> Ended:
    """Run what a request describes; arguments are those of run().

    tells: print what the kernel says of a failure, and what it has lost.
    """
    if memory:
        check_memory(choice.kernel, memory)
    if JOIN in choice.kernel:
        from kpfs.linux.running import chosen

        chosen.folder(choice.kernel)  # says how to make it
        kernel = chosen.kernel(choice.kernel)
        choice = choice._replace(kernel=kernel.image)
        request = request._replace(sysctls=(*kernel.sysctls, *request.sysctls))
    is_plain = not (gdb or coverage or checks or seed or watcher)
    connection = warm.connect(choice) if is_plain else None
    if connection is not None:
        with connection, contextlib.suppress(LostError, ConnectionError, TimeoutError):
            warm.ask(connection, request)
            client = Client(connection, PATIENCE, tells=tells)
            return Ended(client.run(), client.reasons, client.lost)
        warm.forget(choice)
    try:
        watched = gdb, coverage, checks, seed, watcher
        return _run_cold(choice, request, *watched, tells=tells)
    finally:
        if gdb is not None:
            from kpfs.gdb.sockets import forget_dead

            forget_dead(gdb.folder, gdb.at)


def real_root(folder: str) -> str:
    """Return the absolute real path of a root of files; SetupError if it is none."""
    path = os.path.realpath(folder or "/")
    if not os.path.isdir(path):
        raise SetupError(f"--root {folder}: not a directory")
    return path


def check_memory(kernel: str, memory: int) -> None:
    """Raise SetupError if a kernel has less memory. An image cannot grow."""
    from kpfs.linux.running import chosen
    from kpfs.linux.store import image

    made = image.read_meta(chosen.folder(kernel)).memory >> 20
    if made < memory:
        raise SetupError(
            f"{kernel} was made with {made} MiB of memory; for {memory} make it again: "
            f"kpfs kernel make {kernel} --memory {memory}"
        )


def _run_cold(
    choice: KernelChoice,
    request: RunRequest,
    gdb: GdbChoice | None,
    coverage: CoverageChoice | None,
    checks: CheckChoice | None,
    seed: Seed | None,
    watcher: FilesWatcher | None,
    *,
    tells: bool,
) -> Ended:
    """Run a command in a kernel that is started for it."""
    from kpfs.inside.machine import run_for

    warm.check_host(choice)
    ours, theirs = socket.socketpair()
    files = socket.socketpair() if watcher is not None else None
    parent = os.getpid()
    pid = fork()
    if pid == 0:
        try:
            process.die_with_parent(parent)
            ours.close()
            if files is not None:
                files[0].close()
            served = files[1] if files is not None else None
            run_for(theirs, choice, request, gdb, coverage, checks, seed, served)
        finally:
            os._exit(1)
    theirs.close()
    if files is not None and watcher is not None:
        from kpfs.inside.files import InsideChannel, InsideFile

        files[1].close()
        watcher.prepare(InsideFile(InsideChannel(files[0], pid)))
        files[0].close()
    client = Client(ours, tells=tells)
    try:
        return Ended(client.run(), client.reasons, client.lost)
    except LostError:
        raise SetupError("the process that runs the kernel died") from None
    finally:
        ours.close()
        if watcher is not None:
            watcher.end()
        if client.is_written:
            os.kill(pid, signal.SIGKILL)  # it has nothing to save
            os.waitpid(pid, 0)
