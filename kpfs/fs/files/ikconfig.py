# SPDX-License-Identifier: GPL-2.0-or-later
"""config.gz: how the emulated kernel is configured, in the form of /proc/config.gz."""

from __future__ import annotations

from kpfs.base import abi
from kpfs.fs.files.proc import UTS_RELEASE, uts_name
from kpfs.fs.seqfile import ValueFile
from kpfs.root.guest_kernel import GuestKernel

# set in every configuration; guest/include/linux/kconfig.h is for C
ALWAYS = (
    "X86", "X86_64", "64BIT", "SMP", "HZ_250", "PRINTK", "BUG", "NET", "INET",
    "PROC_FS", "SYSCTL", "DEBUG_FS", "IKCONFIG", "IKCONFIG_PROC", "KALLSYMS",
    "STACKTRACE", "JUMP_LABEL", "KPROBES", "KRETPROBES", "KRETPROBE_ON_RETHOOK",
    "RETHOOK", "HAVE_FUNCTION_ARG_ACCESS_API", "ARCH_CORRECT_STACKTRACE_ON_KRETPROBE",
    "KUNIT", "TRACING", "FTRACE", "EVENT_TRACING", "RING_BUFFER", "TRACEPOINTS",
    "FTRACE_SYSCALLS", "TRACER_SNAPSHOT", "DYNAMIC_EVENTS", "SYNTH_EVENTS",
)  # fmt: skip
# set with an option of --config
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


class Ikconfig(ValueFile):
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
        on = self.kernel.config.on
        rows = dict.fromkeys(ALWAYS, True) | dict.fromkeys(NEVER, False)
        for name in OPTIONS:
            value = on(name) and on(NEEDS.get(name, name))
            rows[name] = value
            rows |= dict.fromkeys(FOLLOWS.get(name, ()), value)
            rows |= dict.fromkeys(INSTEAD.get(name, ()), not value)
        release = uts_name(self.kernel, UTS_RELEASE).decode()
        _, dash, local = release.partition("-")
        lines = [
            "#",
            "# Automatically generated file; DO NOT EDIT.",
            f"# Linux/x86 {release} Kernel Configuration",
            "#",
            f'CONFIG_LOCALVERSION="{dash}{local}"',
            f"CONFIG_NR_CPUS={abi.NR_CPUS}",
            "CONFIG_HZ=250",
        ]
        for name, value in sorted(rows.items()):
            lines.append(f"CONFIG_{name}=y" if value else f"# CONFIG_{name} is not set")
        return "\n".join(lines) + "\n"
