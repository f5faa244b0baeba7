# SPDX-License-Identifier: GPL-2.0-or-later
"""Executable memory for single instructions and detour buffers, handed out in slots."""

from __future__ import annotations

from collections import deque

from kpfs.base.ktypes import KAddr
from kpfs.engine.machine import Machine

CHUNK_SIZE = 0x10000  # bytes got from the machine at a time, in whole pages
_PAGE_SHIFT = 12


class KprobeInsnCache:
    """Slots of one size, near the text.  Kernel: struct kprobe_insn_cache.

    A slot that a CPU may have run (dirty) is used again only after a quiescent state.
    The one given back last is used first, so that no new memory is touched.  Code that
    was translated of slots is dropped when one is taken next, of all at once: many are
    given back together.
    """

    def __init__(
        self, machine: Machine, insn_size: int, sym: str, *, has_regs: bool = False
    ) -> None:
        """Slots of insn_size bytes; sym is how kallsyms calls their pages.

        has_regs: see kpfs.engine.machine.Area.alloc_text().
        """
        self._area = machine.area
        self._quiescence = machine.quiescence
        self._drop = machine.text_writer.drop
        self.insn_size = insn_size
        self.sym = sym
        self._has_regs = has_regs
        self.pages: list[KAddr] = []  # chunks of CHUNK_SIZE bytes
        self._numbers: set[int] = set()  # numbers of all pages of memory in them
        self._used: set[int] = set()  # handed out, not yet given back
        self._freed: list[int] = []  # given back, but there may be code of them
        self._clean: deque[int] = deque()

    @property
    def nr_used(self) -> int:
        return len(self._used)

    def get_insn_slot(self) -> KAddr:
        """Take a slot; its bytes are whatever they were, and no code is of them.

        Context: control.  Kernel: __get_insn_slot()
        """
        if self._freed:
            self._reuse()
        elif not self._clean:
            self._grow()
        slot = self._clean.popleft()
        self._used.add(slot)
        return KAddr(slot)

    def free_insn_slot(self, slot: KAddr, dirty: bool = True) -> None:
        """Give a slot back; dirty: a CPU may be inside.  Kernel: __free_insn_slot()"""
        self._used.remove(slot)
        if dirty:
            self._quiescence.call_after(lambda: self._freed.append(slot))
        else:
            self._freed.append(slot)

    def is_insn_slot_addr(self, addr: int) -> bool:
        """Return True if addr lies in memory of this cache.

        Context: either.  Kernel: __is_insn_slot_addr()
        """
        return addr >> _PAGE_SHIFT in self._numbers

    def _reuse(self) -> None:
        """Drop the code of the slots that were given back, a row of them at a time."""
        freed, self._freed = self._freed, []
        self._clean.extendleft(freed)
        freed = sorted(freed)
        start = end = freed[0]
        for slot in freed:
            if slot != end:
                self._drop(start, end - start)
                start = slot
            end = slot + self.insn_size
        self._drop(start, end - start)

    def _grow(self) -> None:
        page = self._area.alloc_text(CHUNK_SIZE, has_regs=self._has_regs)
        self.pages.append(page)
        end = page + CHUNK_SIZE
        self._drop(page, CHUNK_SIZE)
        self._numbers.update(range(page >> _PAGE_SHIFT, end >> _PAGE_SHIFT))
        self._clean.extend(range(page, end - self.insn_size + 1, self.insn_size))
