# SPDX-License-Identifier: GPL-2.0-or-later
"""struct pt_regs: the registers of the running CPU, or those saved in a guest frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from kpfs.base import abi
from kpfs.base.ktypes import MASK64
from kpfs.base.typed import cast
from kpfs.engine import kprobe
from kpfs.engine.machine import Machine

# the words of struct pt_regs from low to high addresses
NAMES = (
    "r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8", "ax",
    "cx", "dx", "si", "di", "orig_ax", "ip", "cs", "flags", "sp", "ss",
)  # fmt: skip
INDEX = {name: i for i, name in enumerate(NAMES)}
NR_REGS = len(NAMES)
PT_REGS_SIZE = abi.PtRegs.SIZE
AX, CX, SP, IP, FLAGS = (INDEX[n] for n in ("ax", "cx", "sp", "ip", "flags"))
ORIG_AX, CS, SS = INDEX["orig_ax"], INDEX["cs"], INDEX["ss"]
ARGUMENTS = tuple(INDEX[n] for n in ("di", "si", "dx", "cx", "r8", "r9"))
# register numbers as ModRM and REX encode them
BY_NUMBER = tuple(
    INDEX[n]
    for n in (
        "ax", "cx", "dx", "bx", "sp", "bp", "si", "di",
        "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
    )
)  # fmt: skip

X86_EFLAGS_CF = 0x001
X86_EFLAGS_PF = 0x004
X86_EFLAGS_ZF = 0x040
X86_EFLAGS_SF = 0x080
X86_EFLAGS_OF = 0x800

KERNEL_CS, KERNEL_DS = abi.KP_CS, abi.KP_SS


def _register(i: int) -> int:
    """A property that is register i, annotated as the int that a reader gets."""

    def get(regs: PtRegs) -> int:
        return regs._get(i)

    def put(regs: PtRegs, value: int) -> None:
        regs._put(i, value & MASK64)

    return cast(int, property(get, put, doc=f"Register {NAMES[i]}, unsigned."))


class PtRegs(kprobe.PtRegs):
    """Registers as a handler sees them; ip is the probed address + 1.

    Nothing is read before a handler asks for it.  Valid until the handler returns:
    the object is used again for the next hit.  Context: hit.  Kernel: struct pt_regs
    """

    __slots__ = ("_machine",)

    r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax = map(_register, range(11))
    cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss = map(_register, range(11, 21))

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def _get(self, i: int) -> int:
        raise NotImplementedError

    def _put(self, i: int, value: int) -> None:
        raise NotImplementedError

    def __getitem__(self, i: int) -> int:
        """Word i of struct pt_regs."""
        return self._get(i)

    def __setitem__(self, i: int, value: int) -> None:
        self._put(i, value & MASK64)

    def __iter__(self) -> Iterator[int]:
        return map(self._get, range(NR_REGS))

    def __repr__(self) -> str:
        words = zip(NAMES, self, strict=True)
        return f"<PtRegs {' '.join(f'{n}={v:#x}' for n, v in words)}>"


# pushed by a trap in the kernel
_TRAP_FRAME = {ORIG_AX: MASK64, CS: KERNEL_CS, SS: KERNEL_DS}


class LivePtRegs(PtRegs):
    """The registers of the CPU that has just trapped.

    Set trap_ip before each use, and write_back() after it if changed is not 0.
    """

    __slots__ = ("_new", "changed", "trap_ip")

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.trap_ip = 0  # the address behind the int3
        self.changed = 0  # bit i: word i has a new value
        self._new = [0] * NR_REGS

    def _get(self, i: int) -> int:
        if self.changed >> i & 1:
            return self._new[i]
        if i >= ORIG_AX:
            if i == IP:
                return self.trap_ip
            if i in _TRAP_FRAME:
                return _TRAP_FRAME[i]
        return self._machine.read_reg(i)

    def _put(self, i: int, value: int) -> None:
        self._new[i] = value
        self.changed |= 1 << i

    def write_back(self) -> int:
        """Give the CPU what was changed; return the ip, set by the trap's answer."""
        changed, new = self.changed, self._new
        ip = new[IP] if changed >> IP & 1 else self.trap_ip
        self.changed = 0
        changed &= ~(1 << IP | 1 << ORIG_AX | 1 << CS | 1 << SS)
        for i in range(NR_REGS):
            if changed >> i & 1:
                self._machine.write_reg(i, new[i])
        return ip


class FramePtRegs(PtRegs):
    """A struct pt_regs that guest code has built on its stack."""

    __slots__ = ("addr",)

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.addr = 0  # set before each use

    def _get(self, i: int) -> int:
        return self._machine.read_u64(self.addr + 8 * i)

    def _put(self, i: int, value: int) -> None:
        self._machine.write_u64(self.addr + 8 * i, value)


def regs_get_kernel_argument(regs: kprobe.PtRegs, n: int) -> int:
    """Return the n-th argument of a function, from 0, at its first instruction.

    Beyond the sixth they are on the stack: MemoryFault where it is not mapped.
    Kernel: regs_get_kernel_argument()
    """
    if n < len(ARGUMENTS):
        return regs[ARGUMENTS[n]]
    assert isinstance(regs, PtRegs)
    return regs._machine.read_u64(regs.sp + 8 * (n - len(ARGUMENTS) + 1))


class CallRegisters:
    """The places of a function's arguments: implements kpfs.engine.arch_hooks.Calls."""

    offsets: Mapping[str, int] = MappingProxyType({n: 8 * i for n, i in INDEX.items()})
    arguments = tuple(NAMES[i] for i in ARGUMENTS)
    return_value = "ax"
    stack_pointer = "sp"
    argument = staticmethod(regs_get_kernel_argument)
