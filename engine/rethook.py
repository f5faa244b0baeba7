# SPDX-License-Identifier: GPL-2.0-or-later
"""Return hooks: the records behind return probes.

The hook itself is guest code (engine/runtime, struct kp_rethook): a function's return
address is replaced by the trampoline, the real one waits in a node on the task's list.
The architecture makes and frees them: alloc() and free() of arch_hooks.Rethooks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kpfs.base.ktypes import KAddr
from kpfs.engine.kprobe import NO_ADDR, Kprobe, PtRegs

# Called in hit context as handler(node, regs), or guest code with the same arguments.
# For an entry handler non-zero means: this call is not to be hooked.
RethookHandler = Callable[["RethookNode", PtRegs], int | None]


class ReturnProbe(Protocol):
    """A Kretprobe, as far as its hook knows it."""

    kp: Kprobe


class Rethook:
    """A pool of nodes with its handlers.  Kernel: struct rethook."""

    def __init__(
        self,
        data: ReturnProbe,
        entry_handler: RethookHandler | KAddr | None,
        handler: RethookHandler | KAddr | None,
        maxactive: int,
        data_size: int,
        guest_data: int = 0,
        guest_kp: int = 0,
    ) -> None:
        """data: what node.rethook.data gives a handler; maxactive: nodes.

        data_size: bytes of data in each node.
        guest_data: the word that guest handlers find in kp_rethook.data.
        guest_kp: a module's struct kretprobe, 0 if none.
        """
        self.data = data
        self.entry_handler = entry_handler
        self.handler = handler
        self.maxactive = maxactive
        self.data_size = data_size
        self.guest_data = guest_data
        self.guest_kp = guest_kp
        self.addr = NO_ADDR  # its struct kp_rethook, set by the architecture


class RethookNode:
    """One call of a hooked function, made for a Python handler.

    Kernel: struct rethook_node, struct kretprobe_instance.
    """

    def __init__(
        self,
        addr: KAddr,
        rethook: Rethook,
        ret_addr: KAddr,
        frame: int,
        task: KAddr,
        func: KAddr,
        data: memoryview,
    ) -> None:
        """addr: of its struct kp_rethook_node.

        ret_addr: where the function returns to; 0 in the entry handler.
        frame: the stack address that held it.
        func: the probed function.
        data: data_size bytes that live as long as the call.
        """
        self.addr = addr
        self.rethook = rethook
        self.ret_addr = ret_addr
        self.frame = frame
        self.task = task
        self.func = func
        self.data = data

    @property
    def rp(self) -> ReturnProbe:
        """The Kretprobe whose handler is called.  Kernel: get_kretprobe()"""
        return self.rethook.data
