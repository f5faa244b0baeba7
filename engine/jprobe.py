# SPDX-License-Identifier: GPL-2.0-or-later
"""Jprobes, which call another function at a function's entry, with its arguments.

The entry function runs on the probed function's stack with its registers.  If it is
guest code it ends in jprobe_return(), which traps: registers and the top of the stack
are then what they were, and the probed function goes on.  The code for that is the
architecture's: arch_hooks.Jprobes.

A jprobe is a kprobe with other handlers.  So there are no functions to unregister,
enable or disable one: those for kprobes do it, when called with its kp.
"""

from __future__ import annotations

import errno
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field

from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KAddr
from kpfs.engine.kprobe import Kprobe, PreHandler, PtRegs
from kpfs.engine.register import kprobe_on_func_entry, register_kprobe
from kpfs.engine.state import State


@dataclass(eq=False)
class Jprobe:
    """A probe that calls the function ``entry``.  Kernel: struct jprobe.

    entry is the address of guest code, or a Python callable that takes as many
    arguments of the probed function as it has parameters, unsigned; called in hit
    context, it just returns.
    """

    kp: Kprobe = field(default_factory=Kprobe)
    entry: Callable[..., object] | KAddr | None = None


def register_jprobe(st: State, jp: Jprobe) -> None:
    """Register a jprobe, armed unless disabled.

    EINVAL: the probe point, or what the entry is, is no function's entry; EEXIST: there
    is a jprobe at that address; and what register_kprobe() raises.

    Context: control.  Kernel: register_jprobe()
    """
    kp = jp.kp
    kprobe_on_func_entry(st, kp.addr, kp.symbol_name, kp.offset)
    entry = jp.entry
    if callable(entry):
        kp.pre_handler = _caller(st, entry)
    else:
        symbol = st.machine.kallsyms.symbol_at(entry) if entry else None
        if symbol is None or symbol.addr != entry:
            raise KernelError(errno.EINVAL, "the entry is not a function's")
        kp.pre_handler = st.arch.jprobes.pre_handler
        kp.data = symbol.addr
        st.arch.jprobes.prepare()
    kp.break_handler = st.arch.jprobes.break_handler
    kp.kind = "j"
    register_kprobe(st, kp)


def _caller(st: State, entry: Callable[..., object]) -> PreHandler:
    """Return the pre_handler that calls a Python entry function."""
    count = len(inspect.signature(entry).parameters)
    argument = st.arch.calls.argument

    def pre_handler(_p: Kprobe, regs: PtRegs) -> int:
        entry(*[argument(regs, n) for n in range(count)])
        return 0

    return pre_handler
