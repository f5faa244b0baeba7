# SPDX-License-Identifier: GPL-2.0-or-later
"""Names of a kernel's symbols and events, for completions: no kernel is started."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

from kpfs.base.errors import SetupError
from kpfs.guest.images import IMAGE_DIR, KERNEL_IMAGE, LEGACY
from kpfs.manual.lacks import absent_events

_CALL = "__x64_sys_"
_EVENT = "event_"
_GROUPS = {"sched": "sched", "sys": "raw_syscalls"}  # by the events' first word


def symbols(kernel: str, prefix: str) -> list[str]:
    """Return the symbols with a prefix.  kernel: "" is the guest kernel.

    There are none of a kernel that was not made, and none without a prefix: a Linux
    kernel has 150,000.
    """
    if not prefix:
        return []
    if not kernel:
        return [name for name in _of_guest() if name.startswith(prefix)]
    from kpfs.linux.memory.symbols import CoreSymbols
    from kpfs.linux.store import image, store

    with contextlib.suppress(SetupError, OSError):
        found = CoreSymbols(os.path.join(store.folder(kernel), image.SYMBOLS))
        return sorted({name for _, name in found.beginning_with(prefix)})
    return []


def events(kernel: str, prefix: str) -> list[str]:
    """Return static events, GROUP:EVENT, with a prefix, and the groups as GROUP:."""
    found = set(_events_of_guest())
    if kernel:  # this may name a few that it has not
        found.update(absent_events())
    found.update([f"{name.partition(':')[0]}:" for name in found])
    return sorted(name for name in found if name.startswith(prefix))


def _of_guest() -> Iterable[str]:
    from kpfs.base.elf import ElfFile

    with open(os.path.join(IMAGE_DIR, KERNEL_IMAGE), "rb") as file:
        names = {symbol.name for symbol in ElfFile(file.read()).symbols()}
    return sorted(filter(str.isidentifier, names.difference(LEGACY)))


def _events_of_guest() -> Iterable[str]:
    for name in _of_guest():
        if name.startswith(_CALL):
            call = name.removeprefix(_CALL)
            yield from (f"syscalls:sys_enter_{call}", f"syscalls:sys_exit_{call}")
        elif name.startswith(_EVENT):
            event = name.removeprefix(_EVENT)
            if group := _GROUPS.get(event.partition("_")[0]):
                yield f"{group}:{event}"
