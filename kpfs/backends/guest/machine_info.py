# SPDX-License-Identifier: GPL-2.0-or-later
"""The facts and actions of machine/ for the guest kernel: its MachineInfo."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial

from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KAddr, Symbol
from kpfs.base.typed import TYPE_CHECKING, cast
from kpfs.engine.judge import place_of
from kpfs.engine.kprobe import Kprobe, OptimizedKprobe, kprobe_ftrace, kprobe_optimized
from kpfs.engine.register import ListEntry, show_entries
from kpfs.fs.machine import ProbeRow, is_function
from kpfs.fs.module_file import contents
from kpfs.fs.syscall_line import Buffer, SyscallLine
from kpfs.guest.images import IMAGE_DIR
from kpfs.guest.running.hosttask import HostTask

if TYPE_CHECKING:
    from kpfs.backends.guest.coverage import GuestCoverage
    from kpfs.backends.guest.root.guest_kernel import GuestKernel
    from kpfs.base.core_file import CoreFile

SHIPPED = os.path.join(IMAGE_DIR, "modules")


class GuestMachineInfo:
    """Implements kpfs.fs.machine.MachineInfo; each task is a HostTask."""

    def __init__(
        self,
        kernel: GuestKernel,
        coverage: GuestCoverage | None = None,
        dump: Callable[[GuestKernel], CoreFile] | None = None,
    ) -> None:
        """coverage: what records it, if something does."""
        self._dump = dump
        self.kernel, self.lock = kernel, kernel.lock
        self._coverage, self.covers = coverage, coverage is not None

    # ---- to look at
    def functions(self) -> Iterable[str]:
        symbols = self.kernel.guest.kallsyms
        return dict.fromkeys(s.name for s in symbols if is_function(s))

    def functions_named(self, name: str) -> Sequence[Symbol]:
        symbols = self.kernel.guest.kallsyms.lookup_name(name)
        return [*filter(is_function, symbols)]

    def text(self, symbol: Symbol) -> str:
        end = KAddr(symbol.addr + symbol.size)
        return self.kernel.state.arch.text_listing(symbol.addr, end)

    def probes(self) -> Iterator[ProbeRow]:
        kprobe_events = self.kernel.parts_built().kprobe_events
        events = kprobe_events.owners() if kprobe_events is not None else {}
        for shown in show_entries(self.kernel.state):
            yield self._row(shown, events)

    def _row(self, shown: ListEntry, events: dict[int, str]) -> ProbeRow:
        p, entry = shown
        symbol = self.kernel.guest.kallsyms.symbol_at(entry.addr)
        arch = self.kernel.state.arch
        slot, _, _ = arch.copied_insn(entry)
        detour = arch.opt.buffer(entry) if isinstance(entry, OptimizedKprobe) else None
        return ProbeRow(
            entry.addr,
            p.kind,
            symbol,
            events.get(id(p)) or self._module(p),
            arch.running.statuses(entry),
            arch.boostable(entry),
            slot,
            detour,
            arch.hits(entry),
            arch.nmissed(p),
        )

    def _module(self, p: Kprobe) -> str:
        """Return the module that registered a probe; "-" for the engine's own user."""
        module = self.kernel.guest.modules.at(p.guest_at) if p.guest_at else None
        return module.name if module else "-"

    def stats(self) -> str:
        """Return probes, hits and misses by how a probe is armed, and counters."""
        state = self.kernel.state
        rows = {kind: [0, 0, 0] for kind in ("breakpoint", "jump", "ftrace")}
        sites = set()
        for p, entry in show_entries(state):
            kind = "ftrace" if kprobe_ftrace(entry) else "breakpoint"
            if kprobe_optimized(entry):
                kind = "jump"
            row = rows[kind]
            row[0] += 1
            row[2] += state.arch.nmissed(p)
            if entry.site is not None and entry.site not in sites:
                sites.add(entry.site)
                row[1] += state.arch.hits(entry)
        lines = [f"{'kind':<12}{'probes':>8}{'hits':>14}{'missed':>14}\n"]
        for kind, row in rows.items():
            lines.append(f"{kind:<12}{row[0]:>8}{row[1]:>14}{row[2]:>14}\n")
        counters = self.kernel.stats()
        lines += [f"{name} {value}\n" for name, value in counters.items()]
        return "".join(lines)

    def lost(self) -> list[str]:
        from kpfs.backends.guest.losses import told

        names = partial(place_of, self.kernel.guest.kallsyms)
        return told(self.kernel.parts_built(), names)

    def coverage(self) -> str:
        return self._coverage.report().tracefile() if self._coverage else ""

    @cached_property
    def _vmlinux(self) -> bytes:
        return self.kernel.guest.vmlinux(self.kernel.config.on("DEBUG_INFO"))

    def vmlinux_size(self) -> int:
        return len(self._vmlinux)

    def vmlinux(self) -> bytes:
        return self._vmlinux

    def vmcore_size(self) -> int:
        from kpfs.base.core_file import HEAD_SIZE

        return HEAD_SIZE + self.kernel.guest.memory.size

    def vmcore(self) -> CoreFile:
        if self._dump is None:
            raise KernelError(errno.ENOTSUP, "no dump is made here")
        return self._dump(self.kernel)

    def mount_table(self, pid: int) -> bytes:
        return self.kernel.mount_table(pid)

    # ---- to change
    def reboot(self) -> None:
        self.kernel.reboot()

    def host_pid(self, task: object) -> int:
        return cast(HostTask, task).host_pid

    def make_calls(self, task: object, calls: Sequence[SyscallLine]) -> None:
        writer = cast(HostTask, task)
        made = [
            (name, [writer.buffer if a is Buffer.BUF else a for a in args])
            for name, args in calls
        ]
        self.kernel.syscalls.call_all(writer, made)

    def insmod(self, task: object, image: bytes, parameters: bytes) -> None:
        self.kernel.syscalls.insmod(cast(HostTask, task), image, parameters)

    def insmod_named(self, task: object, name: str, parameters: bytes) -> None:
        image = contents(os.fsencode(os.path.join(SHIPPED, f"{name}.ko")))
        self.insmod(task, image, parameters)

    def rmmod(self, task: object, name: bytes) -> None:
        writer = cast(HostTask, task)
        self.kernel.syscalls.sleeping_call(writer, "delete_module", name, os.O_NONBLOCK)
