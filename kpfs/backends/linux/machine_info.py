# SPDX-License-Identifier: GPL-2.0-or-later
"""The facts and actions of machine/ for a Linux kernel: its MachineInfo.

It is read out of the kernel's memory, and so is there when the kernel is dead, too.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from kpfs.base.errors import KernelError
from kpfs.base.ktypes import Symbol
from kpfs.base.losses import NOT_COUNTED
from kpfs.base.units import PAGE_SIZE
from kpfs.fs.machine import ProbeRow, is_function
from kpfs.fs.syscall_line import Buffer, SyscallLine
from kpfs.linux.memory.calls import call_numbers
from kpfs.linux.memory.data_symbols import DataSymbols
from kpfs.linux.memory.ftrace import ftrace_sites, without_calls
from kpfs.linux.memory.kprobes import FLAG_FTRACE, Kprobes, ProbeState
from kpfs.linux.memory.losses import uncounted
from kpfs.linux.memory.memory import looking
from kpfs.linux.memory.modules import AllSymbols
from kpfs.linux.memory.structures import View
from kpfs.linux.running import loading
from kpfs.linux.running.machine import Argument, Op, SlotOffset
from kpfs.linux.running.tasks import AgentTask

if TYPE_CHECKING:
    from kpfs.backends.linux.coverage import LinuxCoverage
    from kpfs.base.core_file import CoreFile
    from kpfs.linux.running.linux_kernel import LinuxKernel

BUFFER_SIZE = 4096
_MOST = 0x100  # bytes of a slot or a detour buffer
_LEAVES = re.compile(r" (jmp|int3|brk|ebreak|c\.ebreak)\b")  # their last instructions
# Calls that end the task, or let another run in its memory, which all tasks share.
REFUSED = frozenset(
    (
        "fork vfork clone clone3 execve execveat exit exit_group rt_sigreturn "
        "mmap munmap mremap mprotect brk"
    ).split()
)


class LinuxMachineInfo:
    """Implements kpfs.fs.machine.MachineInfo; each task is an AgentTask."""

    def __init__(
        self,
        kernel: LinuxKernel,
        mount_table: Callable[[int], bytes],
        coverage: LinuxCoverage | None = None,
        dump: Callable[[LinuxKernel], CoreFile] | None = None,
    ) -> None:
        """mount_table: returns that of a process of the host; OSError.

        coverage: what records it, if something does.
        """
        self._dump = dump
        self.kernel, self.lock = kernel, kernel.lock
        self._coverage, self.covers = coverage, coverage is not None
        self.mount_table = mount_table
        self._numbers: dict[str, int] = {}  # numbers of system calls

    # ---- to look at
    def functions(self) -> Iterable[str]:
        found = dict.fromkeys(self.kernel.symbols.functions())
        with looking():
            for module in self.kernel.modules():
                found.update(dict.fromkeys(module.functions()))
        return found

    def _symbols(self) -> AllSymbols:
        return AllSymbols(self.kernel.symbols, self.kernel.modules())

    def functions_named(self, name: str) -> Sequence[Symbol]:
        """Return the symbols of functions; MODULE:NAME is a module's."""
        with looking():
            symbols = self._symbols()
        return [
            symbol
            for symbol in symbols.lookup_name(name)
            if is_function(symbol)
            if not symbol.module or symbols.module_at(symbol.addr) is not None
        ]

    def text(self, symbol: Symbol) -> str:
        from kpfs.engine.arch.arches import TEXT_TOOLS

        kernel, (name, start, size, _, module) = self.kernel, symbol
        with looking():
            live = kernel.memory.read(start, size)
            before = self._unpatched(start, live) if module else b""
            symbols = self._symbols()
        before = before or kernel.saved_memory.read(start, size)
        compared = TEXT_TOOLS[kernel.arch.name]().compared

        def listed(code: bytes, was: bytes, at: int) -> Iterable[str]:
            return compared(code, was, at, symbols.name_of)

        rows = [*listed(live, before, start)]
        with suppress(KernelError):  # it does not say what probes it has
            for probe in self.probes() if live != before else ():
                at = probe.address - start
                if 0 <= at < size and live[at : at + 4] != before[at : at + 4]:
                    rows += self._out_of_line(probe, name, at, listed)
        head = f"{name} [{module}]:" if module else f"{name}:"
        return "\n".join((head, *rows, ""))

    def _out_of_line(
        self,
        probe: ProbeRow,
        name: str,
        offset: int,
        listed: Callable[[bytes, bytes, int], Iterable[str]],
    ) -> Iterator[str]:
        """List the slot and the detour buffer of a probe in a function of that name."""
        places = {
            "slot": (probe.slot, ""),
            "detour buffer": (probe.detour, f"<{name}+"),
        }
        for title, (at, target) in places.items():
            if not at:
                continue
            yield from ("", f"{title} of {name}+{offset:#x}:")
            with looking():
                code = self.kernel.memory.read(at, min(_MOST, -at % PAGE_SIZE or _MOST))
            for row in listed(code, code, at):
                yield row
                if _LEAVES.search(row) and target in row:
                    break

    def _unpatched(self, start: int, live: bytes) -> bytes:
        """Return a module's text, which the image lacks, without probes and calls."""
        from kpfs.engine.arch.arches import TEXT_TOOLS

        kernel = self.kernel
        probes = Kprobes(kernel.memory, kernel.symbols, kernel.structures)
        code = probes.unprobed(start, live, kernel.arch.breakpoint_size)
        size = kernel.structures["dyn_ftrace"].size
        named = TEXT_TOOLS[kernel.arch.name]().named_addresses
        data = DataSymbols(kernel.saved_memory, kernel.symbols, named)
        sites = [*ftrace_sites(kernel.memory, data, size)]
        nop = kernel.saved_memory.read(sites[0], len(kernel.arch.ftrace_nop))
        return without_calls(code, start, iter(sites), nop)

    def probes(self) -> list[ProbeRow]:
        kernel = self.kernel
        with looking():
            probes = Kprobes(kernel.memory, kernel.symbols, kernel.structures)
            symbols = self._symbols()
            return [_row(probes, probe, symbols) for probe in probes]

    def stats(self) -> str:
        rows = self.kernel.machine.stats()
        return "".join(f"{name} {value}\n" for name, value in rows.items())

    def lost(self) -> list[str]:
        kernel, told = self.kernel, self.kernel.losses.told()
        unknown = uncounted(kernel.symbols, kernel.structures)
        return told + [f"{NOT_COUNTED}{', '.join(unknown)}"] * bool(unknown)

    def coverage(self) -> str:
        return self._coverage.report().tracefile() if self._coverage else ""

    def vmlinux_size(self) -> int:
        return self.kernel.vmlinux.size

    def vmlinux(self) -> bytes:
        return self.kernel.vmlinux.content()

    def vmcore_size(self) -> int:
        from kpfs.base.core_file import HEAD_SIZE

        return HEAD_SIZE + len(self.kernel.machine.board.ram)

    def vmcore(self) -> CoreFile:
        if self._dump is None:
            raise KernelError(errno.ENOTSUP, "no dump is made here")
        return self._dump(self.kernel)

    # ---- to change
    def reboot(self) -> None:
        self.kernel.reboot()

    def host_pid(self, task: object) -> int:
        return cast(AgentTask, task).host_pid

    def number(self, name: str) -> int:
        """Return the number of a system call.

        ENOSYS: there is no such call; EPERM: the task could not go on after it.
        """
        if name in REFUSED:
            raise KernelError(errno.EPERM, f"{name}: the task could not go on")
        if not self._numbers:
            kernel = self.kernel
            named = kernel.arch.syscall_prefix, kernel.arch.first_call
            table = kernel.structures.data("sys_call_table")
            self._numbers = call_numbers(kernel.memory, kernel.symbols, table, *named)
        if not self._numbers:
            raise KernelError(errno.EOPNOTSUPP, "no table of system calls was found")
        number = self._numbers.get(name)
        if number is None:
            raise KernelError(errno.ENOSYS, f"no system call {name}")
        return number

    def make_calls(self, task: object, calls: Sequence[SyscallLine]) -> None:
        kernel = self.kernel
        for name, args in calls:
            with kernel.lock:
                number = self.number(name)
                op = Op(number, tuple(map(_argument, args)), native=True)
                kernel.watch.always = True  # nobody knows what it has begun
                buffer = bytes(BUFFER_SIZE)
                made = kernel.tasks.request(
                    cast(AgentTask, task), [op], buffer
                ).results[0]
            if made < 0:
                raise KernelError(-made, name)

    def insmod(self, task: object, image: bytes, parameters: bytes) -> None:
        with self.kernel.lock:
            loading.load(self.kernel, cast(AgentTask, task), image, parameters)

    def insmod_named(self, task: object, name: str, parameters: bytes) -> None:
        with self.kernel.lock:
            loading.load_named(self.kernel, cast(AgentTask, task), name, parameters)

    def rmmod(self, task: object, name: bytes) -> None:
        with self.kernel.lock:
            loading.unload(self.kernel, cast(AgentTask, task), os.fsdecode(name))


def _argument(value: int | bytes | Buffer) -> Argument:
    if isinstance(value, bytes):
        return value + b"\0"
    return SlotOffset(0) if isinstance(value, Buffer) else value


def _row(probes: Kprobes, probe: ProbeState, symbols: AllSymbols) -> ProbeRow:
    entry = probe.entry
    event = probes.event(probe)
    optimized = probes.optimized(entry)
    return ProbeRow(
        probe.addr,
        "r" if probe.is_return else "k",
        symbols.symbol_at(probe.addr),
        event[0] if event else _module(probes, probe, symbols),
        probes.statuses(entry),
        _boostable(probe),
        _slot(entry),
        optimized.word("optinsn.insn") if optimized else None,
        event[1] if event else None,
        probes.nmissed(probe),
    )


def _slot(entry: View) -> int:
    """Return the address of the instruction's copy, 0 if there is none."""
    places = ("ainsn.insn", "ainsn.api.insn", "ainsn.xol_insn")
    return next(filter(None, map(entry.word, places)), 0)


def _boostable(probe: ProbeState) -> int | None:
    """Return what ProbeRow says; None if the instruction has no copy."""
    entry = probe.entry
    if entry.number("flags", 4) & FLAG_FTRACE or not _slot(entry):
        return None
    if not entry.bit("ainsn.boostable"):
        return -1
    return 0 if entry.word("post_handler") else 1


def _module(probes: Kprobes, probe: ProbeState, symbols: AllSymbols) -> str:
    """Return the module that a probe's handlers are of."""
    owners = (symbols.module_at(addr) for addr in probes.handlers(probe))
    return next((module.name for module in owners if module), "-")
