# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest kernel for a debugger: implements kpfs.gdb.debugged.Debugged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from kpfs.base.errors import MemoryFault
from kpfs.emulator import x86_registers
from kpfs.gdb.debugged import (
    FIRST_TASK,
    Command,
    DebugModule,
    DebugThread,
    GoBack,
    HostClock,
    RunState,
    kept_by_nobody,
)
from kpfs.guest.images import RELEASE

if TYPE_CHECKING:
    from kpfs.backends.guest.root.guest_kernel import GuestKernel
    from kpfs.base.lock import FairLock
    from kpfs.emulator.registers import RegisterFile
    from kpfs.emulator.stops import Stops


class GuestDebugged:
    """Implements Debugged."""

    release = RELEASE

    def __init__(
        self,
        kernel: GuestKernel,
        show_probes: Callable[[GuestKernel], str] | None = None,
        keep: Callable[[], GoBack] = kept_by_nobody,
    ) -> None:
        """show_probes: returns what machine/probes has, for a command.

        keep: see Debugged.
        """
        self._kernel, self._show_probes, self.keep = kernel, show_probes, keep
        self._guest = kernel.guest
        self.arch = kernel.guest.arch
        self._sees_all = False
        self._replaced: list[Callable[[], None]] = []

    @property
    def lock(self) -> FairLock:
        return self._kernel.lock

    @property
    def stops(self) -> Stops:
        return self._guest.cpus.debug()

    def see_all(self, wanted: bool) -> None:
        self._sees_all = wanted
        self._kernel.skip_policy.see_all(wanted)

    def catch_up(self) -> None:
        self._kernel.skip_policy.catch_up()

    def vmlinux(self) -> bytes:
        return self._guest.vmlinux(self._kernel.config.on("DEBUG_INFO"))

    def modules(self) -> Sequence[DebugModule]:
        return [
            DebugModule(module.name, module.section_addresses(), has_file=True)
            for module in self._guest.modules.by_age()
        ]

    def module_file(self, name: str) -> bytes:
        module = self._guest.modules.find(name)
        if module is None:
            raise KeyError(name)
        return bytes(module.file.data)

    def commands(self) -> Mapping[str, Command]:
        def reboot() -> str:
            self._kernel.reboot()
            return "it has started anew\n"

        found = {"reboot": Command("start the kernel anew", reboot, at_rest=True)}
        if self._show_probes is not None:
            show = partial(self._show_probes, self._kernel)
            found["probes"] = Command("all probes, as machine/probes has them", show)
        return found

    @property
    def clock(self) -> HostClock:
        return self._guest.clock

    def call_between_turns(self, call: Callable[[], None] | None) -> None:
        self._guest.sched.call_between_turns(call)

    def follow(self, replaced: Callable[[], None]) -> None:
        self._replaced.append(replaced)

    def replace(self, kernel: GuestKernel) -> None:
        """Be another kernel's from now on.  Context: lock held."""
        self._kernel, self._guest = kernel, kernel.guest
        self.see_all(self._sees_all)
        for replaced in self._replaced:
            replaced()

    # ---- threads and registers
    @property
    def current(self) -> int:
        return self._guest.cpus.active

    def threads(self) -> Sequence[DebugThread]:
        guest, table = self._guest, self._guest.task_table
        running = [table.current(cpu) for cpu in range(guest.nr_cpus)]
        found = [
            DebugThread(cpu + 1, cpu, task.pid, task.comm, RunState.RUNS, task.addr)
            for cpu, task in enumerate(running)
        ]
        busy = {task.addr for task in running}
        for task in table.walk():
            if task.addr not in busy:
                number = FIRST_TASK + task.pid
                found.append(
                    DebugThread(
                        *(number, -1, task.pid, task.comm, RunState.SLEEPS, task.addr)
                    )
                )
        return found

    def processors(self) -> Sequence[DebugThread]:
        cpus = range(self._guest.nr_cpus)
        return [DebugThread(cpu + 1, cpu, 0, "", RunState.RUNS) for cpu in cpus]

    @contextmanager
    def _loaded(self, cpu: int) -> Iterator[RegisterFile]:
        """Have the engine loaded with the registers of one of the CPUs."""
        cpus, current = self._guest.cpus, self.current
        cpus.switch(cpu)
        try:
            yield cpus.registers()
        finally:
            cpus.switch(current)

    def registers(self, thread: DebugThread) -> dict[str, int]:
        if thread.cpu >= 0:
            with self._loaded(thread.cpu) as registers:
                read = partial(x86_registers.read_debugged, registers)
                return {name: read(name) for name in x86_registers.SHOWN}
        memory = self._guest.memory
        try:
            field = memory.read_u32(self._guest.needed("task_thread_sp"))
            sp = memory.read_u64(thread.task + field)
            return x86_registers.asleep(sp, memory.read_u64)
        except MemoryFault:
            return {}

    def register(self, name: str) -> int:
        return x86_registers.read_debugged(self._guest.cpus.registers(), name)

    def set_register(self, thread: DebugThread, name: str, value: int) -> None:
        if thread.cpu < 0:
            raise KeyError(name)
        with self._loaded(thread.cpu) as registers:
            x86_registers.write_debugged(registers, name, value)

    # ---- memory
    def read(self, address: int, size: int) -> bytes:
        return self._guest.memory.read(address, size)

    def original(self, address: int, size: int) -> bytes:
        return self._kernel.arch.original_text(address, size)

    def physical(self, address: int) -> int:
        return self._guest.memory.translate(address, 1)

    def write(self, address: int, data: bytes) -> None:
        self._guest.memory.write(address, data)
        self._guest.cpus.drop(address, len(data))
