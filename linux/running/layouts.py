# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds the layouts of a kernel that has no BTF by trying it out.

A function whose arguments are the same in all versions tells where a structure is.
What the kernel says of it in its files, such as a task's state, or what was put into
it, such as a task's name, tells which of its numbers is which field.  No instruction is
read, so this goes for all architectures and compilers alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from kpfs.base.errors import KernelError
from kpfs.linux.memory.memory import looking
from kpfs.linux.memory.structures import Tables, no_tables
from kpfs.linux.memory.symbols import CoreSymbols
from kpfs.linux.running.call_layouts import find_calls
from kpfs.linux.running.data_layouts import (
    find_ftrace_switch,
    find_lockdown,
    find_probes_switch,
    find_programs,
    find_slots,
)
from kpfs.linux.running.module_layouts import find_modules
from kpfs.linux.running.probe_layouts import (
    find_jumps,
    find_probes,
    find_return_probes,
)
from kpfs.linux.running.ring_layouts import find_rings
from kpfs.linux.running.task_layouts import find_tasks
from kpfs.linux.running.trial import UnseenError, trial_of
from kpfs.linux.store.image import Meta

_FINDERS = (
    *(find_tasks, find_probes, find_return_probes, find_jumps, find_rings),
    *(find_modules, find_calls, find_ftrace_switch, find_probes_switch),
    *(find_lockdown, find_slots, find_programs),
)


@contextmanager
def _until_unseen() -> Iterator[None]:
    """Look for layouts; readers say what was not found."""
    with suppress(UnseenError, KernelError), looking():
        yield


def find_layouts(
    folder: str, ram: IO[bytes], meta: Meta, symbols: CoreSymbols
) -> Tables:
    """Return what a kernel shows of its layouts.  Raises UnfitError."""
    found = no_tables()
    for find in _FINDERS:
        with trial_of(folder, ram, meta, symbols) as trial, _until_unseen():
            find(trial, found)
    return found
