# SPDX-License-Identifier: GPL-2.0-or-later
"""Probes whose handlers are Python functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping

from kpfs.base.typed import NamedTuple, Protocol


class Registers(Protocol):
    """The registers at a hit, unsigned.  What a handler sets goes back to the CPU.

    They are valid until the handler returns.  An index gives a word of the structure,
    in the order of memory.  There are those of the kernel's architecture alone.
    Kernel: struct pt_regs
    """

    # x86-64

    r15: int
    r14: int
    r13: int
    r12: int
    bp: int
    bx: int
    r11: int
    r10: int
    r9: int
    r8: int
    ax: int
    cx: int
    dx: int
    si: int
    di: int
    orig_ax: int
    ip: int
    cs: int
    flags: int
    sp: int
    ss: int

    # arm64
    x0: int
    x1: int
    x2: int
    x3: int
    x4: int
    x5: int
    x6: int
    x7: int
    x8: int
    x9: int
    x10: int
    x11: int
    x12: int
    x13: int
    x14: int
    x15: int
    x16: int
    x17: int
    x18: int
    x19: int
    x20: int
    x21: int
    x22: int
    x23: int
    x24: int
    x25: int
    x26: int
    x27: int
    x28: int
    x29: int
    x30: int
    pc: int
    pstate: int

    # s390x
    pswm: int
    pswa: int
    r0: int
    r1: int
    r2: int
    r3: int
    r4: int
    r5: int
    r6: int
    r7: int
    orig_gpr2: int

    # armhf, beside names of others
    fp: int
    lr: int
    cpsr: int
    orig_r0: int

    # ppc64
    gpr0: int
    gpr1: int
    gpr2: int
    gpr3: int
    gpr4: int
    gpr5: int
    gpr6: int
    gpr7: int
    gpr8: int
    gpr9: int
    gpr10: int
    gpr11: int
    gpr12: int
    nip: int
    msr: int
    link: int
    ctr: int
    ccr: int
    orig_gpr3: int

    # riscv64
    epc: int
    ra: int
    gp: int
    tp: int
    t0: int
    t1: int
    t2: int
    t3: int
    t4: int
    t5: int
    t6: int
    s0: int
    s1: int
    s2: int
    s3: int
    s4: int
    s5: int
    s6: int
    s7: int
    s8: int
    s9: int
    s10: int
    s11: int
    a0: int
    a1: int
    a2: int
    a3: int
    a4: int
    a5: int
    a6: int
    a7: int
    status: int
    badaddr: int
    cause: int
    orig_a0: int

    def __getitem__(self, i: int) -> int: ...
    def __setitem__(self, i: int, value: int) -> None: ...
    def __iter__(self) -> Iterator[int]: ...


# Handlers are called while the kernel stands at the probe, and may read and write its
# memory and registers.  A PreHandler returns non-zero if it has set up the registers
# itself and execution has to go on at regs.ip.
PreHandler = Callable[[Registers], "int | None"]
PostHandler = Callable[[Registers], object]
ReturnHandler = Callable[[Registers], object]
# by the fields of struct kprobe or struct kretprobe that they are for
Handlers = Mapping[str, Callable[[Registers], object] | None]


class ProbeDefinition(NamedTuple):
    """A probe that is to be registered."""

    symbol: str | int  # or an address
    offset: int
    handlers: Handlers
    maxactive: int | None = None  # for a return probe; 0: the kernel's default

    @property
    def place(self) -> str:
        """The place as it was given: SYMBOL[+OFFSET] or an address."""
        if isinstance(self.symbol, int):
            return hex(self.symbol + self.offset)
        return f"{self.symbol}+{self.offset:#x}" if self.offset else self.symbol


class Probe(ABC):
    """A registered probe.  As a context manager it is unregistered at the end.

    Its methods raise OSError where the kernel refuses.
    """

    place: str  # as it was given: SYMBOL[+OFFSET] or an address
    kind: str  # as in kprobes/list: k or r
    address: int  # in the kernel

    def __enter__(self) -> Probe:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.closed:
            self.unregister()

    def __repr__(self) -> str:
        return f"<Probe {self.kind} {self.place}>"

    @property
    @abstractmethod
    def closed(self) -> bool:
        """True if the kernel is closed."""

    @property
    @abstractmethod
    def nmissed(self) -> int:
        """The number of hits for which its handlers were not called."""

    @abstractmethod
    def disable(self) -> None:
        """Disarm the probe; it stays registered."""

    @abstractmethod
    def enable(self) -> None:
        """Arm the probe again."""

    @abstractmethod
    def unregister(self) -> None:
        """Remove the probe; no handler is called any more.  Twice does no harm."""
