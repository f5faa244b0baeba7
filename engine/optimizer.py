# SPDX-License-Identifier: GPL-2.0-or-later
"""The jump optimizer, which turns breakpoints into jumps later, in the background.

A probe that may become a jump is queued and tagged OPTIMIZED at once; its text changes
when the delayed work has run and a quiescent state has passed.  Between the two a hit
is a breakpoint that goes on in the detour buffer: whoever has passed a quiescent state
and comes here again is not to stand in the bytes that the jump replaces.

The kernel's worker holds kprobe_mutex while it waits for the quiescent state, so that
nobody can queue a probe meanwhile.  Here they can, and such a probe must not profit
from a wait that began before it was armed: each run of the worker has a number
(opt_epoch), and takes those alone that were queued before it.

Unregistering ends with synchronize_rcu() in the kernel, which takes longer than the
delay: jumps are undone when it returns.  Here that run of the work is made at once, so
that no aggr_kprobe without probes outlives it and reuse_unused_kprobe() has no match.

Invariants: A probe is on one queue at most; its tag OPTIMIZED says what it is to be,
not what the text is.  A jump is written only after a quiescent state that began when
the breakpoint was there; a detour buffer is freed only after one without the jump.
All functions are for control context.
"""

from __future__ import annotations

from collections.abc import Sequence

from kpfs.base.ktypes import KAddr, KTime
from kpfs.engine.aggr import (
    alloc_aggr_kprobe,
    free_aggr_kprobe,
    init_aggr_kprobe,
    remove_optimized_kprobe,
)
from kpfs.engine.kprobe import (
    Kprobe,
    OptimizedKprobe,
    OptQueue,
    clear_optimized,
    kprobe_disabled,
    kprobe_disarmed,
    kprobe_ftrace,
    kprobe_gone,
    kprobe_optimized,
    kprobe_optready,
    kprobe_unused,
    set_optimized,
)
from kpfs.engine.state import State

OPTIMIZE_DELAY = KTime(20_000_000)  # ns; 5 jiffies of a kernel with HZ=250


def _set_queue(st: State, op: OptimizedKprobe, queue: OptQueue) -> None:
    """Kernel: list_del_init(), list_add() or list_move() of op->list"""
    if op.queue is not OptQueue.NONE:
        del st.opt_queues[op.queue][op]
    op.queue = queue
    if queue is not OptQueue.NONE:
        st.opt_queues[queue][op] = None


def get_optimized_kprobe(st: State, addr: KAddr) -> OptimizedKprobe | None:
    """Return the optimised or queued probe that covers addr but does not begin there.

    Kernel: get_optimized_kprobe()
    """
    covering = st.opt_covered.get(addr)
    if not covering:
        return None
    found = [op for op in covering if not kprobe_disarmed(op)]
    return max(found, key=lambda op: op.addr, default=None)


# ---- the delayed work


def kick_kprobe_optimizer(st: State) -> None:
    """Have the optimizer run after OPTIMIZE_DELAY.  Kernel: kick_kprobe_optimizer()"""
    if st.opt_work_pending:
        return
    st.opt_work_pending = True
    st.opt_work += 1
    number = st.opt_work

    def work() -> None:
        # it may have been run ahead of time, and queued anew since
        if st.opt_work_pending and st.opt_work == number:
            kprobe_optimizer(st)

    st.machine.clock.call_later(OPTIMIZE_DELAY, work)


def kprobe_optimizer(st: State) -> None:
    """Do the delayed work: unoptimise now, optimise and free after quiescence.

    The wait is for tasks that were preempted inside the bytes that a jump will
    replace, or inside a detour buffer that is to be freed.

    Kernel: kprobe_optimizer()
    """
    st.opt_work_pending = False
    st.opt_epoch += 1
    epoch = st.opt_epoch
    unused = do_unoptimize_kprobes(st)

    def after_quiescence() -> None:
        do_optimize_kprobes(st, epoch)
        for op in unused:  # kernel: do_free_cleaned_kprobes()
            free_aggr_kprobe(st, op)
        if any(st.opt_queues.values()):
            kick_kprobe_optimizer(st)

    st.machine.quiescence.call_after(after_quiescence)


def do_unoptimize_kprobes(st: State) -> Sequence[OptimizedKprobe]:
    """Undo jumps, return probes to be freed.  Kernel: do_unoptimize_kprobes()"""
    unoptimizing = list(st.opt_queues[OptQueue.UNOPTIMIZING])
    unused = []
    with st.arch.text_poke:
        for op in unoptimizing:
            st.arch.opt.unoptimize(op)
            _set_queue(st, op, OptQueue.FREEING)
        for op in list(st.opt_queues[OptQueue.FREEING]):
            clear_optimized(op)
            # all disarmed: it was enabled again while it stood on the list
            if (kprobe_disabled(op) or st.kprobes_all_disarmed) and not kprobe_gone(op):
                st.arch.arch_disarm_kprobe(op)
            _set_queue(st, op, OptQueue.NONE)
            if kprobe_unused(op):
                st.hash_del(op)
                unused.append(op)
    return unused


def do_optimize_kprobes(st: State, epoch: int) -> None:
    """Write jumps queued before this epoch.  Kernel: do_optimize_kprobes()"""
    if st.kprobes_all_disarmed or not st.kprobes_allow_optimization:
        return
    ready = [op for op in st.opt_queues[OptQueue.OPTIMIZING] if op.epoch < epoch]
    if not ready:
        return
    with st.arch.text_poke:
        for op in ready:
            st.arch.opt.optimize(op)
    for op in ready:
        _set_queue(st, op, OptQueue.NONE)


def wait_for_kprobe_optimizer(st: State) -> None:
    """Run the delayed work now, so that no jump is left that shall not be.

    Jumps still to be written are written after the quiescent state, as always.

    Kernel: wait_for_kprobe_optimizer()
    """
    if any(st.opt_queues.values()):
        kprobe_optimizer(st)


# ---- one probe


def optimize_kprobe(st: State, p: Kprobe) -> None:
    """Queue p for optimising if nothing forbids it.  Kernel: optimize_kprobe()"""
    if (
        not isinstance(p, OptimizedKprobe)
        or p.optinsn is None
        or not st.kprobes_allow_optimization
        or st.kprobes_all_disarmed
        or kprobe_disabled(p)
        # its handler is called after a single step that a jump does not make
        or p.post_handler
        or p.break_handler
        # it is asked about a fault of the instruction, not of a displaced copy of it
        or any(kp.fault_handler for kp in p.list)
        or not st.arch.opt.check(p)
    ):
        return
    if kprobe_optimized(p):
        if p.queue is OptQueue.UNOPTIMIZING:
            _set_queue(st, p, OptQueue.NONE)
        return
    set_optimized(p)
    st.arch.opt.detour(p, True)
    p.epoch = st.opt_epoch
    _set_queue(st, p, OptQueue.OPTIMIZING)
    kick_kprobe_optimizer(st)


def force_unoptimize_kprobe(st: State, op: OptimizedKprobe) -> None:
    """Undo the jump now.  Kernel: force_unoptimize_kprobe()"""
    st.arch.opt.unoptimize(op)
    clear_optimized(op)


def unoptimize_kprobe(st: State, p: Kprobe, force: bool) -> None:
    """Take p off the queue, or queue it for unoptimising; force: undo the jump now.

    Kernel: unoptimize_kprobe()
    """
    if (
        not isinstance(p, OptimizedKprobe)
        or not kprobe_optimized(p)
        or kprobe_disarmed(p)
    ):
        return
    if p.queue is OptQueue.OPTIMIZING:
        _set_queue(st, p, OptQueue.NONE)
        clear_optimized(p)
        st.arch.opt.detour(p, False)
    elif p.queue is OptQueue.UNOPTIMIZING:
        if force:
            force_unoptimize_kprobe(st, p)
            # the work that is pending finishes what it was queued for
            _set_queue(st, p, OptQueue.FREEING)
    elif force:
        force_unoptimize_kprobe(st, p)
    else:
        _set_queue(st, p, OptQueue.UNOPTIMIZING)
        kick_kprobe_optimizer(st)


def kill_optimized_kprobe(st: State, op: OptimizedKprobe) -> None:
    """Forget jump and buffer as text goes away.  Kernel: kill_optimized_kprobe()"""
    if op.queue is not OptQueue.NONE:
        _set_queue(st, op, OptQueue.NONE)
    clear_optimized(op)
    remove_optimized_kprobe(st, op)


def try_to_optimize_kprobe(st: State, p: Kprobe) -> bool:
    """Queue an aggr_kprobe in the place of p, a plain registered probe, for a jump.

    Return True if p can be a jump; the site of the aggr_kprobe is in sync then.
    Kernel: try_to_optimize_kprobe()
    """
    if kprobe_ftrace(p) or not st.optprobes:
        return False
    ap = alloc_aggr_kprobe(st, p)
    if not kprobe_optready(ap):
        return False
    init_aggr_kprobe(st, ap, p)
    st.arch.sync_site(ap)
    optimize_kprobe(st, ap)
    return True


# ---- all probes: the sysctl


def set_kprobes_optimization(st: State, allow: bool) -> None:
    """Queue all probes that can be jumps, or undo all jumps: none is left on return.


    Kernel: proc_kprobes_optimization_handler(), [un]optimize_all_kprobes()
    """
    if st.kprobes_allow_optimization == allow:
        return
    st.kprobes_allow_optimization = allow
    for p in st.table_entries():
        if allow:
            optimize_kprobe(st, p)
        elif not kprobe_disabled(p):
            unoptimize_kprobe(st, p, False)
    if not allow:
        wait_for_kprobe_optimizer(st)
    st.log_optimization(allow)
