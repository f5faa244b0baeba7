# SPDX-License-Identifier: GPL-2.0-or-later
"""Arms and disarms one probe, or all (kprobes/enabled), in control context."""

from __future__ import annotations

from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KERN_INFO, KERN_WARNING
from kpfs.engine.kprobe import (
    Kprobe,
    KprobeFlag,
    kprobe_disabled,
    kprobe_ftrace,
    kprobe_queued,
)
from kpfs.engine.optimizer import (
    get_optimized_kprobe,
    optimize_kprobe,
    unoptimize_kprobe,
    wait_for_kprobe_optimizer,
)
from kpfs.engine.state import State


def arm_kprobe(st: State, p: Kprobe) -> None:
    """Put in a breakpoint or ftrace call.  Kernel: arm_kprobe()"""
    if kprobe_ftrace(p):
        st.arch.ftrace.arm(p)
        return
    # a jump that covers this address falls back to its breakpoint
    covering = get_optimized_kprobe(st, p.addr)
    if covering is not None:
        unoptimize_kprobe(st, covering, True)
    st.arch.arch_arm_kprobe(p)
    optimize_kprobe(st, p)


def disarm_kprobe(st: State, p: Kprobe, reopt: bool) -> None:
    """Take the breakpoint out; where there is a jump, the optimizer does it later.

    reopt: a jump that could not be written because of this probe may be queued now.

    Kernel: disarm_kprobe(), __disarm_kprobe()
    """
    if kprobe_ftrace(p):
        st.arch.ftrace.disarm(p)
        return
    unoptimize_kprobe(st, p, st.kprobes_all_disarmed)
    if not kprobe_queued(p):
        st.arch.arch_disarm_kprobe(p)
        if reopt:
            covering = get_optimized_kprobe(st, p.addr)
            if covering is not None:
                optimize_kprobe(st, covering)


def _all(st: State, arm: bool) -> None:
    """Arm or disarm every enabled probe, and say so in the kernel log."""
    total = errors = 0
    failure: KernelError | None = None
    with st.arch.text_poke:
        # by age, as they lie in memory: in the order of hashes caches would miss
        for p in st.kprobe_table.values():
            if kprobe_disabled(p):
                continue
            total += 1
            try:
                if arm:
                    arm_kprobe(st, p)
                else:
                    disarm_kprobe(st, p, False)
            except KernelError as e:
                errors += 1
                failure = e
    able, kept = ("enable", "disabled") if arm else ("disable", "enabled")
    text = f"kprobes: Kprobes globally {able}d"
    if failure is None:
        st.machine.log.printk(KERN_INFO, text)
        return
    st.machine.log.printk(
        KERN_WARNING,
        f"{text}, but failed to {able} {errors} out of {total} probes. "
        f"Please check which kprobes are kept {kept} via debugfs.",
    )
    raise failure


def arm_all_kprobes(st: State) -> None:
    """Arm all enabled probes; raise the last error.  Kernel: arm_all_kprobes()"""
    if not st.kprobes_all_disarmed:
        return
    # before arming: optimize_kprobe() asks for it
    st.kprobes_all_disarmed = False
    _all(st, True)


def disarm_all_kprobes(st: State) -> None:
    """Disarm all enabled probes, as 0 in kprobes/enabled asks.

    No patched byte is left but in disabled jumps, and those that are waiting to be
    undone are undone before it returns.

    Kernel: disarm_all_kprobes()
    """
    if st.kprobes_all_disarmed:
        return
    st.kprobes_all_disarmed = True
    try:
        _all(st, False)
    finally:
        wait_for_kprobe_optimizer(st)


def check_ftrace_location(st: State, p: Kprobe) -> None:
    """Mark p if it is on an ftrace site.  Kernel: check_ftrace_location()"""
    addr = p.addr
    if st.kprobes_on_ftrace and st.machine.text.ftrace_location(addr, addr) == addr:
        p.flags |= KprobeFlag.FTRACE


def set_ftrace_enabled(st: State, value: int) -> None:
    """Switch all calls from ftrace locations, of tracers and probes, on or off.

    Context: control.  Kernel: ftrace_enable_sysctl()
    """
    changed = bool(value) != bool(st.ftrace_enabled)
    st.ftrace_enabled = value
    if changed:
        st.arch.ftrace.enable(bool(value))
