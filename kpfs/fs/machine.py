# SPDX-License-Identifier: GPL-2.0-or-later
"""machine/: files about the emulated kernel, which Linux itself does not have.

Each kind of kernel has all of them, made from its MachineInfo.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from kpfs.base.errors import KernelError
from kpfs.base.ktypes import FUNCTION_TYPES, Symbol
from kpfs.base.lock import FairLock
from kpfs.base.typed import TYPE_CHECKING, NamedTuple, Protocol
from kpfs.fs import syscall_line
from kpfs.fs.module_file import NAME, WORD, contents, module_name, seen_by
from kpfs.fs.node import Dir, DynDir, File, Handle, Node, populate
from kpfs.fs.seqfile import SeqFile, SeqHandle, whole_lines
from kpfs.fs.syscall_line import SyscallLine
from kpfs.fs.traits import AfterExits, Constant, Posthumous, Reviving, Sleeping, Vital

if TYPE_CHECKING:
    from kpfs.base.core_file import CoreFile

# the states that "Probing the Guts of Kprobes" draws, without their KPROBE_
STATES = {0: "-", 1: "HIT_ACTIVE", 2: "HIT_SS", 4: "REENTER", 8: "HIT_SSDONE"}
COLUMNS = (
    "address", "type", "place", "owner", "state", "boostable", "slot", "detour", "hits",
    "nmissed",
)  # fmt: skip


class ProbeRow(NamedTuple):
    """The machinery behind a registered probe."""

    address: int
    kind: str
    symbol: Symbol | None
    owner: str  # the event or the module that registered it
    states: Iterable[int]  # kprobe_status on each CPU
    # -1: the instruction cannot be; 0: it is not; 1: its copy ends in a jump back
    boostable: int | None
    slot: int | None
    detour: int | None
    hits: int | None  # those of the address, which is what the code at a hit counts
    nmissed: int


class MachineInfo(Protocol):
    """The protocol of what a kernel says of itself, and can be made to do.

    A task is one of the kernel's, as Handle.written() gets it.  Methods raise
    KernelError.  Context: lock held, except where something else is said.
    """

    lock: FairLock  # the kernel's
    covers: bool  # the reached functions and lines are recorded

    # ---- to look at
    def functions(self) -> Iterable[str]:
        """Return the names of the functions in memory, each once."""

    def functions_named(self, name: str) -> Sequence[Symbol]:
        """Return the functions of that name in the order of kallsyms."""

    def text(self, symbol: Symbol) -> str:
        """Return a function's listing as it stands, with all that probes put in."""

    def probes(self) -> Iterable[ProbeRow]:
        """Return the registered probes in the order of kprobes/list."""

    def stats(self) -> str: ...

    def lost(self) -> Iterable[str]:
        """Return a line for each kind of loss: hits of probes without a record, and
        records that nobody got.
        """

    def coverage(self) -> str:
        """Return what was reached as a tracefile of lcov, if ``covers``."""

    def vmlinux_size(self) -> int: ...

    def vmlinux(self) -> bytes:
        """Return the image of the kernel.  Context: the lock is not held."""

    def vmcore_size(self) -> int: ...

    def vmcore(self) -> CoreFile:
        """Return a dump of the kernel, alive or dead, as it is at this moment."""

    def mount_table(self, pid: int) -> bytes:
        """Return the mount table of a process of the host; OSError."""

    # ---- to change
    def reboot(self) -> None:
        """Start the kernel anew, dead or alive."""

    def host_pid(self, task: object) -> int:
        """Return the process that a task stands for.  Context: any."""

    def make_calls(self, task: object, calls: Sequence[SyscallLine]) -> None:
        """Make system calls up to the first that fails.  Context: lock not held."""

    def insmod(self, task: object, image: bytes, parameters: bytes) -> None:
        """Load a module.  Context: lock not held."""

    def insmod_named(self, task: object, name: str, parameters: bytes) -> None:
        """Load a module that comes with the kernel.  Context: lock not held."""

    def rmmod(self, task: object, name: bytes) -> None:
        """Unload a module.  Context: lock not held."""


# ---- to look at
class MachineFile(File):
    """A file about the machine, or one that acts on it."""

    def __init__(self, info: MachineInfo) -> None:
        super().__init__()
        self.info = info


class FunctionText(MachineFile, SeqFile):
    """text/SYMBOL: a function's text as it stands, with all that probes put in.

    Where several functions have the name, that is each of them.
    """

    def __init__(self, info: MachineInfo, symbols: Sequence[Symbol]) -> None:
        super().__init__(info)
        self.mode = stat.S_IFREG | 0o400
        self.symbols = symbols

    def show(self) -> str:
        return text_of(self.info, self.symbols)


class TextDir(DynDir):
    """text/: a file for each function that is in memory."""

    entry_type = stat.S_IFREG

    def __init__(self, info: MachineInfo) -> None:
        super().__init__()
        self.info = info
        self.files: dict[tuple[Symbol, ...], FunctionText] = {}

    def entry(self, name: str) -> Node | None:
        with self.info.lock:
            symbols = tuple(self.info.functions_named(name))
        if not symbols:
            return None
        return self.files.setdefault(symbols, FunctionText(self.info, symbols))

    def entries(self) -> Iterable[str]:
        with self.info.lock:
            return list(self.info.functions())


def text_of(info: MachineInfo, symbols: Sequence[Symbol]) -> str:
    """Return the listings of functions that share a name.  Raises KernelError."""
    if len(symbols) == 1:
        return info.text(symbols[0])
    heads = [f"{each.name} at {each.addr:#x}, {each.size} bytes" for each in symbols]
    texts = map(info.text, symbols)
    return "\n".join(f"{head}\n{text}" for head, text in zip(heads, texts, strict=True))


def is_function(symbol: Symbol) -> bool:
    """Return True if a symbol has a file in text/."""
    return symbol.type in FUNCTION_TYPES and symbol.size > 0


class Probes(MachineFile, SeqFile):
    """probes: a line for each probe, below the names of the columns.

    An absent value is "-".
    """

    def show(self) -> str:
        rows = [COLUMNS, *map(_words, self.info.probes())]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(map(str.ljust, row, widths)) for row in rows)
        return "".join(f"{line.rstrip()}\n" for line in lines)


def _words(row: ProbeRow) -> tuple[str, ...]:
    symbol, place = row.symbol, "-"
    if symbol:
        place = f"{symbol.name}+{row.address - symbol.addr:#x}"
        place += f":{symbol.module}" if symbol.module else ""
    return (
        f"{row.address:016x}",
        row.kind,
        place,
        row.owner,
        ",".join(STATES.get(state, str(state)) for state in row.states),
        _number(row.boostable),
        _address(row.slot),
        _address(row.detour),
        _number(row.hits),
        str(row.nmissed),
    )


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _address(addr: int | None) -> str:
    return f"{addr:016x}" if addr else "-"


class Stats(MachineFile, SeqFile):
    """stats: what the kernel and its machine have counted."""

    def show(self) -> str:
        return self.info.stats()


class Lost(MachineFile, SeqFile, Posthumous):
    """lost: what the kernel has lost, a line for each cause."""

    def show(self) -> str:
        return "".join(f"{line}\n" for line in self.info.lost())


class Coverage(MachineFile, SeqFile, Posthumous):
    """coverage: which functions and lines were reached, as a tracefile of lcov."""

    def show(self) -> str:
        return self.info.coverage()


class MountsHandle(SeqHandle):
    """One reader, whose pid is that of a process of the host."""

    file: Mounts

    def make(self) -> bytes:
        try:
            return self.file.info.mount_table(self.pid)
        except OSError as error:
            why = f"the mount table of {self.pid}"
            raise KernelError(error.errno or errno.EIO, why) from None


class Mounts(MachineFile, SeqFile):
    """mounts: the mount table of the opening process, with tracefs as on Linux.

    Under ``kpfs run`` it lies at /proc/mounts.
    """

    handle_type = MountsHandle
    blksize = 1024


class VmlinuxHandle(Handle):
    """A reader of the image, which is made at its first read, without the lock."""

    file: VmlinuxFile
    image = b""

    def prepare(self, size: int, offset: int) -> None:
        self.image = self.image or self.file.info.vmlinux()

    def read(self, size: int, offset: int) -> bytes:
        self.prepare(size, offset)
        offset = self.tell(offset)
        return self.image[offset : offset + size]


class VmcoreHandle(Handle):
    """A reader of a dump, which is made at its first read."""

    file: Vmcore
    core: CoreFile | None = None

    def prepare(self, size: int, offset: int) -> None:
        if self.core is None:
            with self.file.info.lock:
                self.core = self.file.info.vmcore()

    def read(self, size: int, offset: int) -> bytes:
        self.prepare(size, offset)
        assert self.core is not None
        return self.core.read(self.tell(offset), size)


class Vmcore(MachineFile, Posthumous):
    """vmcore: a dump of the kernel at the first read, for gdb, drgn and crash."""

    handle_type = VmcoreHandle

    @property
    def size(self) -> int:
        return self.info.vmcore_size()

    @size.setter
    def size(self, size: int) -> None:
        """Ignore it: the size stays."""


class VmlinuxFile(MachineFile, Constant, Posthumous):
    """vmlinux: the image of the kernel that runs, for objdump, gdb and bpftool."""

    handle_type = VmlinuxHandle

    @property
    def size(self) -> int:
        return self.info.vmlinux_size()

    @size.setter
    def size(self, size: int) -> None:
        """Ignore it: the size stays."""


# ---- to change
class ActorHandle(Handle):
    """An open Actor: keeps what is written until the write is over."""

    acts_later = True
    file: Actor
    parts: Sequence[bytes] = ()

    def take(self, data: bytes, pos: int) -> int:
        data = self.file.cut(data)
        self.parts = [*self.parts, data]
        return len(data)

    def written(self, task: Callable[[], object]) -> None:
        parts, self.parts = self.parts, ()
        self.file.act(parts, task())


class Actor(MachineFile):
    """A file each write to which makes the writing task do something afterwards.

    It is done after the write, as it may sleep, and need what a write holds.
    """

    handle_type = ActorHandle

    def cut(self, data: bytes) -> bytes:
        """Return as much of a write as is taken."""
        return data

    def act(self, parts: Sequence[bytes], task: object) -> None:
        """Act on what was written.  parts: the segments of one writev()."""
        raise NotImplementedError


class Syscall(Actor):
    """syscall: each line is a system call of the writing task.

    The first call that fails ends the write, with its errno.  See kpfs.fs.syscall_line.
    """

    def cut(self, data: bytes) -> bytes:
        return whole_lines(data)

    def act(self, parts: Sequence[bytes], task: object) -> None:
        parse = cache(syscall_line.parse)  # usually many are the same
        calls: list[SyscallLine] = []
        wrong: KernelError | None = None
        for line in (line for part in parts for line in part.split(b"\n")):
            try:
                call = parse(line)
            except KernelError as error:
                wrong = error
                break
            if call is not None:
                calls.append(call)
        self.info.make_calls(task, calls)
        if wrong is not None:  # those before it were to be made
            raise wrong


class Insmod(Actor, Sleeping):
    """insmod: ``PATH-OR-NAME [PARAM=VALUE...]`` loads a module as the writing task.

    A name without slash and dot is that of a module that comes with the kernel.  The
    path is as the writing process sees it.
    """

    def act(self, parts: Sequence[bytes], task: object) -> None:
        for line in parts:
            words = re.findall(WORD, line.split(b"\0", 1)[0])
            if not words:
                raise KernelError(errno.EINVAL, "no module named")
            path, parameters = words[0].strip(b'"'), b" ".join(words[1:])
            if re.fullmatch(NAME, path):
                self.info.insmod_named(task, os.fsdecode(path), parameters)
            else:
                image = contents(seen_by(self.info.host_pid(task), path))
                self.info.insmod(task, image, parameters)


class Rmmod(Actor, Sleeping, Vital, AfterExits):
    """rmmod: ``NAME`` unloads a module.

    An open file in debugfs counts as a use of its module.
    """

    def act(self, parts: Sequence[bytes], task: object) -> None:
        for line in parts:
            self.info.rmmod(task, module_name(line))


class RebootHandle(Handle):
    """An open reboot file."""

    acts_later = True  # the kernel cannot replace itself
    file: Reboot

    def take(self, data: bytes, pos: int) -> int:
        self.file.info.reboot()
        return len(data)


class Reboot(MachineFile, Reviving):
    """reboot: a write starts a fresh kernel in place of this one, dead or alive."""

    handle_type = RebootHandle


FILES: tuple[tuple[str, int, Callable[[MachineInfo], Node]], ...] = (
    ("syscall", 0o200, Syscall),
    ("insmod", 0o200, Insmod),
    ("rmmod", 0o200, Rmmod),
    ("reboot", 0o200, Reboot),
    ("mounts", 0o444, Mounts),
    ("text", stat.S_IFDIR | 0o755, TextDir),
    ("probes", 0o400, Probes),
    ("vmlinux", 0o444, VmlinuxFile),
    ("vmcore", 0o400, Vmcore),
    ("stats", 0o444, Stats),
    ("lost", 0o444, Lost),
)


def machine_dir(info: MachineInfo) -> Dir:
    """Make the directory machine/."""
    folder = Dir(stat.S_IFDIR | 0o755)
    populate(folder, FILES, info)
    if info.covers:
        populate(folder, (("coverage", 0o400, Coverage),), info)
    return folder
