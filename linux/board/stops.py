# SPDX-License-Identifier: GPL-2.0-or-later
"""Explain in words why a board has stopped for good."""

from __future__ import annotations

from kpfs.base import abi
from kpfs.linux.board.board import Board

_PANIC_MAX = 100
# the last functions that a kernel calls before its machine would end: what that does
ENDS = {
    "machine_restart": "it restarted its machine",
    "machine_emergency_restart": "it restarted its machine",
    "machine_power_off": "it switched its machine off",
    "machine_halt": "it halted its machine",
}


def reason(board: Board, why: int) -> str:
    """Return the reason for a stop. why: abi.STOP_*, as board.run() returned it."""
    where = ""
    if board.get(abi.Board.nr_cpus) > 1:
        where = f" on CPU {board.get(abi.Board.current)}"
    reasons = {
        abi.STOP_TURN: f"soft lockup{where}: it does not come to rest",
        abi.STOP_BREAK: f"kernel panic: {_panic_text(board)}",
        abi.STOP_LOCKUP: f"hard lockup{where}: interrupts were off for 10 s",
        abi.STOP_HALTED: "it halted for good",
        abi.STOP_FAULT: f"triple fault ({board.get(abi.Board.vector)})",
        abi.STOP_ERROR: f"the emulator failed ({board.get(abi.Board.error)})",
        abi.STOP_LOST: "the emulator lost its place",
    }
    return reasons.get(why, f"it stopped ({why})")


def is_locked_up(reason: str) -> bool:
    """Return True for the reason() of a lockup."""
    return " lockup" in reason


def is_end(reason: str) -> bool:
    """Return True for a reason of ENDS: the kernel has done as it was told."""
    return reason in ENDS.values()


def _panic_text(board: Board) -> str:
    """Return the format string of the panic() call."""
    arch = board.arch
    address = board.read_reg(arch.arguments[0])
    if arch.passes_by_stack:
        at = board.translate(board.read_reg(arch.stack_pointer) + arch.model.long)
        address = arch.model.number(board.ram[at : at + arch.model.long])
    at = board.translate(address)
    text = board.ram[at : at + _PANIC_MAX] if at < len(board.ram) else b""
    return text.split(b"\0")[0].decode("latin-1").strip()
