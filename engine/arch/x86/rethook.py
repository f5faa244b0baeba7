# SPDX-License-Identifier: GPL-2.0-or-later
"""Return hooks on x86: keeps a struct kp_rethook in guest memory for each Kretprobe.

Guest code in engine/runtime does the rest: kp_kret_entry() replaces the return address,
and arch_rethook_trampoline is where the function returns to instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from kpfs.base.abi import KpRethookNode
from kpfs.base.ktypes import KERN_CRIT, KERN_ERR, KAddr
from kpfs.engine.arch.x86.hit import HitPath
from kpfs.engine.arch.x86.regs import PT_REGS_SIZE
from kpfs.engine.rethook import Kretprobe
from kpfs.engine.runtime.records import KpHandler, KpRethook, KpSite
from kpfs.engine.runtime.runtime import Runtime, node_size

# words of a node
FRAME, FUNC, RP = (
    n // 8 for n in (KpRethookNode.frame, KpRethookNode.func, KpRethookNode.rp)
)

# Linux 6.1 logs this before the oops of its BUG()
NOT_FOUND = (
    (
        KERN_ERR,
        "rethook: rethook: Return address not found! "
        "Maybe there is a bug in the kernel",
    ),
    (KERN_CRIT, "------------[ cut here ]------------"),
    (KERN_CRIT, "kernel BUG at kernel/trace/rethook.c:300!"),
)


class Rethooks:
    """Implements kpfs.engine.arch_hooks.Rethooks.  Context: control."""

    def __init__(self, runtime: Runtime, path: HitPath) -> None:
        self.runtime = runtime
        self.path = path
        self.pre_handler = runtime.symbols["kp_kret_entry"]
        # struct kp_rethook -> (it, its nodes, their size in all)
        self._made: dict[KAddr, tuple[KpRethook, KAddr, int]] = {}

    def alloc(self, rp: Kretprobe) -> None:
        """Kernel: rethook_alloc(), rethook_add_node()"""
        record, nodes = self.runtime.make_rethook(rp.maxactive, rp.data_size)
        rp.addr = record.addr
        self._made[rp.addr] = record, nodes, node_size(rp.data_size) * rp.maxactive
        self.path.rethooks[rp.addr] = rp
        self._fill(rp, RP, rp.guest_kp)
        symbols = self.runtime.symbols
        for user, fn, python in (
            (rp.entry_handler, "entry_fn", "kp_py_entry"),
            (rp.handler, "ret_fn", "kp_py_return"),
        ):
            value = symbols[python] if callable(user) else user or 0
            setattr(record, fn, value)
        record.data = rp.guest_data
        record.kp = rp.guest_kp
        record.long_way = record.flags | record.entry_fn
        alone = record.ret_fn == symbols["kp_event_return"] and not record.flags
        record.event = record.data if alone else symbols["kp_no_event"]

    def set_places(self, handlers: Sequence[KpHandler], site: KpSite) -> None:
        """Write site and function into each kp_rethook and its nodes, before hits."""
        for handler in handlers:
            if handler.data in self._made:
                self._made[KAddr(handler.data)][0].site = site.addr
                self._fill(self.path.rethooks[handler.data], FUNC, site.probe_addr)

    def free(self, rp: Kretprobe) -> None:
        """Kernel: rethook_free()"""
        self._fill(rp, RP, 0)
        del self.path.rethooks[rp.addr]
        self.runtime.free_rethook(*self._made.pop(rp.addr))

    def _fill(self, rp: Kretprobe, word: int, value: int) -> None:
        """Set a word of each node: RP says which struct kretprobe of a module it is."""
        _, nodes, size = self._made[rp.addr]
        words, base = self.runtime.heap.words(nodes)
        step = node_size(rp.data_size) // 8
        for i in range(base + word, base + size // 8, step):
            words[i] = value

    def orphan(self, cpu: int) -> None:
        """Log a return that no node expects; guest code makes an oops then.

        Context: hit.  Kernel: rethook_trampoline_handler()
        """
        printk = self.runtime.machine.log.printk
        blamed = self._blame(self.runtime.cpus[cpu].mail0 + PT_REGS_SIZE)
        if blamed:
            printk(KERN_ERR, blamed)
        for level, line in NOT_FOUND:
            printk(level, line)

    def _blame(self, frame: int) -> str:
        """Return the message that blames the probe of a node's frame; "": none had it.

        Kernel: kretprobe_assert()
        """
        for addr, (_, nodes, size) in self._made.items():
            words, base = self.runtime.heap.words(nodes)
            step = node_size(self.path.rethooks[addr].data_size) // 8
            for i in range(base, base + size // 8, step):
                if words[i + FRAME] == frame:
                    rp = words[i + RP] or addr
                    return (
                        f"kretprobe BUG!: Processing kretprobe {rp:016x} "
                        f"@ {words[i + FUNC]:016x}"
                    )
        return ""

    def nmissed(self, rp: Kretprobe) -> int:
        return self._made[rp.addr][0].nmissed
