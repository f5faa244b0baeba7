# SPDX-License-Identifier: GPL-2.0-or-later
"""The registered kprobes, read from the kernel's memory.

Kernel: kprobe_table, show_kprobe_addr(), struct optimized_kprobe, trace_kprobe.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import chain, count, islice, takewhile
from typing import NamedTuple

from kpfs.base.data_model import LITTLE_64
from kpfs.linux.memory.memory import KernelMemory, OneLook
from kpfs.linux.memory.structures import MAX_LISTED, Reader, View
from kpfs.linux.memory.symbols import Addresses

NAME_MAX = 256
MAX_PROBES = 1 << 16
FLAG_GONE, FLAG_DISABLED, FLAG_FTRACE = 1, 2, 8
JUMP_SIZE = 5


class ProbeState(NamedTuple):
    """A registered probe, and the entry of kprobe_table that it is or belongs to."""

    own: View  # struct kprobe
    entry: View
    is_return: bool

    @property
    def addr(self) -> int:
        return self.entry.word("addr")


def function_ranges(
    memory: KernelMemory, symbols: Addresses, head: str
) -> Iterator[tuple[int, int]]:
    """Yield [start, end) of the functions in a list of which head is the symbol.

    Kernel: kprobe_blacklist and struct kprobe_blacklist_entry, error_injection_list and
    struct ei_entry, which begin alike: since 5.10.  Context: lock held.
    """
    memory, at = OneLook(memory), symbols.address(head)
    pair = memory.model.struct("LL")  # as large as a struct list_head
    for node in memory.nodes(at, MAX_LISTED) if at else ():
        start, end = pair.unpack(memory.read(node + pair.size, pair.size))
        yield start, end


def cpu_offset(cpu: int) -> str:
    """Return the name among the values of the offset of a processor's data."""
    return f"__per_cpu_offset[{cpu}]"


class Kprobes(Reader):
    """All registered probes of a kernel."""

    needs = "kprobe", "addr"

    def entries(self) -> Iterator[View]:
        """Yield the entries of kprobe_table in the order of kprobes/list."""
        table, size = self._structures.data("kprobe_table")
        heads = range(table, table + size, self._memory.model.long)
        lists = (self._memory.nodes(head, MAX_PROBES) for head in heads)
        at = self._structures["kprobe"].at["hlist"]
        for node in islice(chain.from_iterable(lists), MAX_PROBES):
            yield self._view("kprobe", node - at)

    def __iter__(self) -> Iterator[ProbeState]:
        """Yield the probes in the order of kprobes/list."""
        returns = self._symbols.address("pre_handler_kretprobe")
        for entry in self.entries():
            head = entry.place("list")
            several = entry.word("pre_handler") == self._aggr_pre_handler
            for own in self._listed("kprobe", head) if several else (entry,):
                yield ProbeState(own, entry, own.word("pre_handler") == returns)

    @cached_property
    def _aggr_pre_handler(self) -> int:
        return self._symbols.address("aggr_pre_handler")

    # ---- details of a probe
    def optimized(self, entry: View) -> View | None:
        """Return the optimized_kprobe around an entry, None if there is none."""
        layout = self._structures["optimized_kprobe"]
        several = entry.word("pre_handler") == self._aggr_pre_handler
        if not several or not layout.has("optinsn.insn"):
            return None
        return self._view("optimized_kprobe", entry.addr - layout.at["kp"])

    def event(self, probe: ProbeState) -> tuple[str, int | None] | None:
        """Return a probe's event as GROUP/NAME, and how often it was hit, if known."""
        memory, kind = self._memory, "kretprobe" if probe.is_return else "kprobe"
        mine = self.handlers(probe)[:1] == [self._symbols.address(f"{kind}_dispatcher")]
        layout = self._structures["trace_kprobe"]
        if not mine or not layout.has("rp.kp"):
            return None
        event = self._view("trace_kprobe", probe.own.addr - layout.at["rp.kp"])
        shared = self._view("trace_probe_event", event.word("tp.event"))
        group = memory.string(shared.word("class.system"), NAME_MAX)
        name = memory.string(shared.word("call.name"), NAME_MAX)
        offsets, nhit = self._known_offsets, event.word("nhit")
        hits = sum(memory.word(nhit + at) for at in offsets) if offsets else None
        return f"{group}/{name}", hits

    def _kretprobe(self, probe: ProbeState) -> View:
        kp = self._structures["kretprobe"].at["kp"]
        return self._view("kretprobe", probe.own.addr - kp)

    def nmissed(self, probe: ProbeState) -> int:
        """Return its missed hits.  Kernel: probes_profile_seq_show()"""
        missed = probe.own.word("nmissed")
        return missed + self._kretprobe(probe).number("nmissed", 4) * probe.is_return

    def handlers(self, probe: ProbeState) -> list[int]:
        """Return the addresses of its handlers."""
        found = [probe.own.word("pre_handler"), probe.own.word("post_handler")]
        if probe.is_return:
            found = [self._kretprobe(probe).word("handler")]
        return [addr for addr in found if addr]

    # ---- CPUs
    @property
    def cpu_offsets(self) -> list[int]:
        """The offset of each possible CPU's per-CPU data, 0 for one that is unknown."""
        return self._known_offsets or [0]

    @cached_property
    def _known_offsets(self) -> list[int]:
        found = self._symbols.lookup_name("__per_cpu_offset")
        if not found:
            values = self._structures.values
            names = takewhile(values.__contains__, map(cpu_offset, count()))
            return [values[name] for name in names]
        cpus = self._memory.number(self._symbols.address("nr_cpu_ids"), 4)
        long = self._memory.model.long
        most = found[0].size // long
        places = range(found[0].addr, found[0].addr + long * min(cpus, most), long)
        return [*map(self._memory.word, places)]

    def statuses(self, entry: View) -> list[int]:
        """Return each CPU's kprobe_status for this probe, 0 if it is not in one."""
        current = self._symbols.address("current_kprobe")
        block = self._symbols.address("kprobe_ctlblk")
        at = self._structures["kprobe_ctlblk"].at.get("kprobe_status")
        if at is None or not current or not block:
            return [0 for _ in self.cpu_offsets]
        return [
            self._memory.number(block + at + offset, 4)
            if self._memory.word(current + offset) == entry.addr
            else 0
            for offset in self.cpu_offsets
        ]

    # ---- text
    def unprobed(self, start: int, live: bytes, breakpoint_size: int) -> bytes:
        """Return the text without the breakpoints and jumps of probes."""
        text, end = bytearray(live), start + len(live)
        for entry in self.entries():
            addr = entry.word("addr")
            if entry.number("flags", 4) & FLAG_FTRACE or not (
                start - JUMP_SIZE < addr < end
            ):
                continue
            code = self._memory.read(addr, JUMP_SIZE)
            size = breakpoint_size
            first = self._memory.model.raw(entry.number("opcode", size), size)
            optimized = self.optimized(entry)
            if optimized is not None:
                distance = optimized.word("optinsn.insn") - addr - JUMP_SIZE
                jump = b"\xe9" + LITTLE_64.raw(distance, 4)  # x86-64 alone
                if code == jump:
                    at = optimized.layout.at["optinsn.copied_insn"]
                    first += optimized.raw[at : at + JUMP_SIZE - 1]
                    size = JUMP_SIZE
            for i in range(size):
                if start <= addr + i < end:
                    text[addr + i - start] = first[i]
        return bytes(text)
