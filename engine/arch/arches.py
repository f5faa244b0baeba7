# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of architectures, the one place in the core that names them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from kpfs.base.typed import NamedTuple, Protocol, cast
from kpfs.engine.arch.unused import Called, Ways
from kpfs.engine.arch_hooks import Arch
from kpfs.engine.judge import DumpJudge, Judge, Tables
from kpfs.engine.kprobe import PtRegs
from kpfs.engine.listing import CapstoneWords
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


def _x86_ways() -> type[Ways]:
    from kpfs.engine.arch.x86.unused import X86Ways

    return X86Ways


def _arm64_ways() -> type[Ways]:
    from kpfs.engine.arch.arm64.unused import Arm64Ways

    return Arm64Ways


_WAYS: dict[str, Callable[[], type[Ways]]] = {"x86": _x86_ways, "arm64": _arm64_ways}


def is_unused(
    code: bytes,
    at: int,
    looked_at: Sequence[int],
    trails: Sequence[Sequence[int]],
    arch: str,
    calls: Sequence[Called] = (),
) -> bool:
    """Return True if no task has used what the load at an offset of a function loads.

    looked_at: offsets of the instructions that are noted when a task comes to them.
    trails: of those that each task has come to behind the load.
    calls: of the function, as far as anything is known about what they use.
    """
    ways = _WAYS[arch]()(code, at, looked_at, calls)
    return all(map(ways.is_unused, trails))


class FrameMemory(Protocol):
    """Memory that a frame lies in; see kpfs.engine.machine.Memory."""

    def read_u64(self, addr: int) -> int: ...

    def write_u64(self, addr: int, value: int) -> None: ...


# code, its address -> what may be addresses in its instructions, each with True if it
# is one of memory that they access
NamedAddresses = Callable[[bytes, int], Iterator[tuple[int, bool]]]


class TextTools(NamedTuple):
    """Tools of an architecture for text that need not be running, and for frames."""

    judge: Callable[[Tables], Judge]
    # live and saved text, its address, names of addresses -> a listing of both
    compared: Callable[[bytes, bytes, int, Callable[[int], str]], Iterator[str]]
    # a struct pt_regs that a kernel has saved: its memory, and the address
    frame: Callable[[FrameMemory, int], PtRegs]
    named_addresses: NamedAddresses | None = None


def _x86_judge(tables: Tables) -> DumpJudge:
    from kpfs.engine.arch.x86.checks.verdicts import X86Judge

    return X86Judge(tables)


def _x86_text() -> TextTools:
    from kpfs.engine.arch.x86.compare import compared_listing
    from kpfs.engine.arch.x86.regs import FramePtRegs

    def frame(memory: FrameMemory, addr: int) -> PtRegs:
        regs = FramePtRegs(cast(Machine, memory))  # which asks for no more
        regs.addr = addr
        return regs

    return TextTools(_x86_judge, compared_listing, frame)


def _tools(
    judge: Callable[[Tables], Judge],
    words: Callable[[], CapstoneWords],
    frame: Callable[[FrameMemory, int], PtRegs],
    named_addresses: NamedAddresses | None = None,
) -> TextTools:
    """Return the tools where the words for instructions are capstone's."""

    def compared(
        live: bytes, saved: bytes, start: int, name: Callable[[int], str]
    ) -> Iterator[str]:
        return words().compared(live, saved, start, name)

    return TextTools(judge, compared, frame, named_addresses)


def _arm64_text() -> TextTools:
    from kpfs.engine.arch.arm64.checks.verdicts import Arm64Judge
    from kpfs.engine.arch.arm64.insn import Disassembler
    from kpfs.engine.arch.frames import Arm64Regs

    return _tools(Arm64Judge, Disassembler, Arm64Regs)


def _riscv64_text() -> TextTools:
    from kpfs.engine.arch.frames import Riscv64Regs
    from kpfs.engine.arch.riscv64.checks.verdicts import Riscv64Judge
    from kpfs.engine.arch.riscv64.insn import Disassembler

    return _tools(Riscv64Judge, Disassembler, Riscv64Regs)


def _s390x_text() -> TextTools:
    from kpfs.engine.arch.frames import S390xRegs
    from kpfs.engine.arch.s390x.checks.verdicts import S390xJudge
    from kpfs.engine.arch.s390x.insn import Disassembler

    return _tools(S390xJudge, Disassembler, S390xRegs)


def _ppc64_text() -> TextTools:
    from kpfs.engine.arch.frames import Ppc64Regs
    from kpfs.engine.arch.ppc64.checks.verdicts import Ppc64Judge
    from kpfs.engine.arch.ppc64.insn import Disassembler, named_addresses

    return _tools(Ppc64Judge, Disassembler, Ppc64Regs, named_addresses)


def _armhf_text() -> TextTools:
    from kpfs.engine.arch.armhf.checks.verdicts import ArmhfJudge
    from kpfs.engine.arch.armhf.insn import Disassembler, named_addresses
    from kpfs.engine.arch.frames import ArmhfRegs

    return _tools(ArmhfJudge, Disassembler, ArmhfRegs, named_addresses)


def _i386_text() -> TextTools:
    from kpfs.engine.arch.frames import I386Regs
    from kpfs.engine.arch.x86.checks.verdicts import X86Judge
    from kpfs.engine.arch.x86.compare import compared_listing
    from kpfs.engine.arch.x86.insn import named_addresses

    listing = partial(compared_listing, bits=32)
    judge = partial(X86Judge, bits=32)
    return TextTools(judge, listing, I386Regs, named_addresses)


def _mips64_text() -> TextTools:
    from kpfs.engine.arch.frames import Mips64Regs
    from kpfs.engine.arch.mips64.checks.verdicts import Mips64Judge
    from kpfs.engine.arch.mips64.insn import Disassembler, named_addresses

    return _tools(Mips64Judge, Disassembler, Mips64Regs, named_addresses)


# Machine.arch -> what imports its tools
TEXT_TOOLS: dict[str, Callable[[], TextTools]] = {
    "x86": _x86_text,
    "arm64": _arm64_text,
    "riscv64": _riscv64_text,
    "s390x": _s390x_text,
    "ppc64": _ppc64_text,
    "armhf": _armhf_text,
    "i386": _i386_text,
    "mips64": _mips64_text,
}


def _judge(arch: str, tables: Tables) -> Judge:
    return TEXT_TOOLS[arch]().judge(tables)


# Machine.arch -> what makes a Judge; DUMP_JUDGES have those of dumps
DUMP_JUDGES: dict[str, Callable[[Tables], DumpJudge]] = {"x86": _x86_judge}
JUDGES: dict[str, Callable[[Tables], Judge]] = {
    arch: partial(_judge, arch) for arch in TEXT_TOOLS
}
