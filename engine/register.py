# SPDX-License-Identifier: GPL-2.0-or-later
"""Registers, enables and removes probes, also when the text of a module goes.

All functions are for control context.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence

from kpfs.base.errors import KernelError
from kpfs.base.ktypes import MASK64, KAddr
from kpfs.engine.aggr import (
    aggr_kprobe_disabled,
    aggr_post_handler,
    alloc_aggr_kprobe,
    copy_kprobe,
    free_aggr_kprobe,
    init_aggr_kprobe,
    kprobe_nmissed,
    prepare_optimized_kprobe,
)
from kpfs.engine.arm import arm_kprobe, check_ftrace_location, disarm_kprobe
from kpfs.engine.blacklist import within_kprobe_blacklist
from kpfs.engine.kprobe import (
    NO_ADDR,
    Kprobe,
    KprobeFlag,
    OptimizedKprobe,
    kprobe_disabled,
    kprobe_disarmed,
    kprobe_ftrace,
    kprobe_gone,
    kprobe_unused,
)
from kpfs.engine.optimizer import (
    kill_optimized_kprobe,
    kprobe_optimizer,
    optimize_kprobe,
    try_to_optimize_kprobe,
    unoptimize_kprobe,
)
from kpfs.engine.state import ModuleState, State, get_kprobe, is_kprobe_insn_slot

# ---- where a probe may be


def kprobe_addr(
    st: State, addr: KAddr, symbol_name: str | None, offset: int
) -> tuple[KAddr, bool]:
    """Return the address of the probe point, and whether it is a function's entry.

    EINVAL: both or neither of address and symbol; ENOENT: there is no such symbol, or
    none that the sum lands in.

    Kernel: _kprobe_addr()
    """
    asked = addr, symbol_name, offset, st.machine.kallsyms.generation
    if asked == st.probe_point[0]:  # for an event it is asked for twice
        return st.probe_point[1]
    if (symbol_name is None) == (not addr):
        raise KernelError(errno.EINVAL, "needs either a symbol or an address")
    if symbol_name is not None:
        symbols = st.machine.kallsyms.lookup_name(symbol_name)
        if not symbols:
            raise KernelError(errno.ENOENT, f"no symbol {symbol_name}")
        base = st.kprobe_lookup_name(symbols[0].addr, offset)
    else:
        base = addr
    target = KAddr((base + offset) & MASK64)
    symbol = st.machine.kallsyms.symbol_at(target)
    if symbol is None:
        raise KernelError(errno.ENOENT, f"{target:#x} is in no symbol")
    found = st.arch.arch_adjust_kprobe_addr(symbol.addr, target - symbol.addr)
    st.probe_point = asked, found
    return found


def kprobe_on_func_entry(
    st: State, addr: KAddr, symbol_name: str | None, offset: int
) -> None:
    """EINVAL unless the probe point is a function's entry; ENOENT as kprobe_addr().

    Kernel: kprobe_on_func_entry()
    """
    if not kprobe_addr(st, addr, symbol_name, offset)[1]:
        raise KernelError(errno.EINVAL, "not at a function's entry")


def check_kprobe_address_safe(st: State, addr: KAddr) -> None:
    """Raise KernelError unless text may be patched at addr, as far as tables tell.

    arch_prepare_kprobe() judges the instruction there.

    Kernel: check_kprobe_address_safe()
    """
    machine = st.machine
    if not machine.text.is_text(addr):
        slot = is_kprobe_insn_slot(st, addr)
        why = "in an instruction slot of kprobes" if slot else "not kernel text"
        raise KernelError(errno.EINVAL, why)
    if within_kprobe_blacklist(st, addr):
        raise KernelError(errno.EINVAL, "within the kprobe blacklist")
    if machine.text.text_reserved(addr, addr):
        raise KernelError(errno.EINVAL, "text of a jump label or static call")
    if machine.text.is_bug_site(addr):
        raise KernelError(errno.EINVAL, "the ud2 of a BUG or WARN")
    symbol = machine.kallsyms.symbol_at(addr)
    if symbol is not None and symbol.name.startswith(("__cfi_", "__pfx_")):
        raise KernelError(errno.EINVAL, "padding before a function's entry")
    module = machine.text.module_of(addr)
    if module:
        state = st.module_states.get(module)
        if state is ModuleState.GOING:
            raise KernelError(errno.ENOENT, f"module {module} is going away")
        if state is ModuleState.LIVE and machine.text.in_init_text(addr):
            raise KernelError(errno.ENOENT, f"init text of {module} is being freed")


def _get_valid_kprobe(st: State, p: Kprobe) -> Kprobe | None:
    """Return p's entry in kprobe_table or None.  Kernel: __get_valid_kprobe()"""
    return get_kprobe(st, p.addr) if st.registered.get(p) == p.addr else None


def warn_kprobe_rereg(st: State, p: Kprobe) -> None:
    """EINVAL if p is registered already.  Kernel: warn_kprobe_rereg()"""
    if _get_valid_kprobe(st, p) is not None:
        raise KernelError(errno.EINVAL, "is registered already")


# ---- registering


def _prepare_kprobe(st: State, p: Kprobe) -> None:
    """Make p ready to be armed.  Kernel: prepare_kprobe()"""
    if kprobe_ftrace(p):
        st.arch.ftrace.prepare(p)
    else:
        st.arch.arch_prepare_kprobe(p)


def _add_new_kprobe(st: State, ap: Kprobe, p: Kprobe) -> None:
    """Put p on ap's list; EEXIST: a second break_handler.  Kernel: add_new_kprobe()"""
    if p.break_handler and ap.break_handler:
        raise KernelError(errno.EEXIST, "has a jprobe already")
    if p.post_handler or p.break_handler or p.fault_handler:
        unoptimize_kprobe(st, ap, True)
    if p.break_handler:
        ap.list.append(p)
        ap.break_handler = p.break_handler
    else:
        ap.list.insert(0, p)
    if p.post_handler and not ap.post_handler:
        ap.post_handler = aggr_post_handler


def _register_aggr_kprobe(st: State, orig_p: Kprobe, p: Kprobe) -> None:
    """Register another probe at an address.  Kernel: register_aggr_kprobe()"""
    if not isinstance(orig_p, OptimizedKprobe):
        ap = alloc_aggr_kprobe(st, orig_p)
        init_aggr_kprobe(st, ap, orig_p)
    else:
        ap = orig_p
    if kprobe_gone(ap):
        # new text where a module once was: the old slot is gone with the old text
        _prepare_kprobe(st, ap)
        prepare_optimized_kprobe(st, ap)
        ap.flags = (ap.flags & ~KprobeFlag.GONE) | KprobeFlag.DISABLED
    copy_kprobe(ap, p)
    try:
        _add_new_kprobe(st, ap, p)
    except KernelError:
        p.ainsn = p.site = None
        st.arch.sync_site(ap)
        raise
    arm = kprobe_disabled(ap) and not kprobe_disabled(p)
    if arm:
        ap.flags &= ~KprobeFlag.DISABLED
    st.arch.sync_site(ap, p)
    if not arm or st.kprobes_all_disarmed:
        return
    try:
        arm_kprobe(st, ap)
    except KernelError:
        ap.flags |= KprobeFlag.DISABLED
        ap.list.remove(p)
        st.arch.sync_site(ap)
        _release_handler(st, p)
        raise


def register_kprobe(st: State, p: Kprobe) -> None:
    """Register p, and arm it unless it, or all probes, are disabled.

    EINVAL: symbol and address or neither, registered already, forbidden text, an
    instruction that cannot be probed; ENOENT: no such symbol, text that is going away;
    EILSEQ: no instruction begins there.  p.addr stays set when it fails after that was
    found out, as in the kernel.

    Kernel: register_kprobe()
    """
    p.addr, on_func_entry = kprobe_addr(st, p.addr, p.symbol_name, p.offset)
    warn_kprobe_rereg(st, p)
    p.flags &= KprobeFlag.DISABLED  # the one flag that is the user's
    p.nmissed = 0
    p.list = []
    check_ftrace_location(st, p)
    check_kprobe_address_safe(st, p.addr)
    if on_func_entry:
        p.flags |= KprobeFlag.ON_FUNC_ENTRY
    old_p = get_kprobe(st, p.addr)
    if old_p is not None:
        _register_aggr_kprobe(st, old_p, p)
        st.registered[p] = p.addr
        return
    _prepare_kprobe(st, p)
    st.hash_add(p)
    arm = not st.kprobes_all_disarmed and not kprobe_disabled(p)
    if arm:
        st.arch.sync_site(p)
        try:
            arm_kprobe(st, p)
        except KernelError:
            st.hash_del(p)
            _release_handler(st, p)
            st.arch.arch_remove_kprobe(p)
            raise
    st.registered[p] = p.addr
    if not try_to_optimize_kprobe(st, p) and not arm:
        st.arch.sync_site(p)


# ---- unregistering


def _release_handler(st: State, p: Kprobe) -> None:
    """Keep the count of p's kp_handler in p.nmissed, and give the record back."""
    if p.handler is not None:
        p.nmissed = kprobe_nmissed(st, p)
        st.missed_hits[p.addr] += p.nmissed
        st.arch.release_handler(p)
        p.handler = None


def _unregister(st: State, entry: Kprobe, gone: dict[Kprobe, None]) -> bool:
    """Disarm probes at one address, remove them, free what only they used.

    entry: that of kprobe_table which they are or belong to.
    True if they leave an unused aggr_kprobe to the optimizer.
    Kernel: __unregister_kprobe_top(), __unregister_kprobe_bottom()
    """
    one = gone if len(gone) == 1 else ()
    enabled = [p for p in gone if not kprobe_disabled(p)]
    if enabled:
        _disable(st, entry, enabled)
        st.arch.sync_site(entry, *one)  # a task on the way to a handler passes it
    for p in gone:
        del st.registered[p]
    if entry in gone:
        st.hash_del(entry)
        _release_handler(st, entry)
        st.arch.arch_remove_kprobe(entry)
        return False
    last = len(entry.list) == len(gone) and kprobe_disarmed(entry)
    if one:
        entry.list.remove(*gone)
    else:
        entry.list[:] = [p for p in entry.list if p not in gone]
    if last:
        st.hash_del(entry)
    else:
        _forget_handlers(st, entry, gone)
    for p in gone:
        _release_handler(st, p)
    if last:
        free_aggr_kprobe(st, entry)
        return False
    if not kprobe_disabled(entry) and not st.kprobes_all_disarmed:
        # the handler that kept it from being a jump may be gone
        optimize_kprobe(st, entry)
    return kprobe_unused(entry)


def _forget_handlers(st: State, ap: Kprobe, gone: dict[Kprobe, None]) -> None:
    """Make an aggr_kprobe call only the handlers that are left on its list."""
    here = [p for p in gone if not kprobe_gone(p)]
    if (
        any(p.post_handler for p in here)
        and not kprobe_ftrace(ap)
        and not any(p.post_handler for p in ap.list)
    ):
        ap.post_handler = None
    if any(p.break_handler for p in here):
        ap.break_handler = None
    st.arch.sync_site(ap, *gone if len(gone) == 1 else ())


def unregister_kprobe(st: State, p: Kprobe) -> None:
    """Unregister p, or else clear its address.  Kernel: unregister_kprobe()"""
    unregister_kprobes(st, [p])


def unregister_kprobes(st: State, kps: Sequence[Kprobe]) -> None:
    """Unregister all; the address of one that is not registered is cleared.

    Their jumps and breakpoints are gone when it returns.

    Kernel: unregister_kprobes()
    """
    unused = False
    groups: dict[Kprobe, dict[Kprobe, None]] = {}  # those at one address at once
    not_registered: list[Kprobe] = []
    for p in kps:
        entry = _get_valid_kprobe(st, p)
        if entry is None or p in groups.setdefault(entry, {}):
            not_registered.append(p)
        else:
            groups[entry][p] = None
    with st.arch.text_poke:
        for entry, gone in groups.items():
            try:
                unused |= _unregister(st, entry, gone)
            except KernelError:
                not_registered += gone
        if unused:
            kprobe_optimizer(st)
    for p in not_registered:
        p.addr = NO_ADDR


# ---- enabling and disabling


def _disable(st: State, entry: Kprobe, probes: Sequence[Kprobe]) -> None:
    """Disable some or all probes of an entry.  Kernel: __disable_kprobe()"""
    own = entry in probes
    for p in () if own else probes:
        p.flags |= KprobeFlag.DISABLED
    if own or aggr_kprobe_disabled(entry):
        # it may be unarmed though not all are disarmed: see enable_kprobe()
        if not st.kprobes_all_disarmed and not kprobe_disabled(entry):
            try:
                disarm_kprobe(st, entry, True)
            except KernelError:
                for p in probes:
                    p.flags &= ~KprobeFlag.DISABLED
                raise
        entry.flags |= KprobeFlag.DISABLED


def disable_kprobe(st: State, p: Kprobe) -> None:
    """Disable a probe; EINVAL: it is not registered.  Kernel: disable_kprobe()"""
    orig_p = _get_valid_kprobe(st, p)
    if orig_p is None:
        raise KernelError(errno.EINVAL, "is not registered")
    if not kprobe_disabled(p):
        _disable(st, orig_p, [p])
        st.arch.sync_site(orig_p, p)


def enable_kprobe(st: State, p: Kprobe) -> None:
    """Enable a registered probe; EINVAL if it is not registered or gone.

    While all are disarmed the table's entry keeps its DISABLED, and arm_all_kprobes()
    passes it over: such a probe is never hit until it is disabled and enabled again.

    Kernel: enable_kprobe()
    """
    orig_p = _get_valid_kprobe(st, p)
    if orig_p is None:
        raise KernelError(errno.EINVAL, "is not registered")
    if kprobe_gone(p):
        raise KernelError(errno.EINVAL, "its text is gone")
    if orig_p is not p:
        p.flags &= ~KprobeFlag.DISABLED
    arm = kprobe_disabled(orig_p) and not st.kprobes_all_disarmed
    if arm:
        orig_p.flags &= ~KprobeFlag.DISABLED
    st.arch.sync_site(orig_p, p)
    if not arm:
        return
    try:
        arm_kprobe(st, orig_p)
    except KernelError:
        orig_p.flags |= KprobeFlag.DISABLED
        p.flags |= KprobeFlag.DISABLED
        st.arch.sync_site(orig_p)
        raise


# ---- text that goes away


def _kill_kprobe(st: State, p: Kprobe) -> None:
    """Mark an entry GONE and free its slot, not its text.  Kernel: kill_kprobe()"""
    # ftrace still knows the text, and must not find our call in it
    if kprobe_ftrace(p) and not kprobe_disabled(p) and not st.kprobes_all_disarmed:
        st.arch.ftrace.disarm(p)
    p.flags |= KprobeFlag.GONE
    if isinstance(p, OptimizedKprobe):
        for kp in p.list:
            kp.flags |= KprobeFlag.GONE
        p.post_handler = None
        kill_optimized_kprobe(st, p)
    st.arch.sync_site(p)
    st.arch.arch_remove_kprobe(p)


def kprobes_module_callback(st: State, state: ModuleState, module: str) -> bool:
    """Adapt to a module that has been loaded, has run its init, or is going away.

    Return True if the text of some probes is gone.

    To be called before its init runs; after init, before the init text is freed; after
    its exit, before its text is freed.

    Kernel: kprobes_module_callback()
    """
    text = st.machine.text
    st.module_states[module] = state
    gone: list[Kprobe] = []
    if state is not ModuleState.COMING:
        gone += (
            p
            for p in st.table_entries()
            if text.module_of(p.addr) == module
            and (state is ModuleState.GOING or text.in_init_text(p.addr))
        )
        for p in gone:
            _kill_kprobe(st, p)
    st.load_blacklist(without=module if state is ModuleState.GOING else None)
    return bool(gone)


# ---- what kprobes/list shows


# One line of kprobes/list: the probe, for its kind, GONE and DISABLED, and the entry of
# the table, for OPTIMIZED and FTRACE.  Named tuples would take more than all the rest.
ListEntry = tuple[Kprobe, Kprobe]


def show_entries(st: State) -> Iterator[ListEntry]:
    """Return all probes as kprobes/list sorts them.  Kernel: show_kprobe_addr()"""
    for entry in st.table_entries():
        if entry.is_aggr:
            for p in entry.list:
                yield p, entry
        else:
            yield entry, entry
