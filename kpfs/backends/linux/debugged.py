# SPDX-License-Identifier: GPL-2.0-or-later
"""A Linux kernel for a debugger: implements kpfs.gdb.debugged.Debugged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from errno import EOPNOTSUPP
from functools import partial
from typing import TYPE_CHECKING

from kpfs.base import abi
from kpfs.base.errors import KernelError, MemoryFault
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
from kpfs.linux.memory.ftrace import Trampoline, Trampolines
from kpfs.linux.memory.kprobes import Kprobes
from kpfs.linux.memory.memory import looking
from kpfs.linux.memory.modules import ModuleSections, loaded_modules
from kpfs.linux.memory.tasks import TaskList, TaskRow
from kpfs.linux.memory.vmlinux import ModuleFile, TrampolineFile

if TYPE_CHECKING:
    from kpfs.emulator.stops import Stops
    from kpfs.linux.board.board import Board
    from kpfs.linux.running.kernel_on_board import KernelOnBoard
    from kpfs.linux.running.linux_kernel import LinuxKernel


class BoardDebugged:
    """The part of Debugged for which only the machine is needed."""

    def __init__(self, kernel: KernelOnBoard) -> None:
        self._kernel, self.lock = kernel, kernel.lock
        self.arch = kernel.arch.name
        self.release = kernel.meta.release

    @property
    def _board(self) -> Board:
        return self._kernel.machine.board

    @property
    def stops(self) -> Stops:
        return self._board.debug()

    def vmlinux(self) -> bytes:
        return self._kernel.vmlinux.for_debugger()

    def modules(self) -> Sequence[DebugModule]:
        kernel = self._kernel
        copies = [
            DebugModule(name, {".text": each.start}, has_file=True)
            for name, each in self._trampolines().items()
        ]
        try:
            reader = ModuleSections(kernel.memory, kernel.symbols, kernel.structures)
            rows = [DebugModule(name, at, has_file=True) for name, at in reader.rows()]
        except (KernelError, MemoryFault, KeyError, ValueError):
            return copies
        return [*rows, *copies]

    def _trampolines(self) -> dict[str, Trampoline]:
        """Return what ftrace has copied, by names as of modules."""
        kernel, found = self._kernel, dict[str, Trampoline]()
        with suppress(KernelError), looking():
            reader = Trampolines(kernel.memory, kernel.symbols, kernel.structures)
            found.update({f"[ftrace@{each.start:x}]": each for each in reader})
        return found

    def module_file(self, name: str) -> bytes:
        kernel, machine = self._kernel, self._kernel.arch.elf_machine
        memory, structures = kernel.memory, kernel.structures
        with suppress(KernelError), looking():
            if copy := self._trampolines().get(name):
                parts = memory, kernel.symbols, structures, machine
                return TrampolineFile(*parts, copy).for_debugger()
            for module in loaded_modules(memory, kernel.symbols, structures):
                if module.name == name:
                    made = ModuleFile(memory, module, structures, machine)
                    return made.for_debugger()
        raise KeyError(name)

    @property
    def clock(self) -> HostClock | None:
        return None

    def see_all(self, wanted: bool) -> None:
        self._kernel.skip_policy.see_all(wanted)

    def catch_up(self) -> None:
        self._kernel.skip_policy.catch_up()

    def follow(self, replaced: Callable[[], None]) -> None:
        self._kernel.follow_boards(lambda _board: replaced())

    def call_between_turns(self, call: Callable[[], None] | None) -> None:
        self._kernel.machine.call_between_turns(call)

    # ---- threads and registers
    @property
    def current(self) -> int:
        return self._board.get(abi.Board.current)

    def threads(self) -> Sequence[DebugThread]:
        rows = self._rows()
        running = {row.cpu: row for row in rows if row.cpu >= 0}
        found = []
        for each in self.processors():
            row = running.get(each.cpu, TaskRow(0, 0, "", each.cpu))
            found.append(each._replace(pid=row.pid, comm=row.comm, task=row.addr))
        for row in rows:
            if row.cpu < 0:
                number = FIRST_TASK + row.pid
                found.append(
                    DebugThread(
                        number, -1, row.pid, row.comm, RunState.SLEEPS, row.addr
                    )
                )
        return found

    def processors(self) -> Sequence[DebugThread]:
        found = []
        for cpu in range(self._board.get(abi.Board.nr_cpus)):
            off = self._board.get_cpu(cpu, abi.Cpu.state) == abi.CPU_OFF
            state = RunState.OFF if off else RunState.RUNS
            found.append(DebugThread(cpu + 1, cpu, 0, "", state))
        return found

    def _tasks(self) -> TaskList:
        kernel = self._kernel
        return TaskList(kernel.memory, kernel.symbols, kernel.structures)

    def _rows(self) -> list[TaskRow]:
        """Return all tasks; [] where the kernel does not say where they are."""
        try:
            return list(self._tasks().rows())
        except (KernelError, MemoryFault, KeyError, ValueError):
            return []

    @contextmanager
    def _loaded(self, cpu: int) -> Iterator[Board]:
        """Have the board stand at one of its processors."""
        board, current = self._board, self.current
        if cpu != current:
            board.select(cpu)
        try:
            yield board
        finally:
            if cpu != current:
                board.select(current)

    def registers(self, thread: DebugThread) -> dict[str, int]:
        arch = self._kernel.arch
        if thread.state is RunState.OFF:
            return {}
        if thread.cpu >= 0:
            with self._loaded(thread.cpu) as board:
                return {name: arch.debugged(board, name) for name in arch.shown}
        try:
            field = partial(self._tasks().place, thread.task)
            return arch.asleep(field, self._kernel.memory)
        except (KernelError, MemoryFault, KeyError):
            return {}

    def register(self, name: str) -> int:
        return self._kernel.arch.debugged(self._board, name)

    def set_register(self, thread: DebugThread, name: str, value: int) -> None:
        if thread.cpu < 0 or thread.state is RunState.OFF:
            raise KeyError(name)
        with self._loaded(thread.cpu) as board:
            self._kernel.arch.set_debugged(board, name, value)

    # ---- memory
    def read(self, address: int, size: int) -> bytes:
        return self._kernel.memory.read(address, size)

    def original(self, address: int, size: int) -> bytes:
        kernel = self._kernel
        probes = Kprobes(kernel.memory, kernel.symbols, kernel.structures)
        live = self.read(address, size)
        return probes.unprobed(address, live, kernel.arch.breakpoint_size)

    def physical(self, address: int) -> int:
        at = self._board.translate(address)
        if at == abi.NEVER:
            raise MemoryFault(address)
        return at

    def write(self, address: int, data: bytes) -> None:
        self._kernel.memory.write(address, data)
        self._board.flush()


class LinuxDebugged(BoardDebugged):
    """Implements Debugged."""

    def __init__(
        self,
        kernel: LinuxKernel,
        show_probes: Callable[[], str] | None = None,
        keep: Callable[[], GoBack] = kept_by_nobody,
    ) -> None:
        """show_probes: returns what machine/probes has, for a command.

        keep: see Debugged.
        """
        super().__init__(kernel)
        self.keep = keep
        self._linux, self._show_probes = kernel, show_probes

    def commands(self) -> Mapping[str, Command]:
        def reboot() -> str:
            self._linux.reboot()
            return "it has started anew\n"

        found = {"reboot": Command("start from the image anew", reboot, at_rest=True)}
        if self._show_probes is not None:
            help_ = "all probes, as machine/probes has them"
            found["probes"] = Command(help_, self._show_probes)
        return found


class InsideDebugged(BoardDebugged):
    """Implements Debugged by a kernel that has a command inside."""

    def __init__(
        self, kernel: KernelOnBoard, show_search: Callable[[], str] | None = None
    ) -> None:
        """show_search: returns how far the run of a seed has come, for a command."""
        super().__init__(kernel)
        self._show_search = show_search

    def keep(self) -> GoBack:
        raise KernelError(EOPNOTSUPP, "the command inside uses the host's files")

    def commands(self) -> Mapping[str, Command]:
        """Return those for seeds, and those refused at once, as something runs."""

        def refuse() -> str:
            self.keep()
            return ""

        refused = Command("not with a command inside", refuse)
        found = {"snapshot": refused, "restore": refused}
        if self._show_search is not None:
            help_ = "the seed's plan, and how far its run has come"
            found["search"] = Command(help_, self._show_search)
        return found
