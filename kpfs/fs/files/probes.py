# SPDX-License-Identifier: GPL-2.0-or-later
"""machine/probes: the machinery behind each registered probe."""

from __future__ import annotations

from kpfs.base import abi
from kpfs.engine.kprobe import Kprobe, OptimizedKprobe
from kpfs.engine.register import ListEntry, show_entries
from kpfs.fs.seqfile import SeqFile

# the states that "Probing the Guts of Kprobes" draws, without their KPROBE_
STATES = {
    abi.KP_IDLE: "-",
    abi.KP_HIT_ACTIVE: "HIT_ACTIVE",
    abi.KP_HIT_SS: "HIT_SS",
    abi.KP_REENTER: "REENTER",
    abi.KP_HIT_SSDONE: "HIT_SSDONE",
}
COLUMNS = (
    "address", "type", "place", "owner", "state", "boostable", "slot", "detour", "hits",
    "nmissed",
)  # fmt: skip


class Probes(SeqFile):
    """A line for each probe, in the order of kprobes/list, below the columns' names.

    state is kprobe_status on each CPU; boostable is -1 if the instruction cannot be, 0
    if it can but is not, 1 if its copy ends in a jump back.  What there is none of is
    "-".  hits are those of the address, which is what the code at a hit counts.
    """

    def show(self) -> str:
        events = self.event_names()
        rows = [
            COLUMNS,
            *(self.row(e, events) for e in show_entries(self.kernel.state)),
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = (
            "  ".join(
                word.ljust(width) for word, width in zip(row, widths, strict=True)
            )
            for row in rows
        )
        return "".join(f"{line.rstrip()}\n" for line in lines)

    def row(self, shown: ListEntry, events: dict[int, str]) -> tuple[str, ...]:
        p, entry, symbol = shown
        arch = self.kernel.state.arch
        slot, _, _ = arch.copied_insn(entry)
        boostable = arch.boostable(entry)
        buffer = arch.opt.buffer(entry) if isinstance(entry, OptimizedKprobe) else None
        place = f"{symbol.name}+{entry.addr - symbol.addr:#x}" if symbol else "-"
        return (
            f"{entry.addr:016x}",
            p.kind,
            f"{place}:{symbol.module}" if symbol and symbol.module else place,
            self.owner(p, events),
            ",".join(STATES[s] for s in arch.running.statuses(entry)),
            "-" if boostable is None else str(boostable),
            _address(slot),
            _address(buffer),
            str(arch.hits(entry)),
            str(arch.nmissed(p)),
        )

    def owner(self, p: Kprobe, events: dict[int, str]) -> str:
        """Who registered it: an event, a module, or the engine's own user."""
        if id(p) in events:
            return events[id(p)]
        module = self.kernel.guest.modules.at(p.guest_at) if p.guest_at else None
        return module.name if module else "-"

    def event_names(self) -> dict[int, str]:
        """The names of events by their probe."""
        kprobe_events = self.kernel.parts_built().kprobe_events
        if kprobe_events is None:
            return {}
        return kprobe_events.owners()


def _address(addr: int | None) -> str:
    return f"{addr:016x}" if addr else "-"
