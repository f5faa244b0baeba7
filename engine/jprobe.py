# SPDX-License-Identifier: GPL-2.0-or-later
"""Jumper probes: at a function's entry, another one is called with its arguments.

The entry function runs on the probed function's stack with its registers.  If it is
guest code it ends in jprobe_return(), which traps: registers and the top of the stack
are then what they were, and the probed function goes on.  The code for that is the
architecture's: setjmp_pre_handler, longjmp_break_handler.
"""

from __future__ import annotations

import errno
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kpfs.engine.errors import KernelError
from kpfs.engine.kprobe import Kprobe, PreHandler, PtRegs
from kpfs.engine.ktypes import KAddr
from kpfs.engine.register import (
    disable_kprobe,
    enable_kprobe,
    register_kprobe,
    unregister_kprobes,
)
from kpfs.engine.state import State


@dataclass(eq=False)
class Jprobe:
    """Kernel: struct jprobe.

    entry is the address of guest code, or a Python callable that takes as many
    arguments of the probed function as it has parameters, unsigned; called in hit
    context, it just returns.
    """

    kp: Kprobe = field(default_factory=Kprobe)
    entry: Callable[..., object] | KAddr | None = None


def register_jprobe(st: State, jp: Jprobe) -> None:
    """Register a jprobe, armed unless disabled.

    EINVAL: the entry is not a function's; EEXIST: there is a jprobe at that address;
    and what register_kprobe() raises.

    Context: control.
    Kernel: register_jprobe()
    """
    kp = jp.kp
    entry = jp.entry
    if callable(entry):
        kp.pre_handler = _caller(st, entry)
    else:
        symbol = st.machine.kallsyms.symbol_at(entry) if entry else None
        if symbol is None or symbol.addr != entry:
            raise KernelError(errno.EINVAL, "the entry is not a function's")
        kp.pre_handler = st.arch.setjmp_pre_handler
        kp.data = symbol.addr
        st.arch.prepare_jprobes()
    kp.break_handler = st.arch.longjmp_break_handler
    kp.kind = "j"
    register_kprobe(st, kp)


def _caller(st: State, entry: Callable[..., object]) -> PreHandler:
    """The pre_handler that calls a Python entry function."""
    count = len(inspect.signature(entry).parameters)
    argument = st.arch.calls.argument

    def pre_handler(_p: Kprobe, regs: PtRegs) -> int:
        entry(*[argument(regs, n) for n in range(count)])
        return 0

    return pre_handler


def register_jprobes(st: State, jps: Sequence[Jprobe]) -> None:
    """Register all or none; EINVAL for no probe at all.

    Context: control.
    Kernel: register_jprobes()
    """
    if not jps:
        raise KernelError(errno.EINVAL, "no probes given")
    with st.arch.text_poke:
        for i, jp in enumerate(jps):
            try:
                register_jprobe(st, jp)
            except KernelError:
                unregister_jprobes(st, jps[:i])
                raise


def unregister_jprobe(st: State, jp: Jprobe) -> None:
    """Unregister a jprobe; if it is not registered, clear its address.

    Context: control.
    Kernel: unregister_jprobe()
    """
    unregister_jprobes(st, [jp])


def unregister_jprobes(st: State, jps: Sequence[Jprobe]) -> None:
    """Context: control.  Kernel: unregister_jprobes()"""
    unregister_kprobes(st, [jp.kp for jp in jps])


def enable_jprobe(st: State, jp: Jprobe) -> None:
    """Context: control.  Kernel: enable_jprobe()"""
    enable_kprobe(st, jp.kp)


def disable_jprobe(st: State, jp: Jprobe) -> None:
    """Context: control.  Kernel: disable_jprobe()"""
    disable_kprobe(st, jp.kp)
