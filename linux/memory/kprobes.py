# SPDX-License-Identifier: GPL-2.0-or-later
"""The registered kprobes, read from the kernel's memory.

Kernel: kprobe_table, show_kprobe_addr(), struct optimized_kprobe, trace_kprobe.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from kpfs.linux.memory.structures import Reader, View

NAME_MAX = 256
MAX_PROBES = 1 << 16
FLAG_FTRACE = 8
JUMP_SIZE = 5
WORD = 8


class Probe(NamedTuple):
    """A registered probe, and the entry of kprobe_table that it is or belongs to."""

    own: View  # struct kprobe
    entry: View
    is_return: bool

    @property
    def addr(self) -> int:
        return self.entry.word("addr")


class Kprobes(Reader):
    """All registered probes of a kernel."""

    needs = "kprobe", "addr"

    def _handler(self, name: str) -> int:
        return self._symbols.address(name)

    def entries(self) -> Iterator[View]:
        """Yield the entries of kprobe_table in the order of kprobes/list."""
        memory, layout = self._memory, self._structures["kprobe"]
        table = self._symbols.lookup_name("kprobe_table")[0]
        left = MAX_PROBES
        for head in range(table.addr, table.addr + table.size, WORD):
            node = memory.word(head)
            while node and left:
                yield View(memory, layout, node - layout.at["hlist"])
                node, left = memory.word(node), left - 1

    def __iter__(self) -> Iterator[Probe]:
        """Yield the probes in the order of kprobes/list."""
        aggregates, returns = (
            self._handler("aggr_pre_handler"),
            self._handler("pre_handler_kretprobe"),
        )
        for entry in self.entries():
            several = entry.word("pre_handler") == aggregates
            for own in self._members(entry) if several else (entry,):
                yield Probe(own, entry, own.word("pre_handler") == returns)

    def _members(self, entry: View) -> Iterator[View]:
        layout, head = entry.layout, entry.place("list")
        node, left = self._memory.word(head), MAX_PROBES
        while node not in (0, head) and left:
            yield View(self._memory, layout, node - layout.at["list"])
            node, left = self._memory.word(node), left - 1

    # ---- details of a probe
    def optimized(self, entry: View) -> View | None:
        """Return the optimized_kprobe around an entry, None if there is none."""
        layout = self._structures["optimized_kprobe"]
        if entry.word("pre_handler") != self._handler("aggr_pre_handler") or (
            not layout.has("optinsn.insn")
        ):
            return None
        return self._view("optimized_kprobe", entry.addr - layout.at["kp"])

    def event(self, probe: Probe) -> tuple[str, int] | None:
        """Return a probe's event as GROUP/NAME, and how often it was hit."""
        memory = self._memory
        if probe.is_return:
            kretprobe = self._kretprobe(probe)
            mine = kretprobe.word("handler") == self._handler("kretprobe_dispatcher")
        else:
            handler = probe.own.word("pre_handler")
            mine = handler == self._handler("kprobe_dispatcher")
        layout = self._structures["trace_kprobe"]
        if not mine or not layout.has("rp.kp"):
            return None
        event = self._view("trace_kprobe", probe.own.addr - layout.at["rp.kp"])
        kind = self._view("trace_probe_event", event.word("tp.event"))
        group = memory.string(kind.word("class.system"), NAME_MAX)
        name = memory.string(kind.word("call.name"), NAME_MAX)
        hits = sum(memory.word(event.word("nhit") + at) for at in self.cpu_offsets)
        return f"{group}/{name}", hits

    def _kretprobe(self, probe: Probe) -> View:
        kp = self._structures["kretprobe"].at["kp"]
        return self._view("kretprobe", probe.own.addr - kp)

    def nmissed(self, probe: Probe) -> int:
        """Return how often its handlers could not run.

        Kernel: probes_profile_seq_show()
        """
        missed = probe.own.word("nmissed")
        return missed + self._kretprobe(probe).number("nmissed", 4) * probe.is_return

    def handlers(self, probe: Probe) -> list[int]:
        """Return the addresses of its handlers."""
        found = [probe.own.word("pre_handler"), probe.own.word("post_handler")]
        if probe.is_return:
            found = [self._kretprobe(probe).word("handler")]
        return [addr for addr in found if addr]

    # ---- CPUs
    @cached_property
    def cpu_offsets(self) -> list[int]:
        """The offset of each possible CPU's per-CPU data."""
        found = self._symbols.lookup_name("__per_cpu_offset")
        if not found:
            return [0]
        count = self._memory.read(self._symbols.address("nr_cpu_ids"), 4)
        cpus = range(int.from_bytes(count, "little"))
        return [self._memory.word(found[0].addr + WORD * cpu) for cpu in cpus]

    def statuses(self, entry: View) -> list[int]:
        """Return each CPU's kprobe_status for this probe, 0 if it is not in one."""
        current = self._symbols.address("current_kprobe")
        block = self._symbols.address("kprobe_ctlblk")
        at = self._structures["kprobe_ctlblk"].at.get("kprobe_status")
        if at is None or not current or not block:
            return [0 for _ in self.cpu_offsets]
        return [
            int.from_bytes(self._memory.read(block + at + offset, 4), "little")
            if self._memory.word(current + offset) == entry.addr
            else 0
            for offset in self.cpu_offsets
        ]

    # ---- text
    def unprobed(self, start: int, live: bytes) -> bytes:
        """Return the text without the breakpoints and jumps of probes."""
        text, end = bytearray(live), start + len(live)
        for entry in self.entries():
            addr = entry.word("addr")
            if entry.number("flags", 4) & FLAG_FTRACE or not (
                start - JUMP_SIZE < addr < end
            ):
                continue
            code = self._memory.read(addr, JUMP_SIZE)
            first, size = entry.number("opcode", 1).to_bytes(1, "little"), 1
            optimized = self.optimized(entry)
            if optimized is not None:
                distance = optimized.word("optinsn.insn") - addr - JUMP_SIZE
                jump = b"\xe9" + (distance & 0xFFFFFFFF).to_bytes(4, "little")
                if code == jump:
                    at = optimized.layout.at["optinsn.copied_insn"]
                    first += optimized.raw[at : at + JUMP_SIZE - 1]
                    size = JUMP_SIZE
            for i in range(size):
                if start <= addr + i < end:
                    text[addr + i - start] = first[i]
        return bytes(text)
