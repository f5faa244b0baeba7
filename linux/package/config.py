# SPDX-License-Identifier: GPL-2.0-or-later
"""The configuration that a kernel was built with."""

from __future__ import annotations

import re

from kpfs.linux.errors import UnfitError

_NEEDED = ("KPROBES", "KPROBE_EVENTS", "FTRACE", "DEBUG_FS", "DEVMEM", "DEVTMPFS")


def check_config(config: str) -> None:
    """Raise UnfitError if a kernel was built without what kpfs needs."""
    if not config:
        return
    off = [name for name in _NEEDED if f"CONFIG_{name}=y\n" not in config]
    if off:
        raise UnfitError(f"this kernel was built without {', '.join(off)}")


def options(config: str) -> dict[str, str]:
    """Return the options of a configuration that matter here; "n" is off."""
    found = dict(re.findall(r"^CONFIG_(\w+)=(.*)$", config, re.M))
    return {name: found.get(name, "n") for name in SHOWN}


SHOWN = (
    "KPROBES", "OPTPROBES", "KPROBES_ON_FTRACE", "KPROBE_EVENTS", "UPROBE_EVENTS",
    "FUNCTION_TRACER", "FUNCTION_GRAPH_TRACER", "FPROBE", "HIST_TRIGGERS",
    "SYNTH_EVENTS", "BPF_SYSCALL", "DEBUG_INFO_BTF", "PREEMPT", "PREEMPT_RT", "HZ",
    "KALLSYMS_ALL", "KPROBES_SANITY_TEST",
)  # fmt: skip
