# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's log, read from its memory, which works for a dead kernel too.

The kernel says in vmcoreinfo, for crash dumps, where the fields of its structures are.
A log without vmcoreinfo cannot be read. Kernels without symbols of data (KALLSYMS_ALL)
do not tell where that is; it is looked for. Kernel: kernel/printk/printk_ringbuffer.h.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kpfs.base.errors import MemoryFault
from kpfs.linux.memory.memory import KernelMemory, OneLook
from kpfs.linux.memory.symbols import CoreSymbols

VMCOREINFO_SIZE = 4096
VMCOREINFO = b"OSRELEASE="  # begins it, and its page
MAX_RECORDS = 1 << 20
_OFFSET = re.compile(r"^(?:OFFSET|SIZE)\((\S+)\)=(\d+)$", re.M)
_RING = re.compile(r"^SYMBOL\(prb\)=([0-9a-f]+)$", re.M)
OOPS_NUMBER = re.compile(r"\[#\d+\]")  # in one of the first lines of an oops
_CAUSE = re.compile(r"BUG|Unable to handle|[Gg]eneral protection|invalid opcode")
_PLACE = re.compile(r"^(RIP|pc|epc) *: ?(?:\d{4}:)?(?P<where>\S+(?: \[\w+\])?)")
_NEAR = 8  # lines from an oops's number to its cause, and to its place
_COMMITTED, _FINALIZED = 1, 2  # in the two highest bits of a state
_NO_DATA = 1  # in a position: the record has no text


class LogLine(NamedTuple):
    """A line of the kernel log."""

    seq: int
    ns: int
    priority: int  # facility * 8 + level
    text: str

    def kmsg(self) -> str:
        """Return the line as /dev/kmsg shows it, without the fields of a device."""
        head = f"{self.priority},{self.seq},{self.ns // 1000},-;"
        return head + "\n ".join(self.text.split("\n")) + "\n"

    def shown(self) -> str:
        """Return the line as dmesg shows it."""
        seconds, us = divmod(self.ns // 1000, 1_000_000)
        return f"[{seconds:5}.{us:06}] {self.text}"


def read_log(
    memory: KernelMemory, symbols: CoreSymbols, since: int = 0
) -> list[LogLine]:
    """Return the records from a number on, oldest first.  Context: lock held.

    []: there is no log.
    """
    try:
        ring = _Ring(memory, symbols)
    except (MemoryFault, KeyError):
        return []
    return ring.records(since)


def last_oops(lines: Sequence[str]) -> str:
    """Return the last oops of a log in the kernel's words, with the place; "": none."""
    numbers = [at for at, line in enumerate(lines) if OOPS_NUMBER.search(line)]
    return oops_at(lines, numbers[-1]) if numbers else ""


def oops_at(lines: Sequence[str], at: int) -> str:
    """Return an oops in the kernel's words, with the place.

    at: the line with its number.
    """
    near = lines[max(at - _NEAR, 0) : at + 1]
    cause = next(filter(_CAUSE.search, reversed(near[:-1])), near[-1])
    places = filter(None, map(_PLACE.match, lines[at : at + _NEAR]))
    place = next((f" at {found['where']}" for found in places), "")
    return f"{cause}{place}"


class _Ring:
    """struct printk_ringbuffer."""

    def __init__(self, memory: KernelMemory, symbols: CoreSymbols) -> None:
        """Raises KeyError, MemoryFault."""
        place = symbols.address("vmcoreinfo_data")
        page = b"" if place else memory.page_that_begins(VMCOREINFO)
        memory = self.memory = OneLook(memory)
        page = page or memory.read(memory.word(place), VMCOREINFO_SIZE)
        text = page.split(b"\0")[0].decode("latin-1")
        self.of = {name: int(value) for name, value in _OFFSET.findall(text)}
        told = _RING.search(text)
        ring = memory.word(int(told[1], 16) if told else symbols.address("prb"))
        self.state_shift = 8 * memory.model.long - 2
        descs = ring + self.of["printk_ringbuffer.desc_ring"]
        texts = ring + self.of["printk_ringbuffer.text_data_ring"]
        self.mask = self._mask(descs, "prb_desc_ring.count_bits")
        self.descs = self._word(descs, "prb_desc_ring.descs")
        self.infos = self._word(descs, "prb_desc_ring.infos")
        self.head = self._word(descs, "prb_desc_ring.head_id")
        self.tail = self._word(descs, "prb_desc_ring.tail_id")
        self.text_mask = self._mask(texts, "prb_data_ring.size_bits")
        self.text = self._word(texts, "prb_data_ring.data")

    def _word(self, base: int, name: str) -> int:
        return self.memory.word(base + self.of[name])

    def _mask(self, base: int, name: str) -> int:
        """Return the mask of as many bits as a field says."""
        bits = self.memory.number(base + self.of[name], 4)
        return (1 << min(bits, 63)) - 1

    def records(self, since: int) -> list[LogLine]:
        ids = (1 << self.state_shift) - 1
        found, number = [], self.tail
        for _ in range(MAX_RECORDS):
            try:
                record = self._record(number)
            except (MemoryFault, KeyError, IndexError):
                break  # records behind a damaged one are lost
            if record is not None and record.seq >= since:
                found.append(record)
            step = max(since - record.seq, 1) if record is not None else 1
            if step > (self.head - number) & ids:
                break
            number = (number + step) & ids
        return found

    def _record(self, number: int) -> LogLine | None:
        of, memory = self.of, self.memory
        desc = self.descs + (number & self.mask) * of["prb_desc"]
        state, shift = self._word(desc, "prb_desc.state_var"), self.state_shift
        if state & (1 << shift) - 1 != number or (
            state >> shift not in (_COMMITTED, _FINALIZED)
        ):
            return None
        lpos = desc + of["prb_desc.text_blk_lpos"]
        begin = self._word(lpos, "prb_data_blk_lpos.begin")
        end = self._word(lpos, "prb_data_blk_lpos.next")
        info = self.infos + (number & self.mask) * of["printk_info"]
        raw = memory.read(info, of["printk_info"])

        def number_at(at: int, size: int) -> int:
            return memory.model.number(raw[at : at + size])

        length_at, text = of["printk_info.text_len"], b""
        if not begin & _NO_DATA:
            wraps = begin & ~self.text_mask != (end - 1) & ~self.text_mask
            at = 0 if wraps else begin & self.text_mask
            size = number_at(length_at, 2)
            text = memory.read(self.text + at + memory.model.long, size)
        return LogLine(
            number_at(of["printk_info.seq"], 8),
            number_at(of["printk_info.ts_nsec"], 8),
            raw[length_at + 2] << 3 | raw[length_at + 3] >> 5,
            text.decode("latin-1"),
        )
