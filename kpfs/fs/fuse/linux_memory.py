# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of machine/ that show a real kernel's memory, also when it is dead."""

from __future__ import annotations

import errno
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from kpfs.base.errors import KernelError, MemoryFault
from kpfs.base.ktypes import Symbol
from kpfs.fs.fuse.linux_node import OwnNode
from kpfs.linux.memory.ftrace import ftrace_sites, without_calls
from kpfs.linux.memory.kprobes import FLAG_FTRACE, Kprobes, Probe
from kpfs.linux.memory.modules import AllSymbols
from kpfs.linux.memory.vmlinux import Vmlinux
from kpfs.linux.running.linux_kernel import LinuxKernel

ARCH = "x86"
FUNCTION_TYPES = frozenset("tTwW")
# of struct kprobe_ctlblk; as machine/probes of our own kernel names them
STATES = {0: "-", 1: "HIT_ACTIVE", 2: "HIT_SS", 4: "REENTER", 8: "HIT_SSDONE"}
COLUMNS = (
    "address", "type", "place", "owner", "state", "boostable", "slot", "detour", "hits",
    "nmissed",
)  # fmt: skip


@contextmanager
def looking(kernel: LinuxKernel) -> Iterator[None]:
    """Look into its memory, which stands still; EFAULT: it is not as it should be."""
    try:
        with kernel.lock:
            yield
    except MemoryFault as fault:
        raise KernelError(errno.EFAULT, str(fault)) from None


class Text(OwnNode):
    """text/SYMBOL: a function's text as it stands."""

    mode = stat.S_IFREG | 0o400

    def __init__(self, kernel: LinuxKernel, symbol: Symbol) -> None:
        self.kernel = kernel
        self.symbol = symbol

    def text(self, pid: int) -> bytes:
        from kpfs.engine.arch.arches import COMPARED

        kernel, (name, start, size, _, module) = self.kernel, self.symbol
        with looking(kernel):
            live = kernel.memory.read(start, size)
            before = self._unpatched(live) if module else b""
            symbols = AllSymbols(kernel.symbols, kernel.modules())
        before = before or kernel.saved_memory.read(start, size)
        rows = COMPARED[ARCH](live, before, start, symbols.name_of)
        head = f"{name} [{module}]:" if module else f"{name}:"
        return "\n".join((head, *rows, "")).encode("latin-1")

    def _unpatched(self, live: bytes) -> bytes:
        """A module's text without probes and calls; the image does not have it."""
        kernel = self.kernel
        probes = Kprobes(kernel.memory, kernel.symbols, kernel.structures)
        sites = ftrace_sites(kernel.memory, kernel.symbols)
        start = self.symbol.addr
        return without_calls(probes.unprobed(start, live), start, sites)


class TextDir(OwnNode):
    """text/: a file for each function that is in memory."""

    mode = stat.S_IFDIR | 0o755

    def __init__(self, kernel: LinuxKernel) -> None:
        self.kernel = kernel

    def names(self) -> Iterable[tuple[str, int]]:
        found = dict.fromkeys(self.kernel.symbols.functions())
        with looking(self.kernel):
            for module in self.kernel.modules():
                found.update(dict.fromkeys(module.functions()))
        return [(name, stat.S_IFREG) for name in found]

    def find(self, name: str) -> OwnNode | None:
        """Of several of one name the first in kallsyms; MODULE:NAME is of a module."""
        with looking(self.kernel):
            symbols = AllSymbols(self.kernel.symbols, self.kernel.modules())
        for symbol in symbols.lookup_name(name):
            if symbol.type in FUNCTION_TYPES and symbol.size:
                module = symbol.module and symbols.module_at(symbol.addr) is None
                if not module:
                    return Text(self.kernel, symbol)
        return None


class Probes(OwnNode):
    """probes: a line for each probe, in the order of kprobes/list."""

    def __init__(self, kernel: LinuxKernel) -> None:
        self.kernel = kernel

    def text(self, pid: int) -> bytes:
        kernel = self.kernel
        with looking(kernel):
            probes = Kprobes(kernel.memory, kernel.symbols, kernel.structures)
            symbols = AllSymbols(kernel.symbols, kernel.modules())
            rows = [COLUMNS, *(_row(probes, probe, symbols) for probe in probes)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = (
            "  ".join(
                word.ljust(width) for word, width in zip(row, widths, strict=True)
            )
            for row in rows
        )
        return "".join(f"{line.rstrip()}\n" for line in lines).encode("latin-1")


def _row(probes: Kprobes, probe: Probe, symbols: AllSymbols) -> tuple[str, ...]:
    entry = probe.entry
    symbol = symbols.symbol_at(probe.addr)
    place = f"{symbol.name}+{probe.addr - symbol.addr:#x}" if symbol else "-"
    event = probes.event(probe)
    optimized = probes.optimized(entry)
    return (
        f"{probe.addr:016x}",
        "r" if probe.is_return else "k",
        f"{place}:{symbol.module}" if symbol and symbol.module else place,
        event[0] if event else _module(probes, probe, symbols),
        ",".join(STATES.get(s, str(s)) for s in probes.statuses(entry)),
        _boostable(probe),
        _address(entry.word("ainsn.insn")),
        _address(optimized.word("optinsn.insn") if optimized else 0),
        str(event[1]) if event else "-",
        str(probes.nmissed(probe)),
    )


def _boostable(probe: Probe) -> str:
    """1: its copy ends in a jump back; 0: it could; -1: it could not; -: no copy."""
    entry = probe.entry
    if entry.number("flags", 4) & FLAG_FTRACE or not entry.word("ainsn.insn"):
        return "-"
    if not entry.bit("ainsn.boostable"):
        return "-1"
    return "0" if entry.word("post_handler") else "1"


def _module(probes: Kprobes, probe: Probe, symbols: AllSymbols) -> str:
    """The module that a probe's handlers are of."""
    owners = (symbols.module_at(addr) for addr in probes.handlers(probe))
    return next((module.name for module in owners if module), "-")


def _address(addr: int) -> str:
    return f"{addr:016x}" if addr else "-"


class VmlinuxFile(OwnNode):
    """vmlinux: the kernel's image, for objdump, nm, gdb and bpftool."""

    mode = stat.S_IFREG | 0o444
    lasts = True

    def __init__(self, kernel: LinuxKernel) -> None:
        self._file = Vmlinux(kernel.saved_memory, kernel.symbols)

    @property
    def size(self) -> int:
        return self._file.size

    def text(self, pid: int) -> bytes:
        return self._file.content()
