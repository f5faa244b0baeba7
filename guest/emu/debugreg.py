# SPDX-License-Identifier: GPL-2.0-or-later
"""The debug registers of the virtual CPUs: memory whose use raises #DB.

They are words in each CPU's struct kpfs_pcpu, in the format of the processor's manual.
The guest writes them there and says so (CTL_DEBUGREG).  The emulator knows physical
addresses alone, so that an access by way of another mapping counts too.  As on the
processor the trap comes behind the instruction.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kpfs.base import abi
from kpfs.base.errors import MemoryFault
from kpfs.guest.emu.cpu import Cpu
from kpfs.guest.emu.memory import Memory
from kpfs.guest.emu.traps import Traps
from kpfs.guest.emu.watch import DataWatch

NR_DEBUGREG = 4
_LENGTHS = (1, 2, 8, 4)  # bytes, by the length field of dr7
_TYPE_WRITE, _TYPE_RW = 1, 3
_DR = struct.Struct(f"<{NR_DEBUGREG}Q")
_U64, _I32 = struct.Struct("<Q"), struct.Struct("<i")
_MAX_ACCESS = 8  # bytes; the emulator makes several accesses of a larger one


class Watched(NamedTuple):
    """One enabled debug register: the bytes that it watches, and for which access."""

    bit: int  # in dr6
    first: int  # physical addresses
    last: int
    reads: bool

    def touched_by(self, write: bool, addr: int, size: int) -> bool:
        """Return True if an access is one that it waits for."""
        near = addr <= self.last and addr + size > self.first
        return near and (write or self.reads)


class DebugRegisters:
    """The debug registers of all CPUs."""

    def __init__(
        self, cpu: Cpu, memory: Memory, traps: Traps, pcpus: Sequence[int]
    ) -> None:
        """pcpus: address of each CPU's struct kpfs_pcpu."""
        self._cpu = cpu
        self._memory = memory
        self._traps = traps
        self._ram = memory.ram
        size = abi.KpfsPcpu.SIZE
        self._pcpus = [memory.translate(addr, size) for addr in pcpus]
        self._watched: list[list[Watched]] = [[] for _ in pcpus]
        self._watch = DataWatch(
            cpu,
            memory,
            traps.handle,
            wanted=self._wanted,
            touched=self._touched,
            done=self._raise,
        )

    def serve(self, _number: int, _first: int, _second: int) -> int:
        """Take over registers that a CPU has set (CTL_DEBUGREG). Context: control."""
        self._watched = [list(self._enabled(at)) for at in self._pcpus]
        all_watched = [w for watched in self._watched for w in watched]
        ranges = {(w.first - _MAX_ACCESS + 1, w.last) for w in all_watched}
        self._watch.set(sorted(ranges))
        return 0

    def _enabled(self, pcpu: int) -> Iterator[Watched]:
        """Return what a CPU watches, without memory that is not mapped."""
        addresses = _DR.unpack_from(self._ram, pcpu + abi.KpfsPcpu.dr)
        (dr7,) = _U64.unpack_from(self._ram, pcpu + abi.KpfsPcpu.dr7)
        for number, addr in enumerate(addresses):
            kind = dr7 >> (16 + 4 * number)
            if not dr7 >> 2 * number & 3 or kind & 3 not in (_TYPE_WRITE, _TYPE_RW):
                continue
            size = _LENGTHS[kind >> 2 & 3]
            try:
                first = self._memory.translate(addr, size)
            except MemoryFault:
                continue
            reads = kind & 3 == _TYPE_RW
            yield Watched(1 << number, first, first + size - 1, reads)

    # ---- hit
    def _wanted(self) -> bool:
        """Return True if the CPU watches anything, and is not in #DB."""
        active = self._cpu.active
        at = self._pcpus[active] + abi.KpfsPcpu.debug_off
        return bool(self._watched[active]) and not _I32.unpack_from(self._ram, at)[0]

    def _touched(self, write: bool, addr: int, size: int) -> int:
        """Return the bits of dr6 for an access."""
        bits = 0
        for watched in self._watched[self._cpu.active]:
            if watched.touched_by(write, addr, size):
                bits |= watched.bit
        return bits

    def _raise(self, bits: int) -> None:
        """Raise #DB: an instruction has run that touched what is watched."""
        ram, at = self._ram, self._pcpus[self._cpu.active]
        _U64.pack_into(ram, at + abi.KpfsPcpu.dr6, bits)
        _I32.pack_into(ram, at + abi.KpfsPcpu.debug_off, 1)
        (stack,) = _U64.unpack_from(ram, at + abi.KpfsPcpu.debug_stack_top)
        self._traps.debug_exception(stack)
