# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of the mount: path, mode and class of each file, and where Linux has it."""

from __future__ import annotations

import stat
from collections.abc import Callable

from kpfs.fs.files import (
    buffers,
    dynevents,
    events,
    instances,
    kprobes,
    machine,
    proc,
    readme,
    sysctl,
    tracers,
)
from kpfs.fs.files import (
    insmod as modules,
)
from kpfs.fs.files import (
    mount_table as mounts,
)
from kpfs.fs.node import Dir, Node, ProcSysDir, remove_absent
from kpfs.kernel.root import Kernel

Maker = Callable[[Kernel], Node]


def _dir(_kernel: Kernel) -> Node:
    return Dir()


def _proc_sys(_kernel: Kernel) -> Node:
    return ProcSysDir()


# A directory stands before what is in it; the mode of a DynDir's entries is its own.
TABLE: tuple[tuple[str, int, Maker], ...] = (
    ("kprobes", stat.S_IFDIR | 0o755, _dir),
    ("kprobes/list", 0o400, kprobes.List),
    ("kprobes/enabled", 0o600, kprobes.Enabled),
    ("kprobes/blacklist", 0o400, kprobes.Blacklist),
    ("sys", stat.S_IFDIR | 0o555, _proc_sys),
    ("sys/debug", stat.S_IFDIR | 0o555, _proc_sys),
    ("sys/debug/kprobes-optimization", 0o644, sysctl.KprobesOptimization),
    ("sys/debug/kprobes_optimization", 0o644, sysctl.DocumentedOptimization),
    ("sys/kernel", stat.S_IFDIR | 0o555, _proc_sys),
    ("sys/kernel/ftrace_enabled", 0o644, sysctl.FtraceEnabled),
    ("tracing", stat.S_IFDIR | 0o700, _dir),
    ("tracing/kprobe_events", 0o640, dynevents.KprobeEvents),
    ("tracing/kprobe_profile", 0o440, dynevents.KprobeProfile),
    ("tracing/synthetic_events", 0o640, dynevents.SyntheticEvents),
    ("tracing/dynamic_events", 0o640, dynevents.DynamicEvents),
    *((f"tracing/{path}", mode, make) for path, mode, make in instances.ARRAY_FILES),
    ("tracing/README", 0o440, readme.Readme),
    ("tracing/available_filter_functions", 0o440, tracers.AvailableFunctions),
    ("tracing/stack_trace_filter", 0o640, tracers.StackTraceFilter),
    ("tracing/saved_cmdlines", 0o440, tracers.SavedCmdlines),
    ("tracing/saved_cmdlines_size", 0o640, tracers.SavedCmdlinesSize),
    ("tracing/printk_formats", 0o440, tracers.PrintkFormats),
    ("tracing/available_events", 0o440, events.AvailableEvents),
    ("tracing/events/header_page", 0o440, buffers.HeaderPage),
    ("tracing/events/header_event", 0o440, buffers.HeaderEvent),
    ("tracing/function_profile_enabled", 0o640, tracers.FunctionProfileEnabled),
    ("tracing/trace_stat", stat.S_IFDIR | 0o750, tracers.TraceStatDir),
    ("tracing/instances", stat.S_IFDIR | 0o750, instances.InstancesDir),
    ("kallsyms", 0o444, proc.Kallsyms),
    ("version", 0o444, proc.Version),
    ("modules", 0o444, modules.Modules),
    ("kmsg", 0o644, proc.Kmsg),
    ("machine", stat.S_IFDIR | 0o755, _dir),
    ("machine/syscall", 0o200, machine.Syscall),
    ("machine/insmod", 0o200, modules.Insmod),
    ("machine/rmmod", 0o200, modules.Rmmod),
    ("machine/mounts", 0o444, mounts.Mounts),
    ("machine/text", stat.S_IFDIR | 0o755, machine.TextDir),
    ("machine/stats", 0o444, machine.Stats),
)

# Where the guest's open() finds what is below a directory of the mount.
LINUX_PATHS = {
    "kprobes": "/sys/kernel/debug/kprobes",
    "sys": "/proc/sys",
    "tracing": "/sys/kernel/tracing",
    "kallsyms": "/proc/kallsyms",
    "version": "/sys/kernel/debug/kpfs/version",  # /proc/version is the guest's own
    "modules": "/proc/modules",
    "kmsg": "/proc/kmsg",  # the guest has no /dev
    "machine": "/sys/kernel/debug/kpfs/machine",
}


def build(kernel: Kernel) -> Dir:
    """The root directory of a new mount."""
    root = Dir()
    root.mode = stat.S_IFDIR | 0o755
    dirs: dict[str, Dir] = {"": root}
    for path, mode, make in TABLE:
        node = make(kernel)
        node.mode = mode if stat.S_IFMT(mode) else stat.S_IFREG | mode
        parent, _, name = path.rpartition("/")
        dirs[parent].children[name] = node
        if isinstance(node, Dir):
            dirs[path] = node
    remove_absent(root, "", kernel.config.absent())
    return root


def linux_path(path: str) -> str:
    """The path on Linux of an absolute path in the mount."""
    top, slash, rest = path.lstrip("/").partition("/")
    return LINUX_PATHS.get(top, "/" + top) + slash + rest


def mount_path(path: str) -> str:
    """The inverse of linux_path(); a path that is none of these is not there."""
    for top, linux in LINUX_PATHS.items():
        if path == linux or path.startswith(linux + "/"):
            return f"/{top}{path[len(linux) :]}"
    return f"/{path}"
