# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots a kernel until its first process, the agent of kpfs, waits for requests."""

from __future__ import annotations

import mmap
from collections.abc import Callable

from kpfs.base import abi
from kpfs.linux.board import registers
from kpfs.linux.board.board import Board, read_agent
from kpfs.linux.board.stops import reason
from kpfs.linux.errors import UnfitError
from kpfs.linux.make import cpio, firmware
from kpfs.linux.package.bzimage import BzImage
from kpfs.linux.store.image import BootedBoard

SYMBOLS_MAX = 1 << 26  # bytes of /proc/kallsyms
MAX_BLOCKS = 4_000_000_000
CMDLINE = (
    "nokaslr nopti mitigations=off tsc=reliable clocksource=tsc "
    "tsc_early_khz=1000000 no_timer_check nowatchdog cryptomgr.notests lsm= psi=0 "
    "init_on_alloc=0 random.trust_bootloader=off rcupdate.rcu_cpu_stall_suppress=1 "
    "rdinit=/init quiet loglevel=1"
)
_SINGLE = " nosmp"
VERBOSE = " earlyprintk=serial,ttyS0,keep loglevel=7"
_EFER = 0x501  # SCE LME LMA
_CR0, _CR4 = 0x8000_0011, 0x20  # PE ET PG, PAE
_FIXED_FLAGS = 2
_DIRECTORIES = ("bin", "dev", "proc", "root", "sys", "tmp")


def boot(
    kernel: BzImage,
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
    agent = read_agent()
    directories = [cpio.CpioEntry(name, cpio.DIRECTORY) for name in _DIRECTORIES]
    initrd = cpio.archive([*directories, cpio.CpioEntry("init", cpio.PROGRAM, agent)])
    ram = mmap.mmap(-1, memory, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    region = mmap.mmap(-1, abi.REGION_SIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    cmdline = CMDLINE + (_SINGLE if cpus == 1 else "") + (VERBOSE if verbose else "")
    cmdline += f" {append}" if append else ""
    entry = firmware.place(ram, kernel, initrd, cmdline, cpus)
    board = Board(ram, region, cpus=cpus)
    _prepare(board, entry)
    pause = firmware.agent_symbol(agent, "agent_pause")
    board.set(pause=pause)
    board.listen(SYMBOLS_MAX)
    while (why := board.run()) == abi.STOP_TURN:
        progress(board)
        if board.get(abi.Board.blocks) > MAX_BLOCKS:
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
    return BootedBoard(board, pause, heard)


def _prepare(board: Board, entry: int) -> None:
    """Set up a processor as the 64-bit boot protocol wants it."""
    general, control = registers.GENERAL, registers.CONTROL
    for name in general:
        board.write_reg(general[name], 0)
    board.write_msr(registers.MSRS["efer"], _EFER)
    board.write_reg(control["cr3"], firmware.PML4)
    board.write_reg(control["cr4"], _CR4)
    board.write_reg(control["cr0"], _CR0)
    board.write_table("gdtr", (0, firmware.GDT, 31, 0))
    board.write_table("idtr", (0, 0, 0, 0))
    board.write_reg(registers.SEGMENTS["cs"], firmware.CODE_SELECTOR)
    for name in ("ds", "es", "ss"):
        board.write_reg(registers.SEGMENTS[name], firmware.DATA_SELECTOR)
    board.write_reg(general["rflags"], _FIXED_FLAGS)
    board.write_reg(general["rsi"], firmware.BOOT_PARAMS)
    board.write_reg(general["rsp"], firmware.STACK)
    board.write_reg(general["rip"], entry)


def _last_words(board: Board) -> str:
    """Return the last lines that the kernel has printed, or how to see them."""
    lines = board.console(0)[0].decode("latin-1").split("\n")
    last = [line.strip() for line in lines if line.strip()][-1:]
    return f": {last[0]}" if last else " (--verbose shows its console)"
