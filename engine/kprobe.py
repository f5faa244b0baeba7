# SPDX-License-Identifier: GPL-2.0-or-later
"""The probes themselves: plain records, and questions about their flags."""

from __future__ import annotations

import enum
from collections.abc import Callable

from kpfs.base import abi
from kpfs.base.ktypes import KAddr
from kpfs.base.typed import TYPE_CHECKING


class KprobeFlag(enum.IntFlag):
    """The flags of a probe.  Kernel: KPROBE_FLAG_*.

    Its operators are made anew, as those of IntFlag take a microsecond or two, and
    flags are changed for thousands of probes at once.
    """

    GONE = abi.KPROBE_FLAG_GONE  # the text it was in is no more
    DISABLED = abi.KPROBE_FLAG_DISABLED  # temporarily disabled
    OPTIMIZED = abi.KPROBE_FLAG_OPTIMIZED  # is (or is queued to be) a jump
    FTRACE = abi.KPROBE_FLAG_FTRACE  # uses ftrace
    ON_FUNC_ENTRY = abi.KPROBE_FLAG_ON_FUNC_ENTRY

    def __and__(self, other: int) -> KprobeFlag:
        return _FLAGS[_and(self, other)]

    def __or__(self, other: int) -> KprobeFlag:
        return _FLAGS[_or(self, other)]

    def __invert__(self) -> KprobeFlag:
        return _FLAGS[_ALL - int(self)]


_and, _or = int.__and__, int.__or__
_ALL = 2 * KprobeFlag.ON_FUNC_ENTRY - 1
_FLAGS = tuple(KprobeFlag(bits) for bits in range(_ALL + 1))
NO_FLAGS = KprobeFlag(0)
NO_ADDR = KAddr(0)


class PtRegs:
    """The registers as a handler sees them; the architecture has its own.

    A word is got by its index in struct pt_regs, or by the register's name.
    Kernel: struct pt_regs
    """

    __slots__ = ()

    def __getitem__(self, i: int) -> int:
        raise NotImplementedError

    def __setitem__(self, i: int, value: int) -> None:
        raise NotImplementedError

    if TYPE_CHECKING:  # the names are the architecture's

        def __getattr__(self, name: str) -> int: ...
        def __setattr__(self, name: str, value: int) -> None: ...


class ArchInsn:
    """Architecture's part of a probe.  Kernel: struct arch_specific_insn"""

    __slots__ = ()


class ArchOptInsn:
    """The architecture's state of a jump.  Kernel: struct arch_optimized_insn"""

    __slots__ = ()


# A handler is a Python callable, called in hit context, or the address of guest code
# with the same arguments: fn(p, regs).  pre_handler returns non-zero when it has set up
# the registers itself and execution shall go on at regs.ip.
PreHandler = Callable[["Kprobe", PtRegs], int | None]
PostHandler = Callable[["Kprobe", PtRegs, int], None]
FaultHandler = Callable[["Kprobe", PtRegs, int], int | None]
BreakHandler = Callable[["Kprobe", PtRegs], int | None]


class Kprobe:
    """A probe at one address.  Kernel: struct kprobe.

    Set by the user: what is handed in here.  The rest belongs to the engine while the
    probe is registered.
    """

    __slots__ = (
        "addr", "ainsn", "break_handler", "data", "fault_handler", "flags", "guest_at",
        "guest_kp", "handler", "is_aggr", "kind", "list", "nmissed", "offset", "opcode",
        "post_handler", "pre_handler", "site", "symbol_name",
    )  # fmt: skip

    def __init__(
        self,
        symbol_name: str | None = None,
        offset: int = 0,
        addr: KAddr = NO_ADDR,
        *,
        pre_handler: PreHandler | KAddr | None = None,
        post_handler: PostHandler | KAddr | None = None,
        fault_handler: FaultHandler | KAddr | None = None,
        break_handler: BreakHandler | KAddr | None = None,
        flags: KprobeFlag = NO_FLAGS,
        kind: str = "k",
        data: int = 0,
        guest_kp: int = 0,
        guest_at: int = 0,
    ) -> None:
        """symbol_name and offset, or addr: where it is.

        kind: the letter of the list: k, r (return probe's entry), j.
        data: the word that the guest code of pre_handler finds in kp_handler.data.
        guest_kp: a module's struct kprobe for kp_handler.kp; guest_at: a module's
        struct kprobe, whatever its handlers are called with.
        """
        self.symbol_name = symbol_name
        self.offset = offset
        self.addr = addr  # always known once the probe is registered
        self.pre_handler = pre_handler
        self.post_handler = post_handler
        # for a fault of the probed instruction or in a handler (in Python: a
        # MemoryFault)
        self.fault_handler = fault_handler
        # for a breakpoint hit within a handler that is guest code; at most one probe at
        # an address has one, and it stands last on the list
        self.break_handler = break_handler
        self.flags = flags
        self.kind = kind
        self.data = data
        self.guest_kp = guest_kp
        self.guest_at = guest_at

        self.opcode = b""  # the original instruction bytes
        self.ainsn: ArchInsn | None = None
        self.handler: KAddr | None = None  # its struct kp_handler in guest memory
        # aggr_kprobe: the probes it stands for, newest first; empty for a plain one
        self.list: list[Kprobe] = []
        self.is_aggr = False
        self.site: KAddr | None = None  # struct kp_site of the entry in kprobe_table
        # as it stood when the probe was unregistered; kprobe_nmissed() before that
        self.nmissed = 0


class OptQueue(enum.Enum):
    """The list of the optimizer that a probe is on.  Kernel: optimized_kprobe.list."""

    NONE = 0
    OPTIMIZING = 1  # to become a jump
    UNOPTIMIZING = 2  # to become a breakpoint again
    FREEING = 3  # is a breakpoint again; the worker finishes it
    __hash__ = object.__hash__  # Enum has one in Python


class OptimizedKprobe(Kprobe):
    """An aggr_kprobe, with what the optimizer keeps.  Kernel: struct optimized_kprobe.

    The tag OPTIMIZED is set when it is queued; the jump is in the text when it is set
    and the probe is on no list or still on the unoptimizing one.
    """

    __slots__ = ("epoch", "optinsn", "queue")

    def __init__(self, addr: KAddr, pre_handler: PreHandler) -> None:
        super().__init__(addr=addr, pre_handler=pre_handler)
        self.is_aggr = True
        self.queue = OptQueue.NONE
        self.optinsn: ArchOptInsn | None = None  # None: it cannot be a jump
        # run of the optimizer that saw it queued first: see engine/optimizer.py
        self.epoch = 0


_GONE = int(KprobeFlag.GONE)
_DISABLED = int(KprobeFlag.DISABLED | KprobeFlag.GONE)
_OPTIMIZED = int(KprobeFlag.OPTIMIZED)
_FTRACE = int(KprobeFlag.FTRACE)


def kprobe_gone(p: Kprobe) -> bool:
    return _and(p.flags, _GONE) != 0


def kprobe_disabled(p: Kprobe) -> bool:
    """Disabled by the user, or its text is gone."""
    return _and(p.flags, _DISABLED) != 0


def kprobe_optimized(p: Kprobe) -> bool:
    return _and(p.flags, _OPTIMIZED) != 0


def set_optimized(p: Kprobe) -> None:
    p.flags = _FLAGS[_or(p.flags, _OPTIMIZED)]


def clear_optimized(p: Kprobe) -> None:
    p.flags = _FLAGS[_and(p.flags, ~_OPTIMIZED)]


def kprobe_ftrace(p: Kprobe) -> bool:
    return _and(p.flags, _FTRACE) != 0


def kprobe_unused(p: Kprobe) -> bool:
    """Return True for an aggr_kprobe without probes, which the optimizer is to free."""
    return p.is_aggr and kprobe_disabled(p) and not p.list


def kprobe_optready(p: Kprobe) -> bool:
    """Return True if there is a detour buffer.  Kernel: arch_prepared_optinsn()."""
    return isinstance(p, OptimizedKprobe) and p.optinsn is not None


def kprobe_queued(p: Kprobe) -> bool:
    """Return True if it is on a list of the optimizer."""
    return isinstance(p, OptimizedKprobe) and p.queue is not OptQueue.NONE


def kprobe_disarmed(p: Kprobe) -> bool:
    """Disabled, and no change of its text is still to come."""
    return kprobe_disabled(p) and not kprobe_queued(p)
