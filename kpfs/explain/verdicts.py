# SPDX-License-Identifier: GPL-2.0-or-later
"""The fate of a probe: accepted or refused, and whether it becomes a jump.

A verdict comes from the very checks of registration. kpfs.engine.register looks at the
address, the architecture at the instruction and at the jump, and the checks of
kprobe_events are in kpfs.engine.trace. They need the tables and bytes of a kernel,
which need not run: a guest kernel has them, and so has a dump (kpfs.explain.image).
"""

from __future__ import annotations

import errno
from typing import NamedTuple, cast

from kpfs.base.errors import KernelError, MemoryFault
from kpfs.base.ktypes import FUNCTION_TYPES, KAddr
from kpfs.engine.arch_hooks import Arch
from kpfs.engine.arm import check_ftrace_location
from kpfs.engine.judge import Judge, Jump, Tables, symbol_range
from kpfs.engine.kprobe import Kprobe, kprobe_ftrace
from kpfs.engine.machine import Machine
from kpfs.engine.register import check_kprobe_address_safe
from kpfs.engine.state import State
from kpfs.engine.trace.probe.notrace import within_notrace_func


class Verdict(NamedTuple):
    """The fate of a probe."""

    errno: int  # 0: accepted
    why: str  # why it was refused
    ftrace: bool = False
    jump: Jump | None = None  # None: refused, or uses ftrace

    @property
    def name(self) -> str:
        """The name of the errno; ok if accepted."""
        return errno_name(self.errno) if self.errno else "ok"

    @property
    def in_short(self) -> str:
        """The fate in a line."""
        if self.errno:
            return f"refused, {self.name}: {self.why}"
        if self.jump is None:
            return "accepted, [FTRACE]: the entry nop becomes a call"
        if self.jump.why_not:
            return f"accepted, not optimised: {self.jump.why_not}"
        most = f", if fewer than {self.jump.most} do" if self.jump.most else ""
        return f"accepted, [OPTIMIZED]: a jump replaces {self.jump.size} bytes{most}"

    @property
    def tag(self) -> str:
        """The tag in kprobes/list; - if refused."""
        if self.errno:
            return "-"
        if self.ftrace:
            return "FTRACE"
        return "none" if self.jump is None or self.jump.why_not else "OPTIMIZED"


def errno_name(number: int) -> str:
    """Return the kernel's name of an errno; Python prefers ENOTSUP, not Linux's."""
    if number == errno.EOPNOTSUPP:
        return "EOPNOTSUPP"
    return errno.errorcode.get(number, str(number))


def check_text(st: State, addr: int) -> None:
    """Raise KernelError, as registration would, if there is no code at addr."""
    if st.machine.text.is_text(addr):
        return
    symbol = st.machine.kallsyms.symbol_at(addr)
    init, end = symbol_range(st.machine, "__init_begin", "__init_end")
    freed = init <= addr < end
    if symbol is None:
        why = "not kernel text"
    elif freed and symbol.type in FUNCTION_TYPES:
        why = f"{symbol.name} is init text, which is freed after boot"
    else:  # a linker script may call data what it is not, as jiffies of 7.3
        why = f"{symbol.name} is data, not a function"
    raise KernelError(errno.EINVAL, why)


def judge(st: State, arch: Judge, addr: int) -> Verdict:
    """Return the fate of an event `p ADDR` that is alone in its function.

    Raises MemoryFault if it depends on bytes that are unknown.

    Context: control.
    """
    p = Kprobe(addr=KAddr(addr))
    try:
        check_text(st, addr)
        try:
            if within_notrace_func(st.machine, addr):
                raise KernelError(errno.EINVAL, "its function has no ftrace site")
        except MemoryFault:
            # a place that the tables forbid is EINVAL, with or without an ftrace site
            check_kprobe_address_safe(st, KAddr(addr))
            raise
        check_ftrace_location(st, p)
        check_kprobe_address_safe(st, KAddr(addr))
        if kprobe_ftrace(p):
            return Verdict(0, "", ftrace=True)
        arch.check_instruction(addr)
    except KernelError as refused:
        return Verdict(refused.errno, refused.why)
    return Verdict(0, "", jump=arch.check_jump(addr))


class _JudgingArch:
    """The few parts of an architecture that the core's checks need."""

    kretprobe_blacklist = ()

    def __init__(self, arch: Judge) -> None:
        self.arch_within_kprobe_blacklist = arch.arch_within_kprobe_blacklist
        self.arch_adjust_kprobe_addr = arch.arch_adjust_kprobe_addr

    def arch_init_kprobes(self, core: object) -> None:
        """Do nothing: no probe will ever be armed."""


def judging_state(tables: Tables, arch: Judge) -> State:
    """Return a State whose addresses can be judged, but not probed.

    The casts are sound because those checks only read tables.
    """
    return State(
        cast(Machine, tables),
        cast(Arch, _JudgingArch(arch)),
        kprobes_on_ftrace=arch.kprobes_on_ftrace,
        kprobe_lookup_name=arch.kprobe_lookup_name,
    )
