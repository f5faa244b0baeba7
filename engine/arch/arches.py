# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of architectures, the one place in the core that names them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kpfs.base.typed import Protocol, cast
from kpfs.engine.arch_hooks import Arch
from kpfs.engine.judge import DumpJudge, Judge, Tables
from kpfs.engine.kprobe import PtRegs
from kpfs.engine.machine import Machine
from kpfs.engine.runtime.runtime import Runtime


class GuestArch(Arch, Protocol):
    """An architecture as events need it: with the runtime in its guest."""

    runtime: Runtime  # once it is a core's

    def original_text(self, addr: int, size: int) -> bytes:
        """Return text without patches; MemoryFault where there is none.

        Context: control.  Kernel: recover_probed_instruction()
        """

    @property
    def text_changes(self) -> int:
        """Changes when probes, tracers, profilers come or go.  Context: any."""

    def patched_text(self) -> Iterator[int]:
        """Yield the addresses where they stand.  Context: control."""


MakeArch = Callable[[Machine], GuestArch]


def _x86() -> MakeArch:
    # here, for it imports the disassembler
    from kpfs.engine.arch.x86.core import X86

    return X86


# Machine.arch -> what imports its maker
ARCHES: dict[str, Callable[[], MakeArch]] = {"x86": _x86}


def _x86_judge(tables: Tables) -> DumpJudge:
    from kpfs.engine.arch.x86.checks.verdicts import X86Judge

    return X86Judge(tables)


def _arm64_judge(tables: Tables) -> Judge:
    from kpfs.engine.arch.arm64.checks.verdicts import Arm64Judge

    return Arm64Judge(tables)


def _riscv64_judge(tables: Tables) -> Judge:
    from kpfs.engine.arch.riscv64.checks.verdicts import Riscv64Judge

    return Riscv64Judge(tables)


# Machine.arch -> what makes a Judge, for text that need not be running
DUMP_JUDGES: dict[str, Callable[[Tables], DumpJudge]] = {"x86": _x86_judge}
JUDGES: dict[str, Callable[[Tables], Judge]] = {
    **DUMP_JUDGES,
    "arm64": _arm64_judge,
    "riscv64": _riscv64_judge,
}


def _x86_compared(
    live: bytes, saved: bytes, start: int, name: Callable[[int], str]
) -> Iterator[str]:
    from kpfs.engine.arch.x86.compare import compared_listing

    return compared_listing(live, saved, start, name)


def _arm64_compared(
    live: bytes, saved: bytes, start: int, name: Callable[[int], str]
) -> Iterator[str]:
    from kpfs.engine.arch.arm64.insn import compared_listing

    return compared_listing(live, saved, start, name)


def _riscv64_compared(
    live: bytes, saved: bytes, start: int, name: Callable[[int], str]
) -> Iterator[str]:
    from kpfs.engine.arch.riscv64.insn import compared_listing

    return compared_listing(live, saved, start, name)


# live and saved text, its address, names of addresses -> a listing of both
Compared = Callable[[bytes, bytes, int, Callable[[int], str]], Iterator[str]]
COMPARED: dict[str, Compared] = {
    "x86": _x86_compared,
    "arm64": _arm64_compared,
    "riscv64": _riscv64_compared,
}


class FrameMemory(Protocol):
    """Memory that a frame lies in; see kpfs.engine.machine.Memory."""

    def read_u64(self, addr: int) -> int: ...

    def write_u64(self, addr: int, value: int) -> None: ...


def _x86_frame(memory: FrameMemory, addr: int) -> PtRegs:
    from kpfs.engine.arch.x86.regs import FramePtRegs

    regs = FramePtRegs(cast(Machine, memory))  # which asks for no more
    regs.addr = addr
    return regs


def _arm64_frame(memory: FrameMemory, addr: int) -> PtRegs:
    from kpfs.engine.arch.arm64.regs import FramePtRegs

    return FramePtRegs(memory, addr)


def _riscv64_frame(memory: FrameMemory, addr: int) -> PtRegs:
    from kpfs.engine.arch.riscv64.regs import FramePtRegs

    return FramePtRegs(memory, addr)


# a struct pt_regs that a kernel has saved: its memory, and the address
FRAMES: dict[str, Callable[[FrameMemory, int], PtRegs]] = {
    "x86": _x86_frame,
    "arm64": _arm64_frame,
    "riscv64": _riscv64_frame,
}
