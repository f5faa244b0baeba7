# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes an image: boots a kernel once, and saves the state that it has reached."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import chain

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.linux.board.board import Board
from kpfs.linux.errors import UnfitError
from kpfs.linux.make import boot
from kpfs.linux.package.config import check_config
from kpfs.linux.package.kernel_file import parse
from kpfs.linux.package.packages import KernelFiles
from kpfs.linux.running import chosen
from kpfs.linux.running.machine import AGENT, LinuxMachine, Op, Out
from kpfs.linux.store import image, store
from kpfs.linux.store import modules as kept_modules

DEFAULT_MEMORY = 512 << 20
MIN_MEMORY = 128 << 20
# for each of them, the end of a line that it adds to /proc/kallsyms
_SIGNS = {
    "KPROBES": b" register_kprobe\n",
    "KPROBE_EVENTS": b" trace_kprobe_create\n",
    "FTRACE": b" tracing_open_generic\n",
}
FUNCTIONS = b"/sys/kernel/tracing/available_filter_functions\0"
HANDED_ON = b"/proc/1/cmdline\0", b"/proc/1/environ\0"
_SECURITYFS = b"securityfs\0", b"/sys/kernel/security\0", b"securityfs\0"
ONLINE = b"/sys/devices/system/cpu/online\0"
_READ_SIZE = 64 << 10
_SYSINFO = "14L"
_PREFETCHED = 8  # modules that are unpacked before they are packed
_FREE_SHARE = 7 / 8  # part of the free memory that is zeroed at most
_USED = 96 << 20  # bytes of it; what has been used comes first, up to 50 MB by a boot


def check_symbols(symbols: bytes) -> None:
    """Check by /proc/kallsyms, for a kernel that came without configuration."""
    if not symbols:
        raise UnfitError("this kernel was built without KALLSYMS")
    off = [name for name, symbol in _SIGNS.items() if symbol not in symbols]
    if off:
        raise UnfitError(f"this kernel was built without {', '.join(off)}")


def make(
    name: str,
    files: KernelFiles,
    *,
    memory: int = DEFAULT_MEMORY,
    cpus: int = 1,
    append: str = "",
    known: Sequence[str] = (),
    modules: str = "",
    verbose: bool = False,
    progress: Callable[[Board], object] = lambda _board: None,
) -> image.Meta:
    """Boot a kernel and keep it by a name. Raises UnfitError that says why not.

    known: parameters in append that the kernel must know.  modules: those of an image
    of the same package, which this one shares.
    """
    check_config(files.config)
    kernel = parse(files.vmlinuz)
    most = kernel.arch.max_ram
    if not MIN_MEMORY <= memory <= most or memory % (1 << 20):
        raise UnfitError(f"memory: {MIN_MEMORY >> 20} to {most >> 20} MiB")
    if not 1 <= cpus <= abi.MAX_CPUS:
        raise UnfitError(f"CPUs: 1 to {abi.MAX_CPUS}")
    with (
        store.new_folder(name) as folder,
        _packing(files, folder, kernel.release, modules),
    ):
        booted = boot.boot(
            kernel,
            memory=memory,
            cpus=cpus,
            append=append,
            verbose=verbose,
            progress=progress,
        )
        with closing(booted.board):
            _check_known(booted, known)
            functions = _functions(booted, cpus)
            meta = image.save(booted, kernel.release, append, folder, files.origin)
        with open(os.path.join(folder, image.CONFIG), "w", encoding="utf-8") as file:
            file.write(files.config)
        with open(os.path.join(folder, image.FUNCTIONS), "wb") as file:
            file.write(functions)
        return meta


def _check_known(booted: image.BootedBoard, words: Sequence[str]) -> None:
    """Raise UnfitError for a parameter that the kernel hands on to its first process.

    It does so with those that it does not know, unless their names have a dot.
    """
    machine = LinuxMachine(booted.board, quiet=True)
    for path in HANDED_ON:
        for left in _read(machine, path).decode("latin-1").split("\0"):
            if left in words:
                raise chosen.unknown(left)


def _functions(booted: image.BootedBoard, cpus: int) -> bytes:
    """Return the names of functions that can be traced, and leave the kernel small."""
    check_symbols(booted.symbols)
    machine = LinuxMachine(booted.board, quiet=True)
    online = _read(machine, ONLINE).decode()
    if cpus > 1 and online != f"0-{cpus - 1}\n":
        raise UnfitError(
            f"of {cpus} CPUs this kernel uses {online.strip() or '0'} alone"
        )
    functions = _read(machine, FUNCTIONS)
    _call(machine, Op(nr.MOUNT, (*_SECURITYFS, 0, 0)))  # if the kernel has it
    _give_back(machine)
    return functions


@contextmanager
def _packing(
    files: KernelFiles, folder: str, release: str, shared: str
) -> Iterator[None]:
    """Unpack and write the modules meanwhile, which takes longer than the boot.

    shared: the path of those of another image, "" if there are none.
    """
    given_up = threading.Event()
    path = os.path.join(folder, image.MODULES)
    if shared:
        kept_modules.share(shared, path)
        yield
        return
    with ThreadPoolExecutor(1) as beside, ThreadPoolExecutor(1) as unpacking:
        rest = _prefetched(iter(files.rest), unpacking)
        modules = chain(sorted(files.modules.items()), rest)
        packed = beside.submit(kept_modules.keep, modules, path, release, given_up)
        try:
            yield
        except BaseException:
            given_up.set()
            raise
        packed.result()


def _prefetched(
    entries: Iterator[tuple[str, bytes]], pool: ThreadPoolExecutor
) -> Iterator[tuple[str, bytes]]:
    """Return entries, of which another thread makes some in advance."""
    following = deque(pool.submit(next, entries, None) for _ in range(_PREFETCHED))
    while (entry := following.popleft().result()) is not None:
        following.append(pool.submit(next, entries, None))
        yield entry


def _read(machine: LinuxMachine, path: bytes) -> bytes:
    """Read a whole file of the kernel. A missing one gives b""."""
    content = bytearray()  # which thousands of reads do not copy
    fd = _call(machine, Op(nr.OPENAT, (nr.AT_FDCWD, path, 0, 0)))
    while (size := _call(machine, Op(nr.READ, (fd, Out(_READ_SIZE), _READ_SIZE)))) > 0:
        content += machine.data(AGENT, 0, size)
    _call(machine, Op(nr.CLOSE, (fd,)))
    return bytes(content)


def _call(machine: LinuxMachine, op: Op) -> int:
    machine.start(AGENT, [op])
    machine.run(AGENT)
    return machine.results(AGENT, 1)[0]


def _give_back(machine: LinuxMachine) -> None:
    """Have the kernel zero its free memory, so that the image is small."""
    board = machine.board
    sysinfo = board.arch.model.struct(_SYSINFO)
    machine.start(AGENT, [Op(nr.SYSINFO, (Out(sysinfo.size),))])
    machine.run(AGENT)
    free = sysinfo.unpack(machine.data(AGENT, 0, sysinfo.size))[5]
    size = min(int(free * _FREE_SHARE), _USED) & -4096
    machine.start(AGENT, [Op(abi.AGENT_GIVE_BACK, (size,))])
    machine.run(AGENT)
    # machines begin with an empty slot
    slot = abi.SLOTS_AT + AGENT * abi.SLOT_SIZE
    board.region[slot : slot + abi.SLOT_SIZE] = bytes(abi.SLOT_SIZE)
