# SPDX-License-Identifier: GPL-2.0-or-later
"""The command of a search, and what its runs depend on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kpfs.base.errors import KernelError, SetupError
from kpfs.emulator.libunicorn import EmulatorError
from kpfs.linux.errors import UnfitError
from kpfs.linux.inside.loop import CallError
from kpfs.linux.running import chosen
from kpfs.linux.search import seed as seeds
from kpfs.linux.store import image

if TYPE_CHECKING:
    from kpfs.linux.inside.request import RunRequest
    from kpfs.linux.search.seed import Seed


class SearchTask(NamedTuple):
    """A command that is searched."""

    kernel: str
    argv: tuple[str, ...]
    root: str = "/"
    of: tuple[str, ...] = ()


def seed_of(task: SearchTask, request: RunRequest) -> Seed:
    """Return a seed without a run, of everything that is known before one."""
    meta = image.read_meta(chosen.folder(task.kernel))
    return seeds.without_run(task.kernel, meta.digest, request)._replace(of=task.of)


@contextlib.contextmanager
def told_of_kernel() -> Iterator[None]:
    """Make errors of a kernel lines for the user."""
    try:
        yield
    except (UnfitError, EmulatorError, CallError, KernelError) as error:
        raise SetupError(str(error)) from None
