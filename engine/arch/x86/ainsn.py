# SPDX-License-Identifier: GPL-2.0-or-later
"""The record of one probed address, and the choice of code that enters it."""

from __future__ import annotations

import enum

from kpfs.base.ktypes import KAddr
from kpfs.engine.arch.x86.checks.probe import Emulation
from kpfs.engine.arch.x86.hit import Hit
from kpfs.engine.arch.x86.insn import Insn
from kpfs.engine.kprobe import ArchInsn, Kprobe
from kpfs.engine.runtime.records import KpHandler, KpSite


class StubEntry(enum.Enum):
    """The code of entry.S, lite.S or krets.S that a stub is: ends of its names."""

    RUNTIME = ""  # any
    PYTHON = "_python"  # all handlers are Python
    EVENT = "_event"  # an event's alone
    JPROBE = "_jprobe"
    KRET = "_kret"  # nothing but a return probe
    KRETS = "_krets"  # return probes among others


class Ainsn(ArchInsn):
    """x86's state of a probed address.  Kernel: struct arch_specific_insn."""

    __slots__ = (
        "all_guest", "blocks", "boostable", "data", "entry", "hit", "insn", "kind",
        "parts", "records", "removed", "site", "slot", "stub",
    )  # fmt: skip

    def __init__(
        self,
        site: KpSite,
        insn: Insn | None = None,
        kind: Emulation = Emulation.NONE,
        boostable: bool = False,
        slot: KAddr | None = None,
    ) -> None:
        self.site = site
        self.insn = insn  # the original; None on an ftrace location
        self.kind = kind
        self.slot = slot
        self.stub: KAddr | None = None
        self.entry: StubEntry | None = None  # None: not armed yet
        self.data = 0  # the record for that code: kp_event or kp_rethook
        self.parts: tuple[KpHandler, ...] = ()  # the handlers that blocks are made for
        self.blocks: dict[str, range] = {}  # by the way in: int3 or ftrace, and opt
        self.boostable = boostable
        self.hit: Hit | None = None
        self.records: list[KpHandler] = []  # one a probe, in their order
        self.all_guest = False  # is_guest() of each probe
        self.removed = False

    def way_in(self) -> int:
        """Return where a breakpoint goes on if its handlers are in the guest."""
        block = self.blocks.get("int3")
        return block.start if block else self.stub or 0

    def insert(self, record: KpHandler) -> None:
        """Put a handler's record before all others, as the newest."""
        record.next = self.records[0].addr if self.records else 0
        self.records.insert(0, record)
        self.site.first = record.addr

    def remove(self, record: KpHandler) -> None:
        i = self.records.index(record)
        following = self.records.pop(i).next
        if i:
            self.records[i - 1].next = following
        else:
            self.site.first = following


def is_guest(kp: Kprobe) -> bool:
    """Return True if its one handler is a pre_handler that is guest code."""
    others = kp.post_handler, kp.break_handler, kp.fault_handler
    return isinstance(kp.pre_handler, int) and others == (None, None, None)


def ainsn_of(p: Kprobe) -> Ainsn:
    """Return the record of a probe that is prepared."""
    assert isinstance(p.ainsn, Ainsn)
    return p.ainsn
