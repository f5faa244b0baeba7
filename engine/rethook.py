# SPDX-License-Identifier: GPL-2.0-or-later
"""Return hooks: the records behind return probes.

The hook itself is guest code (engine/runtime, struct kp_rethook): a function's return
address is replaced by the trampoline, the real one waits in a node on the task's list.
The architecture makes and frees them: alloc() and free() of arch_hooks.Rethooks.
"""

from __future__ import annotations

from collections.abc import Callable

from kpfs.base.ktypes import KAddr
from kpfs.engine.kprobe import NO_ADDR, Kprobe, PtRegs

# Called in hit context as handler(node, regs), or guest code with the same arguments.
# For an entry handler non-zero means: this call is not to be hooked.
RethookHandler = Callable[["RethookNode", PtRegs], int | None]


class Kretprobe:
    """Return probe and its nodes.  Kernel: struct kretprobe, struct rethook"""

    __slots__ = (
        "addr", "data_size", "entry_handler", "guest_data", "guest_kp", "handler", "kp",
        "maxactive", "nmissed",
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
        """kp: the probe point.  maxactive: nodes, 0 or less for the default.

        data_size: bytes of data in each node.
        guest_data: the word that guest handlers find in kp_rethook.data.
        guest_kp: a module's struct kretprobe, 0 if none.
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
        self.addr = NO_ADDR  # its struct kp_rethook while it is registered


class RethookNode:
    """One call of a hooked function, as a Python handler gets it.

    Kernel: struct rethook_node, struct kretprobe_instance.
    """

    addr: KAddr  # its struct kp_rethook_node
    rp: Kretprobe  # the owner of the handler
    ret_addr: KAddr  # the return address; 0 in the entry handler
    frame: int  # the stack address that held it
    task: KAddr
    func: KAddr  # the probed function
    data: memoryview  # data_size bytes that live as long as the call
