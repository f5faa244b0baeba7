# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the records of a Linux kernel's trace array without consuming them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from kpfs.backends import raw
from kpfs.base.errors import KernelError, MemoryFault
from kpfs.linux.memory.memory import looking
from kpfs.linux.memory.rings import TRACING, Rings
from kpfs.linux.memory.trace_files import TraceFile
from kpfs.linux.running.linux_kernel import LinuxKernel
from kpfs.linux.running.tasks import AgentTask
from kpfs.session.records import Record


def records(kernel: LinuxKernel, instance: str = "") -> list[Record]:
    """Return the records that the array has now, oldest first.

    ENOENT: there is no such instance.  EOPNOTSUPP: the kernel has no BTF.
    Context: the kernel's lock is held.
    """
    model = kernel.arch.model
    with looking():
        rings = Rings(kernel.memory, kernel.symbols, kernel.structures)
        found = [
            (ts, cpu, data)
            for cpu, pages in rings.pages(instance).items()
            for page in pages
            for ts, data in raw.page_entries(page.data, model, page.read)
        ]
        head = model.struct(raw.HEAD)
        numbers = frozenset(head.unpack_from(data)[0] for _, _, data in found)
        events = rings.events(numbers)
    formats = {}
    for number, (group, name) in events.items():
        with contextlib.suppress(KernelError, ValueError):
            path = f"{TRACING}/events/{group}/{name}/format"
            formats[number] = raw.parse_format(
                group, kernel.tasks.read_file(path).decode()
            )
    if not found:
        return []
    comms = kernel.tasks.read_file(f"{TRACING}/saved_cmdlines").decode("latin-1")
    return raw.records(found, formats, raw.parse_cmdlines(comms), model)


def more_of(kernel: LinuxKernel, task: AgentTask, fd: int) -> Callable[[bytes], bool]:
    """Return a function that says whether records of now follow a piece of a trace.

    If a probe is on the way of reading, each read adds records and the file never ends;
    the caller stops at the newest record that there is when this is called.
    Context: the kernel's lock is held.
    """
    try:
        file = TraceFile(kernel.memory, kernel.symbols, kernel.structures)
        iterator, is_raw = file.iterator(task.pid, fd)
        newest = file.newest(iterator)
    except (KernelError, MemoryFault):
        return lambda _: True

    def has_more(piece: bytes) -> bool:
        reached = (
            kernel.arch.model.number(piece[:8]) if is_raw else file.reached(iterator)
        )
        return bool(0 < reached <= newest)

    return has_more
