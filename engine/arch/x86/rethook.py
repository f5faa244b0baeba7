# SPDX-License-Identifier: GPL-2.0-or-later
"""Return hooks on x86: keeps a struct kp_rethook in guest memory for each Rethook.

Guest code in engine/runtime does the rest: kp_kret_entry() replaces the return address,
and kp_ret_trampoline is where the function returns to instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from kpfs.base.abi import KpRethookNode
from kpfs.base.ktypes import KAddr
from kpfs.engine.arch.x86.hit import KERN_ERR, HitPath
from kpfs.engine.arch.x86.regs import PT_REGS_SIZE
from kpfs.engine.rethook import Rethook
from kpfs.engine.runtime.records import KpHandler, KpRethook, KpSite
from kpfs.engine.runtime.runtime import Runtime, node_size

# words of a node
FRAME, FUNC, RP = (
    n // 8 for n in (KpRethookNode.frame, KpRethookNode.func, KpRethookNode.rp)
)


class Rethooks:
    """Implements kpfs.engine.arch_hooks.Rethooks.

    Context: control.
    """

    def __init__(self, runtime: Runtime, path: HitPath) -> None:
        self.runtime = runtime
        self.path = path
        self.pre_handler = runtime.symbols["kp_kret_entry"]
        # struct kp_rethook -> (it, its nodes, their size in all)
        self._made: dict[KAddr, tuple[KpRethook, KAddr, int]] = {}

    def alloc(self, rh: Rethook) -> None:
        """Kernel: rethook_alloc(), rethook_add_node()"""
        record, nodes = self.runtime.make_rethook(rh.maxactive, rh.data_size)
        size = node_size(rh.data_size) * rh.maxactive
        rh.addr = record.addr
        self._made[rh.addr] = record, nodes, size
        self.path.rethooks[rh.addr] = rh
        self._set_rp(nodes, size, rh, rh.guest_kp)
        self.sync(rh)

    def sync(self, rh: Rethook) -> None:
        record = self._record(rh)
        symbols = self.runtime.symbols
        for user, fn, python in (
            (rh.entry_handler, "entry_fn", "kp_py_entry"),
            (rh.handler, "ret_fn", "kp_py_return"),
        ):
            value = symbols[python] if callable(user) else user or 0
            setattr(record, fn, value)
        record.data = rh.guest_data
        record.kp = rh.guest_kp
        record.long_way = record.flags | record.entry_fn
        alone = record.ret_fn == symbols["kp_event_return"] and not record.flags
        record.event = record.data if alone else symbols["kp_no_event"]

    def set_places(self, handlers: Sequence[KpHandler], site: KpSite) -> None:
        """Write site and function into each kp_rethook and its nodes, before hits."""
        for handler in handlers:
            if handler.data not in self._made:
                continue
            record, nodes, size = self._made[KAddr(handler.data)]
            record.site = site.addr
            words, base = self.runtime.heap.words(nodes)
            step = node_size(self.path.rethooks[handler.data].data_size) // 8
            for i in range(base + FUNC, base + size // 8, step):
                words[i] = site.probe_addr

    def free(self, rh: Rethook) -> None:
        """Kernel: rethook_free()"""
        record, nodes, size = self._made.pop(rh.addr)
        del self.path.rethooks[rh.addr]
        self._set_rp(nodes, size, rh, 0)
        self.runtime.free_rethook(record, nodes, size)

    def _set_rp(self, nodes: KAddr, size: int, rh: Rethook, rp: int) -> None:
        """Let the nodes say which struct kretprobe of a module they are of."""
        words, base = self.runtime.heap.words(nodes)
        step = node_size(rh.data_size) // 8
        for i in range(base + RP, base + size // 8, step):
            words[i] = rp

    def orphan(self, cpu: int) -> None:
        """Log a return that no node expects, and let it go to 0, which makes an oops.

        Context: hit.  Kernel: rethook_trampoline_handler()
        """
        mail, printk = self.runtime.cpus[cpu], self.runtime.machine.log.printk
        blamed = self._blame(mail.mail0 + PT_REGS_SIZE)
        if blamed:
            printk(KERN_ERR, blamed)
        printk(
            KERN_ERR,
            "rethook: Return address not found! Maybe there is a bug in the kernel",
        )
        mail.mail_ret = 0

    def _blame(self, frame: int) -> str:
        """The message that blames the probe whose node had that frame; "": none had.

        Kernel: kretprobe_assert()
        """
        for rh, (_, nodes, size) in self._made.items():
            words, base = self.runtime.heap.words(nodes)
            step = node_size(self.path.rethooks[rh].data_size) // 8
            for i in range(base, base + size // 8, step):
                if words[i + FRAME] == frame:
                    rp = words[i + RP] or rh
                    return (
                        f"kretprobe BUG!: Processing kretprobe {rp:016x} "
                        f"@ {words[i + FUNC]:016x}"
                    )
        return ""

    def nmissed(self, rh: Rethook) -> int:
        return self._record(rh).nmissed

    def _record(self, rh: Rethook) -> KpRethook:
        return self._made[rh.addr][0]
