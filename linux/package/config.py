# SPDX-License-Identifier: GPL-2.0-or-later
"""The configuration that a kernel was built with."""

from __future__ import annotations

import re

from kpfs.linux.errors import UnfitError

_NEEDED = (
    "KPROBES", "KPROBE_EVENTS", "FTRACE", "DEBUG_FS", "DEVMEM", "DEVTMPFS",
    "BINFMT_ELF", "BLK_DEV_INITRD", "KALLSYMS", "PROC_FS", "SYSFS",
)  # fmt: skip


def check_config(config: str) -> None:
    """Raise UnfitError if a kernel was built without what kpfs needs."""
    if not config:
        return
    off = [name for name in _NEEDED if not is_on(config, name)]
    if off:
        raise UnfitError(f"this kernel was built without {', '.join(off)}")


def is_on(config: str, name: str) -> bool:
    """Return True if an option is part of the kernel itself."""
    return f"CONFIG_{name}=y\n" in config


def options(config: str) -> dict[str, str]:
    """Return the options of a configuration that matter here; "n" is off."""
    found = dict(re.findall(r"^CONFIG_(\w+)=(.*)$", config, re.M))
    return {name: found.get(name, "n") for name in SHOWN}


def lacking(config: str) -> dict[str, str]:
    """Return the options that are off, with what does not work therefore."""
    return {
        name: SHOWN[name]
        for name, value in options(config).items()
        if value == "n" and SHOWN[name]
    }


# the options that matter, with what each is for if one may want to build it in
SHOWN = {
    "KPROBES": "",
    "OPTPROBES": "",
    "KPROBES_ON_FTRACE": "",
    "KPROBE_EVENTS": "",
    "UPROBE_EVENTS": "probes in programs",
    "DYNAMIC_FTRACE": "probes at the start of functions without a breakpoint",
    "FUNCTION_TRACER": "the tracer function, set_ftrace_filter",
    "FUNCTION_GRAPH_TRACER": "the tracer function_graph",
    "FTRACE_SYSCALLS": "events/syscalls",
    "FPROBE_EVENTS": "",
    "WPROBE_EVENTS": "",
    "PROBE_EVENTS_BTF_ARGS": "",
    "FPROBE": "probes on many functions at once, as BPF's kprobe.multi",
    "HIST_TRIGGERS": "histograms",
    "SYNTH_EVENTS": "synthetic events",
    "USER_EVENTS": "",
    "BPF_KPROBE_OVERRIDE": "",
    "FUNCTION_ERROR_INJECTION": "",
    "PERF_EVENTS": "perf_event_open(2)",
    "BPF_SYSCALL": "bpf(2)",
    "BPF_EVENTS": "BPF programs on probes and events",
    "BPF_JIT": "BPF programs of fentry and fexit",
    "DEBUG_INFO_BTF": "BPF programs that are built once for all kernels, handlers in "
    "Python, kpfs explain of modules",
    "FUSE_FS": "--inside",
    "OVERLAY_FS": "--inside",
    "MODULES": "modules",
    "PREEMPT": "",
    "PREEMPT_RT": "",
    "PREEMPT_DYNAMIC": "",
    "X86_KERNEL_IBT": "",
    "SECURITY_LOCKDOWN_LSM": "",
    "HZ": "",
    "KALLSYMS_ALL": "symbols of data, as in @jiffies",
    "KPROBES_SANITY_TEST": "",
}
