# SPDX-License-Identifier: GPL-2.0-or-later
"""The Linux kernel's kprobes knobs, over a live emulated kernel, for Python.

    import kpfs

    with kpfs.Kernel() as k:
        k.write("tracing/kprobe_events", "p:e vfs_read")
        print(k.read("kprobes/list"))

Nothing is loaded before it is used: the command kpfs imports this package too.
"""

TYPE_CHECKING = False  # that of typing, whose import takes time
if TYPE_CHECKING:
    from kpfs.api.commands import (
        Finished,
        Found,
        Mount,
        mark,
        mount,
        run,
        run_inside,
        search,
    )
    from kpfs.api.kernel import Explanation, Kernel
    from kpfs.base.errors import SetupError
    from kpfs.session.files import Task
    from kpfs.session.probes import Probe, Registers
    from kpfs.session.records import Record
    from kpfs.session.session import Snapshot

__all__ = [
    "Explanation",
    "Finished",
    "Found",
    "Kernel",
    "Mount",
    "Probe",
    "Record",
    "Registers",
    "SetupError",
    "Snapshot",
    "Task",
    "mark",
    "mount",
    "run",
    "run_inside",
    "search",
]
_HOMES = {
    "api.commands": (
        *("Finished", "Found", "Mount", "mark", "mount", "run", "run_inside", "search"),
    ),
    "api.kernel": ("Explanation", "Kernel"),
    "base.errors": ("SetupError",),
    "session.files": ("Task",),
    "session.probes": ("Probe", "Registers"),
    "session.records": ("Record",),
    "session.session": ("Snapshot",),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            from kpfs.base.loading import load

            return getattr(load(f"kpfs.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
