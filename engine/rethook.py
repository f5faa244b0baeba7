# SPDX-License-Identifier: GPL-2.0-or-later
"""Return hooks: the records behind return probes.

The hook itself is guest code (engine/runtime, struct kp_rethook): a function's return
address is replaced by the trampoline, the real one waits in a node on the task's list.
The architecture makes and frees them: alloc() and free() of arch_hooks.Rethooks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kpfs.engine.kprobe import NO_ADDR, Kprobe, PtRegs
from kpfs.engine.ktypes import KAddr

# Called in hit context as handler(node, regs), or guest code with the same arguments.
# For an entry handler non-zero means: this call is not to be hooked.
RethookHandler = Callable[["RethookNode", PtRegs], int | None]


class ReturnProbe(Protocol):
    """A Kretprobe, as far as its hook knows it."""

    kp: Kprobe


@dataclass(eq=False)
class Rethook:
    """A pool of nodes with its handlers.  Kernel: struct rethook."""

    data: ReturnProbe  # what node.rethook.data gives a handler
    entry_handler: RethookHandler | KAddr | None
    handler: RethookHandler | KAddr | None
    maxactive: int  # nodes
    data_size: int  # bytes of data in each node
    guest_data: int = 0  # word that guest handlers find in kp_rethook.data
    guest_kp: int = 0  # a module's struct kretprobe, 0 if none
    addr: KAddr = NO_ADDR  # its struct kp_rethook, set by the architecture


@dataclass(eq=False)
class RethookNode:
    """One call of a hooked function, made for a Python handler.

    Kernel: struct rethook_node, struct kretprobe_instance.
    """

    addr: KAddr  # struct kp_rethook_node
    rethook: Rethook
    ret_addr: KAddr  # where the function returns to; 0 in the entry handler
    frame: int  # stack address that held it
    task: KAddr
    func: KAddr  # the probed function
    data: memoryview  # data_size bytes that live as long as the call

    @property
    def rp(self) -> ReturnProbe:
        """The Kretprobe whose handler is called.  Kernel: get_kretprobe()"""
        return self.rethook.data
