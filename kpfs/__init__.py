# SPDX-License-Identifier: GPL-2.0-or-later
"""The Linux kernel's kprobes knobs, over a live emulated kernel, for Python.

    import kpfs

    with kpfs.Kernel() as k:
        k.write("tracing/kprobe_events", "p:e vfs_read")
        print(k.read("kprobes/list"))

Nothing is loaded before it is used: the command kpfs imports this package too.
"""

from importlib import import_module

TYPE_CHECKING = False  # that of typing, whose import takes time
if TYPE_CHECKING:
    from kpfs.api.commands import Finished, Mount, mount, run, run_inside
    from kpfs.api.files import Task
    from kpfs.api.kernel import Explanation, Kernel
    from kpfs.api.probes import Probe, Registers
    from kpfs.api.records import Record
    from kpfs.api.snapshot import Snapshot
    from kpfs.host.errors import SetupError

__all__ = [
    "Explanation",
    "Finished",
    "Kernel",
    "Mount",
    "Probe",
    "Record",
    "Registers",
    "SetupError",
    "Snapshot",
    "Task",
    "mount",
    "run",
    "run_inside",
]
_HOMES = {
    "Explanation": "api.kernel",
    "Finished": "api.commands",
    "Kernel": "api.kernel",
    "Mount": "api.commands",
    "Probe": "api.probes",
    "Record": "api.records",
    "Registers": "api.probes",
    "SetupError": "host.errors",
    "Snapshot": "api.snapshot",
    "Task": "api.files",
    "mount": "api.commands",
    "run": "api.commands",
    "run_inside": "api.commands",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"kpfs.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
