# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots a kernel until its first process, the agent of kpfs, waits for requests."""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable
from typing import Any

from kpfs.base import abi, mapping
from kpfs.base.elf import ElfFile
from kpfs.base.typed import Protocol
from kpfs.linux.arch.arch import LinuxArch
from kpfs.linux.board.board import Board, read_agent
from kpfs.linux.board.stops import reason
from kpfs.linux.errors import UnfitError
from kpfs.linux.make import arm64, armhf, cpio, i386, mips64, ppc64, riscv64, s390x, x86
from kpfs.linux.memory.memory import LiveMemory
from kpfs.linux.package.kernel_file import KernelFile
from kpfs.linux.store.image import BootedBoard

SYMBOLS_MAX = 1 << 26  # bytes of /proc/kallsyms
MAX_BLOCKS = 4_000_000_000
MAX_NS = 600_000_000_000  # longest boot in its own time, as when it waits for a disk
LOOK = 1 << 28  # blocks from one look for a panic to the next; most boots take fewer
_PANIC = b"Kernel panic - not syncing: "
_FORMAT, _LINE = b"%", 200  # what the kernel's text of it goes on with; bytes of a line
_SINGLE, _LOCKDOWN = " nosmp", " lockdown="


class Firmware(Protocol):
    """The module of an architecture: what a kernel finds at its start."""

    CMDLINE: str
    VERBOSE: str  # parameters by which it prints all

    def place(
        self, ram: mmap.mmap, kernel: Any, initrd: bytes, cmdline: str, cpus: int = 1
    ) -> Any:
        """Lay out everything in RAM, which is zero before; return its entry."""

    def prepare(self, board: Board, entry: Any) -> None:
        """Put the processor where it begins."""


FIRMWARE: dict[str, Firmware] = {
    "x86": x86, "arm64": arm64, "riscv64": riscv64, "s390x": s390x,
    "ppc64": ppc64, "armhf": armhf, "i386": i386, "mips64": mips64,
}  # fmt: skip
_DIRECTORIES = ("bin", "dev", "proc", "root", "sys", "tmp")


def boot(
    kernel: KernelFile,
    *,
    memory: int,
    cpus: int = 1,
    append: str = "",
    progress: Callable[[Board], object] = lambda _board: None,
    verbose: bool = False,
) -> BootedBoard:
    """Boot a kernel with that many bytes of memory.

    progress is called every few ms. Raises UnfitError if the kernel does not come up.
    """
    arch, firmware = kernel.arch, FIRMWARE[kernel.arch.name]
    agent = read_agent(arch)
    directories = [cpio.CpioEntry(name, cpio.DIRECTORY) for name in _DIRECTORIES]
    initrd = cpio.archive([*directories, cpio.CpioEntry("init", cpio.PROGRAM, agent)])
    ram, region = mapping.make(memory), mapping.make(abi.REGION_SIZE)
    cmdline = firmware.CMDLINE + (_SINGLE if cpus == 1 else "")
    cmdline += firmware.VERBOSE if verbose else ""
    cmdline += f" {append}" if append else ""
    entry = firmware.place(ram, kernel, initrd, cmdline, cpus)
    board = Board(ram, region, arch=arch, cpus=cpus)
    try:
        firmware.prepare(board, entry)
        pause = _agent_symbol(arch, agent, "agent_pause")
        board.set(pause=pause)
        symbols = _run(board, progress, _LOCKDOWN in cmdline)
        board.set(**arch.learn(board, ram))
        return BootedBoard(board, pause, symbols)
    except BaseException:
        board.close()
        raise


def _run(
    board: Board, progress: Callable[[Board], object], is_locked: bool = False
) -> bytes:
    """Run until the agent waits for requests; return what it has said.

    is_locked: the kernel is locked down, but is to let the agent map its memory.
    """
    board.listen(SYMBOLS_MAX)
    next_look = LOOK
    while (why := board.run()) in (abi.STOP_TURN, abi.STOP_CALL):
        progress(board)
        if why == abi.STOP_CALL:
            board.arch.return_now(board, LiveMemory(board), 0)
            board.set(asked_at=0)
        elif is_locked and (address := _locks(board.heard())):
            board.set_calls([(address, abi.NEVER)])
            is_locked = False
        if board.blocks > next_look:
            next_look += LOOK
            if panic := _panic(board.ram):
                raise UnfitError(f"the kernel does not come up: {panic}")
        if board.blocks > MAX_BLOCKS or board.get(abi.Board.now) > MAX_NS:
            raise UnfitError(f"the kernel does not come up{_last_words(board)}")
    progress(board)
    heard = board.heard()
    if why != abi.STOP_PAUSE:
        if b"agent: " in heard:
            said = heard.decode("latin-1").rpartition("agent: ")[2].strip()
            raise UnfitError(f"this kernel cannot run here: {said}")
        stopped = reason(board, why)
        raise UnfitError(f"the kernel does not come up: {stopped}{_last_words(board)}")
    board.set(debug_limit=0)
    board.set_calls([])
    return heard


def _locks(symbols: bytes) -> int:
    """Return the address of the function that asks for a lockdown; 0: not known yet."""
    found = re.search(rb"^(\w+) T security_locked_down$", symbols, re.M)
    return int(found[1], 16) if found else 0


def _panic(ram: mmap.mmap) -> str:
    """Return what a kernel has logged of its panic, "" if there is none.

    Where panic() and the log are, nothing tells before it has come up.
    """
    at = ram.find(_PANIC)
    while at >= 0:
        line = ram[at : at + _LINE].splitlines()[0].split(b"\0")[0]
        if line.removeprefix(_PANIC)[:1] not in (b"", _FORMAT):
            return str(line, "latin-1").removesuffix(" ]---").strip()
        at = ram.find(_PANIC, at + 1)
    return ""


def _last_words(board: Board) -> str:
    """Return the last lines that the kernel has printed, or how to see them."""
    lines = board.console(0)[0].decode("latin-1").split("\n")
    last = [line.strip() for line in lines if line.strip()][-1:]
    return f": {last[0]}" if last else " (--verbose shows its console)"


def _agent_symbol(arch: LinuxArch, agent: bytes, name: str) -> int:
    """Return the address of a symbol of the agent."""
    address = ElfFile(agent, arch.elf_machine).addresses().get(name)
    if address is None:
        raise UnfitError(f"the agent lacks {name}: run scripts/build-guest")
    return address
