# SPDX-License-Identifier: GPL-2.0-or-later
"""Explain a failed command by the machine's lack of instructions or memory."""

from __future__ import annotations

import re

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.linux.board.board import MAX_RAM, Board
from kpfs.linux.inside.loop import Worker
from kpfs.linux.running.machine import Op, Out

_READ_ALL = 3
_LOG = 1 << 16
_STEP = 256  # MiB
_KILLED = re.compile(
    r"Out of memory: Killed process \d+ \((?P<name>.*)\) "
    r"total-vm:(?P<virtual>\d{1,15})kB, anon-rss:(?P<resident>\d{1,15})kB"
)


def diagnose(board: Board, log: str) -> str:
    """Return one line for the user, or "" where the machine is not to blame.

    log: the kernel's, or "" if the command's status is 0. A script may go on after an
    illegal instruction of one of its programs, so that is told whatever the status is.
    """
    lacks = board.arch.lacks(board.get(abi.Board.unknown))
    return lacks or out_of_memory(log, len(board.ram) >> 20)


def out_of_memory(log: str, memory: int) -> str:
    """Return a line about killed processes in a log; memory: in MiB."""
    killed = list(_KILLED.finditer(log))
    if not killed:
        return ""
    last = killed[-1]
    missing = max(int(last["virtual"]) - int(last["resident"]), 0) >> 10
    wanted = -(-(memory + max(missing, _STEP)) // _STEP) * _STEP
    told = f"{memory} MiB are too little for {last['name']}"
    if wanted > MAX_RAM >> 20:
        return f"{told}, which has asked for more than a guest can have"
    return f"{told}: make the kernel again with --memory {wanted}"


def kernel_log(worker: Worker) -> str:
    """Return the messages of the kernel that its log still has."""
    reply = worker.request(Op(nr.SYSLOG, (_READ_ALL, Out(_LOG), _LOG)))
    return reply.out(0, max(reply.taken(0, _LOG), 0)).decode("utf-8", "replace")
