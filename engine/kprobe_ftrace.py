# SPDX-License-Identifier: GPL-2.0-or-later
"""Probes on ftrace locations: a call over the entry nop instead of a breakpoint."""

from __future__ import annotations

from kpfs.engine.kprobe import Kprobe, KprobeFlag
from kpfs.engine.state import State


def check_ftrace_location(st: State, p: Kprobe) -> None:
    """Mark p if its address is an ftrace location.

    Context: control.
    Kernel: check_ftrace_location()
    """
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
