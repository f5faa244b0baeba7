# SPDX-License-Identifier: GPL-2.0-or-later
"""Return probes: a kprobe on the entry that hooks the return of each call.

To enable or disable one is to enable or disable that kprobe.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from kpfs.base.abi import KRETPROBE_MAX_DATA_SIZE
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KAddr
from kpfs.engine.kprobe import Kprobe
from kpfs.engine.register import (
    kprobe_addr,
    kprobe_on_func_entry,
    register_kprobe,
    unregister_kprobes,
    warn_kprobe_rereg,
)
from kpfs.engine.rethook import Rethook, RethookHandler
from kpfs.engine.state import State


class Kretprobe:
    """A return probe; its handlers get a RethookNode.  Kernel: struct kretprobe."""

    __slots__ = (
        "data_size", "entry_handler", "guest_data", "guest_kp", "handler", "kp",
        "maxactive", "nmissed", "rh",
    )  # fmt: skip

    def __init__(
        self,
        kp: Kprobe | None = None,
        handler: RethookHandler | KAddr | None = None,
        entry_handler: RethookHandler | KAddr | None = None,
        *,
        maxactive: int = 0,
        data_size: int = 0,
        guest_data: int = 0,
        guest_kp: int = 0,
    ) -> None:
        """kp: the probe point.  maxactive: 0 or less for the default.

        guest_data, guest_kp: what handlers that are guest code find in kp_rethook.
        """
        self.kp = kp or Kprobe()
        self.handler = handler
        self.entry_handler = entry_handler
        self.maxactive = maxactive
        self.data_size = data_size
        self.guest_data = guest_data
        self.guest_kp = guest_kp
        # as it stood when the probe was unregistered; kretprobe_nmissed() before that
        self.nmissed = 0
        self.rh: Rethook | None = None


def register_kretprobe(st: State, rp: Kretprobe) -> None:
    """Register a return probe; the probe on the entry is armed unless disabled.

    EINVAL: not a function's entry, a function that must not be hooked; E2BIG: too much
    data; and what register_kprobe() raises.

    Context: control.
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
    rh = Rethook(
        data=rp,
        entry_handler=rp.entry_handler,
        handler=rp.handler,
        maxactive=rp.maxactive,
        data_size=rp.data_size,
        guest_data=rp.guest_data,
        guest_kp=rp.guest_kp,
    )
    st.arch.rethooks.alloc(rh)
    kp.kind = "r"
    kp.pre_handler = st.arch.rethooks.pre_handler
    kp.post_handler = None
    kp.data = rh.addr
    rp.nmissed = 0
    try:
        register_kprobe(st, kp)
    except KernelError:
        st.arch.rethooks.free(rh)
        raise
    rp.rh = rh


def unregister_kretprobe(st: State, rp: Kretprobe) -> None:
    """Unregister a return probe; if it is not registered, clear its address.

    Calls that are still to return do so without its handler.

    Context: control.
    Kernel: unregister_kretprobe()
    """
    unregister_kretprobes(st, [rp])


def unregister_kretprobes(st: State, rps: Sequence[Kretprobe]) -> None:
    """Unregister several.  Context: control.  Kernel: unregister_kretprobes()"""
    unregister_kprobes(st, [rp.kp for rp in rps])
    for rp in rps:
        if rp.rh is not None:
            rp.nmissed = st.arch.rethooks.nmissed(rp.rh)
            st.arch.rethooks.free(rp.rh)
            rp.rh = None


def kretprobe_nmissed(st: State, rp: Kretprobe) -> int:
    """Return how many calls were not hooked because all instances were in use.

    Context: control.
    Kernel: kretprobe.nmissed
    """
    return rp.nmissed if rp.rh is None else st.arch.rethooks.nmissed(rp.rh)
