# SPDX-License-Identifier: GPL-2.0-or-later
"""The aggr_kprobe: one entry of kprobe_table for all the probes at an address.

All functions are for control context, unless they say otherwise.
"""

from __future__ import annotations

from kpfs.engine.kprobe import (
    Kprobe,
    KprobeFlag,
    OptimizedKprobe,
    PtRegs,
    kprobe_disabled,
    kprobe_ftrace,
    kprobe_gone,
    kprobe_optready,
)
from kpfs.engine.state import State


def aggr_pre_handler(p: Kprobe, regs: PtRegs) -> int:
    """Call the pre_handlers of the list, until one has changed where to go on.

    This is for probes whose handlers are all Python; where one is guest code, the
    runtime walks the list itself.

    Context: hit.  Kernel: aggr_pre_handler()
    """
    for kp in p.list:
        handler = kp.pre_handler
        if callable(handler) and not kprobe_disabled(kp) and handler(kp, regs):
            return 1
    return 0


def aggr_post_handler(p: Kprobe, regs: PtRegs, flags: int) -> None:
    """Call the list's post_handlers.  Context: hit.  Kernel: aggr_post_handler()"""
    for kp in p.list:
        handler = kp.post_handler
        if callable(handler) and not kprobe_disabled(kp):
            handler(kp, regs, flags)


def copy_kprobe(ap: Kprobe, p: Kprobe) -> None:
    """Give p the architecture's objects that ap has.  Kernel: copy_kprobe()"""
    p.opcode = ap.opcode
    p.ainsn = ap.ainsn
    p.site = ap.site


def prepare_optimized_kprobe(st: State, op: OptimizedKprobe) -> None:
    """Make op's detour buffer, if possible.  Kernel: prepare_optimized_kprobe()"""
    if not st.optprobes or op.optinsn is not None or kprobe_ftrace(op):
        return
    st.arch.opt.prepare(op)
    if kprobe_optready(op):
        covered, alone = st.opt_covered, (op,)
        for a in st.arch.opt.covered(op)[1:]:
            covered[a] = covered[a] + alone if a in covered else alone


def remove_optimized_kprobe(st: State, op: OptimizedKprobe) -> None:
    """Free the detour buffer, if any.  Kernel: arch_remove_optimized_kprobe()"""
    if kprobe_optready(op):
        covered = st.opt_covered
        for a in st.arch.opt.covered(op)[1:]:
            others = covered.pop(a)
            if len(others) > 1:
                covered[a] = tuple([other for other in others if other is not op])
    st.arch.opt.remove(op)


def alloc_aggr_kprobe(st: State, p: Kprobe) -> OptimizedKprobe:
    """Make an aggr_kprobe, if possible optimisable.  Kernel: alloc_aggr_kprobe()"""
    op = OptimizedKprobe(addr=p.addr, pre_handler=aggr_pre_handler)
    op.flags = p.flags & KprobeFlag.FTRACE
    prepare_optimized_kprobe(st, op)
    return op


def init_aggr_kprobe(st: State, ap: OptimizedKprobe, p: Kprobe) -> None:
    """Put ap in p's place, and p on its list.  Kernel: init_aggr_kprobe()"""
    copy_kprobe(p, ap)
    ap.flags = p.flags & ~KprobeFlag.OPTIMIZED
    if p.post_handler and not kprobe_gone(p):
        ap.post_handler = aggr_post_handler
    if p.break_handler and not kprobe_gone(p):
        ap.break_handler = p.break_handler
    ap.list.insert(0, p)
    st.hash_add(ap)


def free_aggr_kprobe(st: State, ap: Kprobe) -> None:
    """Free an aggr_kprobe's slot and buffer.  Kernel: free_aggr_kprobe()"""
    assert isinstance(ap, OptimizedKprobe)
    remove_optimized_kprobe(st, ap)
    st.arch.arch_remove_kprobe(ap)
    if at := ap.guest_at:
        free = st.guest_kprobes
        st.machine.quiescence.call_after(lambda: free.append(at))


def aggr_kprobe_disabled(ap: Kprobe) -> bool:
    """Return True if each is disabled.  Kernel: aggr_kprobe_disabled()"""
    return all(kprobe_disabled(kp) for kp in ap.list)


def kprobe_nmissed(st: State, p: Kprobe) -> int:
    """Return p's missed hits.  Kernel: kprobe.nmissed"""
    if p.handler is None:
        return p.nmissed
    assert not p.is_aggr
    return st.arch.nmissed(p)
