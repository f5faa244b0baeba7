# SPDX-License-Identifier: GPL-2.0-or-later
"""Return probes: a kprobe on the entry that hooks the return of each call.

To enable or disable one is to enable or disable that kprobe.  All functions are for
control context.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from kpfs.base.abi import KRETPROBE_MAX_DATA_SIZE
from kpfs.base.errors import KernelError
from kpfs.engine.kprobe import NO_ADDR
from kpfs.engine.register import (
    kprobe_addr,
    kprobe_on_func_entry,
    register_kprobe,
    unregister_kprobes,
    warn_kprobe_rereg,
)
from kpfs.engine.rethook import Kretprobe as Kretprobe
from kpfs.engine.state import State


def register_kretprobe(st: State, rp: Kretprobe) -> None:
    """Register a return probe; the probe on the entry is armed unless disabled.

    EINVAL: not a function's entry, a function that must not be hooked; E2BIG: too much
    data; and what register_kprobe() raises.

    Kernel: register_kretprobe()
    """
    kp = rp.kp
    kprobe_on_func_entry(st, kp.addr, kp.symbol_name, kp.offset)
    if kp.addr:
        warn_kprobe_rereg(st, kp)
    addr, _ = kprobe_addr(st, kp.addr, kp.symbol_name, kp.offset)
    if addr in st.kretprobe_blacklist:
        raise KernelError(errno.EINVAL, "this function's return cannot be hooked")
    if rp.data_size > KRETPROBE_MAX_DATA_SIZE:
        raise KernelError(errno.E2BIG, "too much data in an instance")
    if rp.maxactive <= 0:
        # 6.1 has the first in either case, where the documents distinguish
        nr_cpus = st.machine.nr_cpus
        rp.maxactive = max(10, 2 * nr_cpus) if st.preemption else nr_cpus
    st.arch.rethooks.alloc(rp)
    kp.kind = "r"
    kp.pre_handler = st.arch.rethooks.pre_handler
    kp.post_handler = None
    kp.data = rp.addr
    rp.nmissed = 0
    try:
        register_kprobe(st, kp)
    except KernelError:
        _free(st, rp)
        raise
    st.kretprobes[rp] = None


def unregister_kretprobe(st: State, rp: Kretprobe) -> None:
    """Unregister a return probe; if it is not registered, clear its address.

    Calls that are still to return do so without its handler.

    Kernel: unregister_kretprobe()
    """
    unregister_kretprobes(st, [rp])


def unregister_kretprobes(st: State, rps: Sequence[Kretprobe]) -> None:
    """Unregister several.  Kernel: unregister_kretprobes()"""
    unregister_kprobes(st, [rp.kp for rp in rps])
    for rp in rps:
        if rp.addr:
            rp.nmissed = st.arch.rethooks.nmissed(rp)
            st.missed_returns[rp.kp.addr] += rp.nmissed
            st.maxactive[rp.kp.addr] = rp.maxactive
            _free(st, rp)


def _free(st: State, rp: Kretprobe) -> None:
    st.kretprobes.pop(rp, None)
    st.arch.rethooks.free(rp)
    rp.addr = NO_ADDR


def kretprobe_nmissed(st: State, rp: Kretprobe) -> int:
    """Return the calls missed for lack of instances.  Kernel: kretprobe.nmissed"""
    return st.arch.rethooks.nmissed(rp) if rp.addr else rp.nmissed
