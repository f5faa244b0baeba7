# SPDX-License-Identifier: GPL-2.0-or-later
"""Serves the kprobes API that guest modules call.

register_kprobe() and its kin are C in the guest (src/kernel/kprobes.c); they hand over
an array of pointers to struct kprobe, kretprobe or jprobe, whose layout is that of
guest/include/linux/kprobes.h.  Here they become the engine's probes, whose state is
written back into them.  Handlers are guest code.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress

from kpfs.base import abi
from kpfs.base.errors import KernelError, MemoryFault
from kpfs.base.ktypes import KAddr
from kpfs.engine.jprobe import Jprobe, register_jprobe
from kpfs.engine.kprobe import NO_FLAGS, Kprobe, KprobeFlag
from kpfs.engine.kretprobe import Kretprobe, register_kretprobe, unregister_kretprobes
from kpfs.engine.register import (
    disable_kprobe,
    enable_kprobe,
    register_kprobe,
    unregister_kprobes,
)
from kpfs.engine.state import State, get_kprobe

KSYM_NAME_LEN = 512
_AINSN = abi.ArchSpecificInsn.STRUCT
_HANDLERS = abi.Kprobe.pre_handler, abi.Kprobe.post_handler, abi.Kprobe.break_handler
_ROOM = 4096  # bytes that are got at a time for the structures of aggr_kprobes
_PROBES_MAX = 1 << 20  # in one batch: more pointers than the guest has memory for


def _handler(addr: int) -> KAddr | None:
    return KAddr(addr) if addr else None


def _name(st: State, addr: int) -> str:
    return st.machine.read_cstring(addr, KSYM_NAME_LEN).decode("latin-1")


Probe = Kprobe | Kretprobe | Jprobe


def _kprobe_of(probe: Probe) -> Kprobe:
    return probe if isinstance(probe, Kprobe) else probe.kp


def _register(st: State, probe: Probe) -> None:
    if isinstance(probe, Kretprobe):
        register_kretprobe(st, probe)
    elif isinstance(probe, Jprobe):
        register_jprobe(st, probe)
    else:
        register_kprobe(st, probe)


def _unregister(st: State, probes: Sequence[Probe]) -> None:
    """Unregister each as what it was registered as, whatever call it is for.

    All structures begin with a struct kprobe, so that a module may hand the kprobe in
    its kretprobe or jprobe to unregister_kprobe().
    """
    unregister_kretprobes(st, [p for p in probes if isinstance(p, Kretprobe)])
    others = [_kprobe_of(p) for p in probes if not isinstance(p, Kretprobe)]
    unregister_kprobes(st, others)


class GuestApi:
    """Guest code's probes, by addresses of their structures.  Context: control."""

    def __init__(self, state: Callable[[], State]) -> None:
        """state: the kprobes core, which is made when it is first needed."""
        self._get_state = state
        self._probes: dict[int, Probe] = {}
        # how the structure of each kind of probe is read
        self._readers: dict[int, Callable[[State, int], Probe]] = {
            abi.CTL_KPROBES: self._read_any,
            abi.CTL_KRETPROBES: self._read_kretprobe,
            abi.CTL_JPROBES: self._read_jprobe,
        }

    # ---- calls
    def serve(self, number: int, first: int, second: int) -> int:
        """Serve one call of the guest; raise KernelError if it is refused."""
        if abi.CTL_GET_KPROBE <= number <= abi.CTL_KPROBE_CTLBLK:
            return self._serve_other(number, first)
        read, action = self._readers.get(number & ~0xF), number & 0xF
        if read is None:
            raise KernelError(errno.ENOSYS, f"no call {number:#x}")
        if not 0 < second <= _PROBES_MAX:
            raise KernelError(errno.EINVAL, "no probes, or too many")
        st = self._get_state()
        raw = st.machine.read(first, 8 * second)
        pointers = [at for (at,) in struct.iter_unpack("<Q", raw)]
        if action == abi.CTL_REGISTER:
            self._register(st, read, pointers)
        elif action == abi.CTL_UNREGISTER:
            self._unregister(st, pointers)
        elif action in (abi.CTL_ENABLE, abi.CTL_DISABLE):
            self._switch(st, pointers[0], action == abi.CTL_ENABLE)
        else:
            raise KernelError(errno.ENOSYS, f"no call {number:#x}")
        return 0

    def _serve_other(self, number: int, first: int) -> int:
        st = self._get_state()
        if number == abi.CTL_GET_KPROBE:
            entry = get_kprobe(st, first)
            if entry is None or not entry.is_aggr:
                return entry.guest_at if entry else 0
            return self._write_aggregate(st, entry)
        if number == abi.CTL_KPROBE_RUNNING:
            return self._structure_of(st.arch.running.kprobe_running())
        if number == abi.CTL_KPROBE_CTLBLK:
            self._fill_ctlblk(st, first)
            return 0
        cpu = st.machine.cpu()
        if number == abi.CTL_KPROBES_HANDLED:
            return sum(1 << n for n in st.arch.running.cpus_handling() if n != cpu)
        return int(st.arch.running.kprobe_reset(cpu))

    def _register(
        self, st: State, read: Callable[[State, int], Probe], pointers: Sequence[int]
    ) -> None:
        """Register all; if one is refused, unregister those before it."""
        with st.arch.text_poke:
            for i, at in enumerate(pointers):
                try:
                    self._register_one(st, read, at)
                except (KernelError, MemoryFault):
                    self._unregister(st, pointers[:i])
                    raise

    def _register_one(
        self, st: State, read: Callable[[State, int], Probe], at: int
    ) -> None:
        if at in self._probes:
            raise KernelError(errno.EINVAL, f"{at:#x} is registered already")
        probe = read(st, at)
        try:
            _register(st, probe)
            self._probes[at] = probe
        finally:
            self._write_back(st, at, probe)
        if isinstance(probe, Kretprobe):
            both = struct.pack("<ii", probe.maxactive, 0)  # and nmissed
            st.machine.write(at + abi.Kretprobe.maxactive, both)
        st.machine.write_u64(at + abi.Kprobe.nmissed, 0)
        self._write_lists(st, _kprobe_of(probe).addr)

    def _unregister(self, st: State, pointers: Sequence[int]) -> None:
        """Unregister all; clear the addr of those that are not registered."""
        found = []
        for at in pointers:
            probe = self._probes.pop(at, None)
            if probe is not None:
                found.append((at, probe))
                continue
            with suppress(MemoryFault):  # a wild pointer
                st.machine.write_u64(at + abi.Kprobe.addr, 0)
        _unregister(st, [probe for _, probe in found])
        for at, probe in found:
            self._write_back(st, at, probe)
        for addr in {_kprobe_of(probe).addr for _, probe in found}:
            self._write_lists(st, addr)

    def _switch(self, st: State, at: int, enable: bool) -> None:
        probe = self._probes.get(at)
        if probe is None:
            raise KernelError(errno.EINVAL, f"{at:#x} is not registered")
        (enable_kprobe if enable else disable_kprobe)(st, _kprobe_of(probe))
        self._write_back(st, at, probe)

    # ---- questions
    def _fill_ctlblk(self, st: State, at: int) -> None:
        """Fill in a struct kprobe_ctlblk; without a jprobe its part stays as it was."""
        block = st.arch.running.kprobe_ctlblk()
        flags = block.flags, block.flags  # as they were, and as they are to be set
        previous = self._structure_of(block.previous), block.previous_status
        its_flags = flags if block.previous else (0, 0)
        words = block.status, *flags, block.jprobe_sp, *previous, *its_flags
        saved = *block.jprobe_regs, *block.jprobe_stack
        st.machine.write(at, struct.pack(f"<{len(words + saved)}Q", *words, *saved))

    def _structure_of(self, p: Kprobe | None) -> int:
        """Return the struct kprobe of p, or of its newest probe; 0: none."""
        if p is None:
            return 0
        return next((kp.guest_at for kp in p.list or [p] if kp.guest_at), 0)

    # ---- structures
    def _read_any(self, st: State, at: int) -> Probe:
        """Read a struct kprobe: a plain one, or that of a jprobe or return probe.

        Those are known by the pre_handler that their registration has left there.
        """
        kp = self._read_kprobe(st, at)
        if kp.pre_handler == st.arch.jprobes.pre_handler:
            return self._read_jprobe(st, at)
        if kp.pre_handler == st.arch.rethooks.pre_handler:
            return self._read_kretprobe(st, at)
        return kp

    def _read_kprobe(self, st: State, at: int) -> Kprobe:
        code = abi.Kprobe.STRUCT
        row = code.unpack(st.machine.read(at + abi.Kprobe.list, code.size))
        _, _, addr, symbol, offset, pre, post, fault, brk, _, _, flags = row
        return Kprobe(
            symbol_name=_name(st, symbol) if symbol else None,
            offset=offset,
            addr=KAddr(addr),
            pre_handler=_handler(pre),
            post_handler=_handler(post),
            fault_handler=_handler(fault),
            break_handler=_handler(brk),
            flags=KprobeFlag.DISABLED if flags & KprobeFlag.DISABLED else NO_FLAGS,
            guest_kp=at,
            guest_at=at,
        )

    def _read_kretprobe(self, st: State, at: int) -> Kretprobe:
        code = abi.Kretprobe.STRUCT
        raw = st.machine.read(at + abi.Kretprobe.handler, code.size)
        handler, entry, maxactive, _, data_size = code.unpack(raw)
        kp = self._read_kprobe(st, at)
        kp.guest_kp = 0  # its pre_handler is the engine's
        return Kretprobe(
            kp=kp,
            handler=_handler(handler),
            entry_handler=_handler(entry),
            maxactive=maxactive,
            data_size=data_size,
            guest_kp=at,
        )

    def _read_jprobe(self, st: State, at: int) -> Jprobe:
        kp = self._read_kprobe(st, at)
        kp.guest_kp = 0
        return Jprobe(kp=kp, entry=_handler(st.machine.read_u64(at + abi.Jprobe.entry)))

    @staticmethod
    def _write_back(st: State, at: int, probe: Probe) -> None:
        """Write into a struct kprobe what the kernel leaves in it."""
        m, p = st.machine, _kprobe_of(probe)
        m.write_u64(at + abi.Kprobe.addr, p.addr)
        m.write(at + abi.Kprobe.opcode, bytes(p.opcode[:1] or 1))
        m.write(at + abi.Kprobe.ainsn, _AINSN.pack(*st.arch.copied_insn(p)))
        m.write(at + abi.Kprobe.flags, p.flags.to_bytes(4, "little"))
        if not isinstance(probe, Kprobe):  # its handlers are the engine's
            ours = p.pre_handler, p.post_handler, p.break_handler
            for offset, handler in zip(_HANDLERS, ours, strict=True):
                m.write_u64(at + offset, handler if isinstance(handler, int) else 0)

    def _write_lists(self, st: State, addr: KAddr) -> None:
        """Write the list of the struct kprobes at an address."""
        entry = get_kprobe(st, addr)
        if entry is None:
            return
        if entry.is_aggr:
            with suppress(KernelError):  # no memory for it
                self._write_aggregate(st, entry)
        elif entry.guest_at:
            self._link(st, [entry.guest_at])

    def _write_aggregate(self, st: State, ap: Kprobe) -> int:
        """Write the struct kprobe of an aggr_kprobe, with its list; return where it is.

        The list has the probes of modules alone: those of events have no structure.
        """
        if not ap.guest_at:
            ap.guest_at = self._room(st)
        self._write_back(st, ap.guest_at, ap)
        names = "aggr_pre_handler", "aggr_post_handler" if ap.post_handler else ""
        for offset, name in zip(_HANDLERS, names, strict=False):
            found = st.machine.kallsyms.lookup_name(name) if name else []
            handler = found[0].addr if found else 0
            st.machine.write_u64(ap.guest_at + offset, handler)
        self._link(st, [ap.guest_at, *[kp.guest_at for kp in ap.list if kp.guest_at]])
        return ap.guest_at

    @staticmethod
    def _room(st: State) -> int:
        """Return the address of memory for a struct kprobe."""
        free = st.guest_kprobes
        if not free:
            start = st.machine.area.alloc_data(_ROOM)
            free += range(start, start + _ROOM, abi.Kprobe.SIZE)
        return free.pop()

    @staticmethod
    def _link(st: State, structures: Sequence[int]) -> None:
        """Write the list_heads of some struct kprobes as one list."""
        ring = [at + abi.Kprobe.list for at in structures]
        for i, at in enumerate(ring):
            both = ring[(i + 1) % len(ring)], ring[i - 1]
            with suppress(MemoryFault):  # the structure has gone with its module
                st.machine.write(at, struct.pack("<QQ", *both))

    def sync_flags(self) -> None:
        """Write all flags anew, as the text of some probes may have gone."""
        for at, probe in self._probes.items():
            flags = int(_kprobe_of(probe).flags)
            with suppress(MemoryFault):  # the structure has gone with its module
                self._get_state().machine.write(
                    at + abi.Kprobe.flags, flags.to_bytes(4, "little")
                )
