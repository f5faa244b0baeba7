# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of the mount: path, mode and class of each file."""

from __future__ import annotations

import stat

from kpfs.backends.guest.files import (
    buffers,
    debugfs,
    dynevents,
    events,
    ikconfig,
    instances,
    kprobes,
    proc,
    readme,
    sysctl,
    sysfs_module,
    tracers,
)
from kpfs.backends.guest.files.guest_file import Row, populate_configured
from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.fs.machine import MachineInfo, machine_dir
from kpfs.fs.node import Dir, Node, ProcSysDir


def _dir(_kernel: GuestKernel) -> Node:
    return Dir()


def _proc_sys(_kernel: GuestKernel) -> Node:
    return ProcSysDir()


TABLE: tuple[Row, ...] = (
    ("kprobes", stat.S_IFDIR | 0o755, _dir),
    ("kprobes/list", 0o400, kprobes.List),
    ("kprobes/enabled", 0o600, kprobes.Enabled),
    ("kprobes/blacklist", 0o400, kprobes.Blacklist),
    ("debug", stat.S_IFDIR | 0o700, debugfs.DebugfsDir),
    ("sys", stat.S_IFDIR | 0o555, _proc_sys),
    ("sys/debug", stat.S_IFDIR | 0o555, _proc_sys),
    ("sys/debug/kprobes-optimization", 0o644, sysctl.KprobesOptimization),
    ("sys/debug/kprobes_optimization", 0o644, sysctl.DocumentedOptimization),
    ("sys/kernel", stat.S_IFDIR | 0o555, _proc_sys),
    ("sys/kernel/osrelease", 0o444, sysctl.Osrelease),
    ("sys/kernel/version", 0o444, sysctl.Osversion),
    ("sys/kernel/ftrace_enabled", 0o644, sysctl.FtraceEnabled),
    ("sys/kernel/kptr_restrict", 0o644, sysctl.KptrRestrict),
    ("sys/kernel/printk", 0o644, sysctl.Printk),
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
    ("kallsyms", 0o444, proc.KallsymsFile),
    ("version", 0o444, proc.Version),
    ("cmdline", 0o444, proc.Cmdline),
    ("config.gz", 0o444, ikconfig.Ikconfig),
    ("module", stat.S_IFDIR | 0o755, sysfs_module.ModulesDir),
    ("modules", 0o444, proc.ModulesFile),
    ("kmsg", 0o644, proc.Kmsg),
    ("messages", 0o640, proc.Messages),
)


def build(kernel: GuestKernel, info: MachineInfo) -> Dir:
    """Return the root directory of a new mount."""
    root = Dir(stat.S_IFDIR | 0o755)
    populate_configured(root, TABLE, kernel)
    root.children["machine"] = machine_dir(info)
    return root
