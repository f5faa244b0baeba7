# SPDX-License-Identifier: GPL-2.0-or-later
"""The state of one kernel's kprobes: the table of probes, and the switches."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from kpfs.base.ktypes import KERN_INFO, MASK64, BlacklistEntry, KAddr
from kpfs.engine.arch_hooks import Arch
from kpfs.engine.kprobe import NO_ADDR, Kprobe, OptimizedKprobe, OptQueue
from kpfs.engine.machine import Machine
from kpfs.engine.rethook import Kretprobe
from kpfs.engine.slots import KprobeInsnCache

KPROBE_HASH_BITS = 6
KPROBE_TABLE_SIZE = 1 << KPROBE_HASH_BITS
GOLDEN_RATIO_64 = 0x61C8864680B583EB


class ModuleState(enum.Enum):
    """The state that a module's notifier reports.  Kernel: enum module_state."""

    COMING = 1  # loaded, before its init
    LIVE = 2  # init is done, init text about to be freed
    GOING = 3  # exit is done, all text about to be freed


def hash_ptr(addr: int) -> int:
    """Return the number of the bucket of kprobe_table that addr belongs to."""
    return (addr * GOLDEN_RATIO_64 & MASK64) >> (64 - KPROBE_HASH_BITS)


def _by_symbol(addr: KAddr, _offset: int) -> KAddr:
    return addr


class State:
    """The kprobes of one kernel.

    Changed in control context alone; the hit path reads kprobe_table.
    Kernel: the static variables of kernel/kprobes.c
    """

    def __init__(
        self,
        machine: Machine,
        arch: Arch,
        *,
        optprobes: bool = True,
        kprobes_on_ftrace: bool = True,
        preemption: bool = True,
        kprobe_lookup_name: Callable[[KAddr, int], KAddr] = _by_symbol,
    ) -> None:
        """The kernel's CONFIG_OPTPROBES, CONFIG_KPROBES_ON_FTRACE, CONFIG_PREEMPTION.

        kprobe_lookup_name: returns where a probe by name begins to count, by the
        function's address and the offset.

        Context: control.  Kernel: init_kprobes(), init_optprobes()
        """
        self.machine = machine
        self.arch = arch
        self.optprobes = optprobes
        self.kprobes_on_ftrace = kprobes_on_ftrace
        self.kprobe_lookup_name = kprobe_lookup_name
        self.preemption = preemption
        self.ftrace_enabled = 1  # the number that was written
        self.kprobe_table: dict[KAddr, Kprobe] = {}
        self.registered: dict[Kprobe, KAddr] = {}  # all probes of users, and where
        # the last answer of kprobe_addr(), and what it was asked
        self.probe_point: tuple[tuple[object, ...], tuple[KAddr, bool]]
        self.probe_point = (), (NO_ADDR, False)
        # all probes by hash, the newest last: the order of kprobes/list
        self._buckets: list[dict[KAddr, Kprobe]] = [
            {} for _ in range(KPROBE_TABLE_SIZE)
        ]
        # unused room in the guest for the struct kprobe of an aggr_kprobe
        self.guest_kprobes: list[int] = []
        self.kprobes_all_disarmed = False
        self.kretprobes: dict[Kretprobe, None] = {}  # those that are registered
        # of probes that are not any more: hits, and returns, that were missed
        self.missed_hits: Counter[KAddr] = Counter()
        self.missed_returns: Counter[KAddr] = Counter()
        self.maxactive: dict[KAddr, int] = {}  # instances that these had
        self.kprobes_allow_optimization = optprobes
        self.insn_caches: list[KprobeInsnCache] = []
        self.module_states: dict[str, ModuleState] = {}

        # the optimizer's lists (dicts for the sake of cheap removal) and its work
        self.opt_queues: dict[OptQueue, dict[OptimizedKprobe, None]] = {
            OptQueue.OPTIMIZING: {},
            OptQueue.UNOPTIMIZING: {},
            OptQueue.FREEING: {},
        }
        # each byte after the first that a prepared jump would cover
        self.opt_covered: dict[int, tuple[OptimizedKprobe, ...]] = {}
        self.opt_epoch = 0
        self.opt_work = 0  # number of the delayed work last queued
        self.opt_work_pending = False

        self.kprobe_blacklist: Sequence[BlacklistEntry] = ()
        self.blacklist_starts: list[int] = []
        self.blacklist_ends: list[int] = []
        self.load_blacklist()
        arch.arch_init_kprobes(self)
        self.kretprobe_blacklist = frozenset(
            s.addr
            for n in arch.kretprobe_blacklist
            for s in machine.kallsyms.lookup_name(n)[:1]
        )
        if optprobes:
            self.log_optimization(True)

    def log_optimization(self, allowed: bool) -> None:
        """Say in the kernel log whether probes may become jumps."""
        text = "enabled. All kprobes are optimized if possible."
        if not allowed:
            text = "disabled. All kprobes are based on software breakpoint."
        self.machine.log.printk(
            KERN_INFO, f"kprobes: kprobe jump-optimization is {text}"
        )

    # ---- kprobe_table
    def hash_add(self, p: Kprobe) -> None:
        """Put p into the table; it replaces the entry at its address, if there is one.

        Kernel: hlist_add_head_rcu(), hlist_replace_rcu()
        """
        self.kprobe_table[p.addr] = p
        self._buckets[hash_ptr(p.addr)][p.addr] = p

    def hash_del(self, p: Kprobe) -> None:
        """Take p out of the table, if it is there.  Kernel: hlist_del_rcu()"""
        if self.kprobe_table.get(p.addr) is p:
            del self.kprobe_table[p.addr]
            del self._buckets[hash_ptr(p.addr)][p.addr]

    def table_entries(self) -> Iterator[Kprobe]:
        """Yield the entries of kprobe_table, bucket by bucket, the newest first.

        The table must not change meanwhile, but for replacing an entry.
        """
        for bucket in self._buckets:
            yield from reversed(bucket.values())

    # ---- blacklist
    def load_blacklist(self, without: str | None = None) -> None:
        """Take over the machine's blacklist and sort its ranges for look-up.

        without: a module that is still there, but whose ranges are to be left out.

        Context: control.
        Kernel: populate_kprobe_blacklist(), {add,remove}_module_kprobe_blacklist()
        """
        self.kprobe_blacklist = [
            e
            for e in self.machine.text.blacklist()
            if without is None or self.machine.text.module_of(e.start) != without
        ]
        self.blacklist_starts, self.blacklist_ends = [], []
        for start, end, _ in sorted(self.kprobe_blacklist):
            if self.blacklist_ends and start <= self.blacklist_ends[-1]:
                self.blacklist_ends[-1] = max(self.blacklist_ends[-1], end)
            else:
                self.blacklist_starts.append(start)
                self.blacklist_ends.append(end)


def get_kprobe(st: State, addr: int) -> Kprobe | None:
    """Return the table's entry at addr.  Context: either.  Kernel: get_kprobe()"""
    return st.kprobe_table.get(KAddr(addr))


def is_kprobe_insn_slot(st: State, addr: int) -> bool:
    """Return True if addr is in a page of slots.

    Context: either.  Kernel: is_kprobe_insn_slot(), is_kprobe_optinsn_slot()
    """
    for cache in st.insn_caches:
        if cache.is_insn_slot_addr(addr):
            return True
    return False
