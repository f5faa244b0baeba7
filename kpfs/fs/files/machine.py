# SPDX-License-Identifier: GPL-2.0-or-later
"""machine/: files about the emulated machine, which Linux does not have."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Sequence
from functools import cache, cached_property

from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KAddr, Symbol
from kpfs.engine.kprobe import kprobe_ftrace, kprobe_optimized
from kpfs.engine.register import show_entries
from kpfs.fs import syscall_line
from kpfs.fs.node import DynDir, File, Handle, Node
from kpfs.fs.seqfile import SeqFile, ValueFile, whole_lines
from kpfs.fs.syscall_line import Buffer
from kpfs.guest.running.syscalls import HostTask
from kpfs.root.guest_kernel import GuestKernel


class Text(SeqFile):
    """text/SYMBOL: a function's text as it stands, with all that probes put in."""

    def __init__(self, kernel: GuestKernel, symbol: Symbol) -> None:
        super().__init__(kernel)
        self.mode = stat.S_IFREG | 0o400
        self.symbol = symbol

    def show(self) -> str:
        start = self.symbol.addr
        return self.kernel.state.arch.text_listing(
            start, KAddr(start + self.symbol.size)
        )


class TextDir(DynDir):
    """text/: a file for each function of the guest."""

    entry_type = stat.S_IFREG

    def __init__(self, kernel: GuestKernel) -> None:
        super().__init__(kernel)
        self.files: dict[Symbol, Text] = {}

    def entry(self, name: str) -> Node | None:
        with self.kernel.lock:
            symbols = self.kernel.guest.kallsyms.lookup_name(name)
        for symbol in symbols:
            if self.is_function(symbol):
                return self.files.setdefault(symbol, Text(self.kernel, symbol))
        return None

    def entries(self) -> Iterable[str]:
        with self.kernel.lock:
            symbols = list(self.kernel.guest.kallsyms)
        return dict.fromkeys(s.name for s in symbols if self.is_function(s))

    @staticmethod
    def is_function(symbol: Symbol) -> bool:
        return symbol.type in "tTwW" and symbol.size > 0


class Vmlinux(ValueFile):
    """vmlinux: the image of the kernel that runs, for objdump, gdb and their like.

    With CONFIG_DEBUG_INFO=y it has line numbers.
    """

    constant = posthumous = True

    @cached_property
    def image(self) -> bytes:
        return self.kernel.guest.vmlinux(self.kernel.config.on("DEBUG_INFO"))

    @property
    def size(self) -> int:
        return len(self.image)

    @size.setter
    def size(self, size: int) -> None:
        """It stays."""

    def show(self) -> bytes:
        return self.image


class Syscall(File):
    """syscall: each line is a system call of the writing task.

    The first call that fails ends the write, with its errno.  See kpfs.fs.syscall_line.
    """

    def handle(self, flags: int, pid: int) -> Handle:
        return SyscallHandle(self, flags, pid)


class SyscallHandle(Handle):
    """Makes the calls after the write, as they may need what a write holds."""

    acts_later = True
    lines: Sequence[bytes] = ()

    def take(self, data: bytes, pos: int) -> int:
        data = whole_lines(data)
        self.lines = [*self.lines, *data.split(b"\n")]  # of one writev()
        return len(data)

    def written(self, task: HostTask) -> None:
        lines, self.lines = self.lines, ()
        parse = cache(syscall_line.parse)  # usually many are the same
        calls: list[tuple[str, list[int | bytes]]] = []
        wrong: KernelError | None = None
        for line in lines:
            try:
                call = parse(line)
            except KernelError as error:
                wrong = error
                break
            if call is not None:
                args = [task.buffer if a is Buffer.BUF else a for a in call.args]
                calls.append((call.name, args))
        kernel: GuestKernel = self.file.kernel
        kernel.syscalls.call_all(task, calls)
        if wrong is not None:  # those before it were to be made
            raise wrong


class Reboot(File):
    """reboot: a write starts a fresh guest in place of this one, dead or alive."""

    posthumous = revives = True

    def handle(self, flags: int, pid: int) -> Handle:
        return RebootHandle(self, flags, pid)


class RebootHandle(Handle):
    """Reboots."""

    acts_later = True  # the guest cannot replace itself

    def take(self, data: bytes, pos: int) -> int:
        kernel: GuestKernel = self.file.kernel
        kernel.reboot()
        return len(data)


class Stats(SeqFile):
    """stats: probes, hits and misses by what a probe is armed with, and the machine."""

    def show(self) -> str:
        state = self.kernel.state
        rows = {kind: [0, 0, 0] for kind in ("breakpoint", "jump", "ftrace")}
        sites = set()
        for p, entry, _ in show_entries(state):
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
