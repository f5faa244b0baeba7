# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands of kprobe_events, which create, show and delete kprobe events.

All functions are for control context, unless they say otherwise.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from kpfs.base.abi import HC_SYMBOL
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KERN_WARNING, KAddr
from kpfs.engine.aggr import kprobe_nmissed
from kpfs.engine.kprobe import NO_ADDR, Kprobe, KprobeFlag
from kpfs.engine.kretprobe import (
    Kretprobe,
    kretprobe_nmissed,
    register_kretprobe,
    unregister_kretprobe,
)
from kpfs.engine.register import (
    kprobe_addr,
    register_kprobe,
    unregister_kprobe,
)
from kpfs.engine.runtime.records import KpEvent
from kpfs.engine.state import ModuleState, State
from kpfs.engine.trace.array.dynevent import DynEvent, DynEventOps
from kpfs.engine.trace.array.trace_state import TraceState
from kpfs.engine.trace.errlog import Err, TraceProbeLog
from kpfs.engine.trace.probe.fetch import MAX_TRACE_ARGS, FetchOp, ProbeArg
from kpfs.engine.trace.probe.kprobe_event import GuestEvents, KprobeEvent, TraceKprobe
from kpfs.engine.trace.probe.notrace import within_notrace_func
from kpfs.engine.trace.probe.parse import (
    KPROBE_EVENT_SYSTEM,
    MAX_ARGSTR_LEN,
    ArgContext,
    ProbePlace,
    default_event_name,
    parse_args,
    parse_event_name,
    parse_maxactive,
    parse_place,
    split_symbol_offset,
)
from kpfs.engine.trace.symbols import pointer_id
from kpfs.engine.trace.words import argv_split


class TraceKprobeOps(DynEventOps):
    """The five operations of kprobe events.  Kernel: trace_kprobe_ops."""

    def __init__(self, ts: TraceState) -> None:
        """Register this kind of events with ts."""
        self._ts = ts
        self._st: State = ts.st
        self._guest = GuestEvents(ts.runtime, ts.event_files)
        symbols = ts.runtime.symbols
        self._handler = symbols["kp_event_handler"]
        self._ret_handler = symbols["kp_event_return"]
        arch = ts.st.arch
        offsets = arch.calls.offsets
        # the sources of arguments; the key is (is_return, on_func_entry)
        self._contexts = {
            (is_return, on_func_entry): ArgContext(
                is_return=is_return,
                on_func_entry=on_func_entry,
                registers=offsets,
                arguments=[offsets[name] for name in arch.calls.arguments],
                return_value=offsets[arch.calls.return_value],
                stack_pointer=offsets[arch.calls.stack_pointer],
            )
            for is_return in (False, True)
            for on_func_entry in (False, True)
        }
        ts.st.machine.traps.on_hypercall(HC_SYMBOL, self._sprint_symbol)
        ts.dyn_events.register(self)

    def _sprint_symbol(self, cpu: int) -> None:
        """Write the name of a symbol into a record, or only tell how long it is.

        Context: hit.  Kernel: fetch_store_symstring()
        """
        mail = self._ts.runtime.cpus[cpu]
        name = self._st.machine.kallsyms.sprint_symbol(mail.mail0).encode("latin-1")
        if mail.mail1:
            name = name[: max(mail.mail2 - 1, 0)]
            self._st.machine.write(mail.mail1, name + b"\0")
        mail.mail_ret = len(name)

    def _warn(self, text: str) -> None:
        self._st.machine.log.printk(KERN_WARNING, f"trace_kprobe: {text}")

    # ---- create

    def create(self, command: str) -> bool:
        """Make a probe, and its event if it is the first of that name.

        It may fail with EINVAL, ENOENT, EADDRNOTAVAIL, EEXIST, EILSEQ, E2BIG or ERANGE;
        an entry in error_log then says why.
        Kernel: __trace_kprobe_create()
        """
        argv = argv_split(command)
        head = argv[0]
        if head[0] not in "pr" or len(argv) < 2:
            return False
        log = TraceProbeLog(self._ts.err_log, "trace_kprobe", argv)
        maxactive = parse_maxactive(log, head, head[0] == "r")
        place = parse_place(log, argv[1], head[0] == "r")
        if place is None:
            return False
        on_func_entry = self._check_symbol(log, place)
        log.index = 0
        group, name = "", ""
        kind, colon, names = head.partition(":")
        if colon:
            group, name = parse_event_name(log, names, len(kind) + 1)
        group = group or KPROBE_EVENT_SYSTEM
        name = name or default_event_name(place, pointer_id(place.addr))
        is_return = place.is_return and place.symbol is not None
        context = self._contexts[is_return, on_func_entry]
        args = parse_args(log, context, argv[2 : 2 + MAX_TRACE_ARGS])
        tk = self._alloc(group, name, place, maxactive, args)
        try:
            self._register_trace_kprobe(log, tk)
        except KernelError as error:
            self._guest.free(tk)
            log.index = 1
            if error.errno == errno.EILSEQ:
                log.err(Err.BAD_INSN_BNDRY, 0)
            elif error.errno == errno.ENOENT:
                log.err(Err.BAD_PROBE_ADDR, 0)
            elif error.errno not in (errno.ENOMEM, errno.EEXIST):
                log.err(Err.FAIL_REG_PROBE, 0)
            raise
        return True

    def _check_symbol(self, log: TraceProbeLog, place: ProbePlace) -> bool:
        """Return True for a function's entry; EINVAL, EADDRNOTAVAIL, ENOENT."""
        symbol = place.symbol
        if symbol is None:
            return False
        on_func_entry = False
        try:
            _, on_func_entry = kprobe_addr(self._st, NO_ADDR, symbol, place.offset)
            refused = not on_func_entry
        except KernelError as error:
            # a symbol that is not found may come with a module
            refused = error.errno == errno.EINVAL
        if refused and place.is_return:
            log.fail(Err.BAD_RETPROBE, 0)
        if ":" not in symbol:
            count = len(self._st.machine.kallsyms.lookup_name(symbol))
            if count > 1:
                log.fail(Err.NON_UNIQ_SYMBOL, 0, errno.EADDRNOTAVAIL)
            if count == 0:
                log.fail(Err.BAD_PROBE_ADDR, 0, errno.ENOENT)
        return on_func_entry

    def _alloc(
        self,
        group: str,
        name: str,
        place: ProbePlace,
        maxactive: int,
        args: list[ProbeArg],
    ) -> TraceKprobe:
        """Make a probe, not registered yet.  Kernel: alloc_trace_kprobe()"""
        if place.symbol is None:
            kp = Kprobe(addr=KAddr(place.addr))
        else:
            kp = Kprobe(symbol_name=place.symbol, offset=place.offset)
        guest = self._ts.runtime.make(KpEvent)
        rp = Kretprobe(kp, maxactive=maxactive)
        if place.is_return:
            rp.handler, rp.guest_data = self._ret_handler, guest.addr
        else:
            kp.pre_handler, kp.data = self._handler, guest.addr
        event = KprobeEvent(group, name, self._st)
        tk = TraceKprobe(self, group, name, place, rp, args, event, guest)
        event.add(tk)
        return tk

    def _register_trace_kprobe(self, log: TraceProbeLog, tk: TraceKprobe) -> None:
        """Register a probe and its event.  Kernel: register_trace_kprobe()"""
        ts = self._ts
        old = self._find(tk.group, tk.name)
        if old is not None:
            if old.is_return != tk.is_return:
                log.index = 0
                log.fail(Err.DIFF_PROBE_TYPE, 0, errno.EEXIST)
            self._append(log, tk, old)
            return
        try:
            ts.events.add(tk.event)
        except KernelError as error:
            if error.errno == errno.EEXIST:
                log.index = 0
                log.err(Err.EVENT_EXIST, 0)
            else:
                self._warn(f"Failed to register probe event({-error.errno})")
            raise
        try:
            self._register_or_defer(tk)
        except KernelError:
            ts.remove_event_call(tk.event)
            raise
        ts.dyn_events.add(tk)

    def _find(self, group: str, name: str) -> TraceKprobe | None:
        """Return the first probe of that event, if any.  Kernel: find_trace_kprobe()"""
        event = self._ts.events.find(group, name)
        return event.probes[0] if isinstance(event, KprobeEvent) else None

    def _append(self, log: TraceProbeLog, tk: TraceKprobe, to: TraceKprobe) -> None:
        """Make tk one more probe of an event.  Kernel: append_trace_kprobe()"""
        different = _different_arg(tk.args, to.args)
        if different:
            log.index = different + 1
            log.fail(Err.DIFF_ARG_TYPE, 0, errno.EEXIST)
        event = to.event
        if event.has_same(tk):
            log.index = 0
            log.fail(Err.SAME_PROBE, 0, errno.EEXIST)
        tk.event = event
        event.add(tk)
        try:
            self._register_or_defer(tk)
        except KernelError:
            event.remove(tk)
            raise
        self._ts.dyn_events.add(tk)

    def _register_or_defer(self, tk: TraceKprobe) -> None:
        """Register the probe, or let it wait if its module is not loaded yet."""
        try:
            self._register(tk)
        except KernelError as error:
            if error.errno != errno.ENOENT or self._module_exists(tk):
                raise
            self._warn(
                "This probe might be able to register after target module is loaded. "
                "Continue."
            )

    def _module_exists(self, tk: TraceKprobe) -> bool:
        """Return True if its module is loaded.  Kernel: trace_kprobe_module_exist()"""
        symbol = tk.place.symbol
        if symbol is None:
            return False
        name, colon, _ = symbol.partition(":")
        if not colon:
            return True
        state = self._st.module_states.get(name)
        if state is not None:
            return state is not ModuleState.GOING
        return any(s.module == name for s in self._st.machine.kallsyms if s.module)

    def _address(self, tk: TraceKprobe) -> int:
        """Return its address, 0: no such symbol.  Kernel: trace_kprobe_address()"""
        if tk.place.symbol is None:
            return tk.place.addr
        found = self._st.machine.kallsyms.lookup_name(tk.place.symbol)
        return found[0].addr + tk.place.offset if found else 0

    def _register(self, tk: TraceKprobe) -> None:
        """Register the kprobe or kretprobe.  Kernel: __register_trace_kprobe()"""
        if self._st.kprobes_on_ftrace and within_notrace_func(
            self._st.machine, self._address(tk)
        ):
            symbol = tk.place.symbol or "unknown"
            self._warn(f"Could not probe notrace function {symbol}")
            raise KernelError(errno.EINVAL, f"{symbol} cannot be traced")
        for arg in tk.args:
            self._update_arg(arg)
        self._guest.write(tk)
        kp = tk.rp.kp
        if tk.event.tracing:
            kp.flags &= ~KprobeFlag.DISABLED
        else:
            kp.flags |= KprobeFlag.DISABLED
        if tk.is_return:
            register_kretprobe(self._st, tk.rp)
        else:
            register_kprobe(self._st, kp)
        tk.registered = True

    def _update_arg(self, arg: ProbeArg) -> None:
        """Look up the symbols of an argument; EINVAL, ENOENT.

        Kernel: traceprobe_update_arg()
        """
        for insn, following in zip(arg.code, arg.code[1:], strict=False):
            if insn.op is not FetchOp.SYMBOL:
                continue
            name, offset = split_symbol_offset(insn.data)
            found = self._st.machine.kallsyms.lookup_name(name)
            if not found or not found[0].addr:
                raise KernelError(errno.ENOENT, f"no symbol {name!r}")
            following.value = found[0].addr + offset

    def _unregister(self, tk: TraceKprobe) -> None:
        """Undo _register(), if it was done.  Kernel: __unregister_trace_kprobe()"""
        if not tk.registered:
            return
        if tk.is_return:
            unregister_kretprobe(self._st, tk.rp)
        else:
            unregister_kprobe(self._st, tk.rp.kp)
        tk.registered = False
        if tk.rp.kp.symbol_name is not None:
            tk.rp.kp.addr = NO_ADDR

    def module_coming(self, module: str) -> None:
        """Register the probes that were waiting for a module that has been loaded.

        Call it after kprobes' own notifier and before the module's init.
        Kernel: trace_kprobe_module_callback()
        """
        for tk in self._probes():
            if not (tk.place.symbol or "").startswith(f"{module}:"):
                continue
            self._unregister(tk)
            try:
                self._register(tk)
            except KernelError as error:
                self._warn(
                    f"Failed to re-register probe {tk.name} on {module}: {-error.errno}"
                )

    # ---- the other operations

    def _probes(self) -> list[TraceKprobe]:
        events = self._ts.dyn_events.of(self)
        return [event for event in events if isinstance(event, TraceKprobe)]

    def owners(self) -> dict[int, str]:
        """GROUP/NAME of the event that each probe belongs to, by the probe's id()."""
        return {id(tk.rp.kp): f"{tk.group}/{tk.name}" for tk in self._probes()}

    def show(self, event: DynEvent) -> str:
        """Kernel: trace_kprobe_show()"""
        assert isinstance(event, TraceKprobe)
        letter = "p"
        if event.is_return:
            letter = f"r{event.rp.maxactive or ''}"
        args = "".join([f" {arg.name}={arg.comm}" for arg in event.args])
        return f"{letter}:{event.group}/{event.name} {_place_text(event.place)}{args}\n"

    def is_busy(self, event: DynEvent) -> bool:
        assert isinstance(event, TraceKprobe)
        return event.event.tracing

    def free(self, event: DynEvent) -> None:
        """Delete a probe, or its event with the last one; EBUSY."""
        assert isinstance(event, TraceKprobe)
        parent = event.event
        if len(parent.probes) == 1:
            if parent.tracing or parent.refcnt:
                raise KernelError(errno.EBUSY, f"{event.group}/{event.name} is in use")
            self._ts.remove_event_call(parent)
        self._unregister(event)
        self._ts.dyn_events.remove(event)
        # readers that format text meanwhile need the last one
        if len(parent.probes) > 1:
            parent.remove(event)
        self._guest.free(event)
        del event.event  # a circle would be left to the garbage collector

    def match(
        self, system: str | None, name: str, argv: list[str], event: DynEvent
    ) -> bool:
        """Kernel: trace_kprobe_match()"""
        assert isinstance(event, TraceKprobe)
        if name not in ("", event.name) or system not in (None, event.group):
            return False
        if not argv:
            return True
        if argv[0] != _place_text(event.place)[:MAX_ARGSTR_LEN]:
            return False
        words = argv[1:]
        if len(words) > len(event.args):
            return False
        shown = [f"{arg.name}={arg.comm}" for arg in event.args]
        return words == shown[: len(words)]

    def profile(self) -> str:
        """Return the text of kprobe_profile."""
        lines = []
        for tk in self._probes():
            nmissed = kprobe_nmissed(self._st, tk.rp.kp)
            if tk.is_return:
                nmissed += kretprobe_nmissed(self._st, tk.rp)
            lines.append(f"  {tk.name:<44} {tk.guest.nhit:15} {nmissed:15}\n")
        return "".join(lines)


def _place_text(place: ProbePlace) -> str:
    if place.symbol is None:
        return f"0x{pointer_id(place.addr)}"
    return f"{place.symbol}+{place.offset}" if place.offset else place.symbol


def _different_arg(new: Sequence[ProbeArg], old: Sequence[ProbeArg]) -> int:
    """Return the number, from 1, of the first argument that differs, 0: none."""
    if len(new) != len(old):
        return min(len(new), len(old)) + 1
    for i, (a, b) in enumerate(zip(new, old, strict=True)):
        if (a.type, a.count, a.name) != (b.type, b.count, b.name):
            return i + 1
    return 0
