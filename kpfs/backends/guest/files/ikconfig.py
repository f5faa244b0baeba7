# SPDX-License-Identifier: GPL-2.0-or-later
"""config.gz: how the emulated kernel is configured, in the form of /proc/config.gz."""

from __future__ import annotations

import os
import re

import kpfs.guest
from kpfs.backends.guest.files.guest_file import GuestFile
from kpfs.backends.guest.files.proc import UTS_RELEASE, uts_name
from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.config import Config
from kpfs.fs.seqfile import ValueFile

# the usual configuration, which the guest kernel and its modules are compiled with
AUTOCONF = "include/generated/autoconf.h"
SETTING = r"(?m)^#define CONFIG_(\w+) (\w+|\".*\")"
# set with an option of --config, or without it
FOLLOWS = {
    "PREEMPT": ("PREEMPTION", "PREEMPT_COUNT", "PREEMPT_RCU", "TASKS_RCU"),
    "KPROBES_ON_FTRACE": (
        "FUNCTION_TRACER",
        "DYNAMIC_FTRACE",
        "DYNAMIC_FTRACE_WITH_REGS",
        "FUNCTION_PROFILER",
    ),
    "KPROBE_EVENTS": ("PROBE_EVENTS",),
}
INSTEAD = {"PREEMPT": ("PREEMPT_NONE",)}
NEEDS = {"MODULE_UNLOAD": "MODULES"}
OPTIONS = (
    "PREEMPT", "KALLSYMS_ALL", "MODULES", "MODULE_UNLOAD", "DEBUG_INFO", "OPTPROBES",
    "KPROBES_ON_FTRACE", "KPROBE_EVENTS",
)  # fmt: skip
NEVER = (
    "KPROBE_EVENTS_ON_NOTRACE", "UPROBES", "UPROBE_EVENTS", "PERF_EVENTS",
    "BPF_SYSCALL", "HIST_TRIGGERS", "FUNCTION_GRAPH_TRACER", "STACK_TRACER",
    "LIVEPATCH", "MODULE_SIG", "MODVERSIONS", "X86_KERNEL_IBT", "RANDOMIZE_BASE",
)  # fmt: skip


def usual() -> dict[str, str]:
    """Return the options that are set without --config, as .config has their values."""
    path = os.path.join(os.path.dirname(kpfs.guest.__file__), AUTOCONF)
    with open(path, encoding="ascii") as header:
        found = re.findall(SETTING, header.read())
    return {name: "y" if value == "1" else value for name, value in found}


def configured(config: Config) -> dict[str, str]:
    """Return all options with their values, "" for one that is not set."""
    rows = dict.fromkeys(NEVER, "") | usual()
    for name in OPTIONS:
        value = config.on(name) and config.on(NEEDS.get(name, name))
        rows[name] = "y" if value else ""
        rows |= dict.fromkeys(FOLLOWS.get(name, ()), "y" if value else "")
        rows |= dict.fromkeys(INSTEAD.get(name, ()), "" if value else "y")
    return rows


class Ikconfig(GuestFile, ValueFile):
    """The configuration, compressed.  Kernel: ikconfig_read_current()"""

    blksize = 1024

    def __init__(self, kernel: GuestKernel) -> None:
        super().__init__(kernel)
        self.packed = b""

    def show(self) -> bytes:
        import gzip

        self.packed = self.packed or gzip.compress(self.text().encode(), mtime=0)
        return self.packed

    def text(self) -> str:
        """Return the lines of a .config."""
        release = uts_name(self.kernel, UTS_RELEASE).decode()
        lines = [
            "#",
            "# Automatically generated file; DO NOT EDIT.",
            f"# Linux/x86 {release} Kernel Configuration",
            "#",
        ]
        for name, value in sorted(configured(self.kernel.config).items()):
            option = f"CONFIG_{name}"
            lines.append(f"{option}={value}" if value else f"# {option} is not set")
        return "\n".join(lines) + "\n"
