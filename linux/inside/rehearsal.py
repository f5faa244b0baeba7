# SPDX-License-Identifier: GPL-2.0-or-later
"""Run one command in a warm kernel before any user asks for one.

libunicorn translates code when it first runs. After one command has run, later ones
that are forked from this kernel start without that cost.
"""

from __future__ import annotations

import socket

from kpfs.base import syscall_numbers as nr
from kpfs.linux.inside import inherited
from kpfs.linux.inside.command import (
    leave_out_modprobe,
    set_clock,
    set_hostname,
    set_up,
)
from kpfs.linux.inside.loop import Loop, Worker
from kpfs.linux.inside.stdio import open_pipe
from kpfs.linux.inside.tree import NEW
from kpfs.linux.running.machine import Op, SlotOffset

_PROGRAM = b"/bin/true\0"
_VECTORS = "16s3L"  # the program's name, argv and its end, envp's end


def rehearse(loop: Loop, worker: Worker) -> None:
    """Start and end a command. It leaves nothing behind but one used pid."""
    machine = loop.machine
    machine.skip(0)
    set_clock(loop.agent)
    set_hostname(loop.agent, socket.gethostname())
    leave_out_modprobe(loop.agent)
    ends = open_pipe(worker)
    command = worker.fork("kpfs-command")
    worker.attempt(Op(nr.SETPGID, (command.pid, command.pid)))
    worker.attempt(*[Op(nr.CLOSE, (fd,)) for fd in ends])
    base = machine.address(command.slot, 0)
    memory = worker.model.struct(_VECTORS).pack(_PROGRAM, base, 0, 0)
    command.attempt(Op(nr.CHROOT, (NEW.encode() + b"\0",)), Op(nr.CHDIR, (b"/\0",)))
    set_up(command, [ends[1]] * 3, inherited.of_process())
    execve = Op(nr.EXECVE, (_PROGRAM, SlotOffset(16), SlotOffset(24)))
    # if there is no such program, the task ends at once
    command.start([execve, Op(nr.EXIT, (0,))], lambda: None, memory)
    worker.attempt(Op(nr.WAIT4, (command.pid, 0, 0, 0)))
    loop.release(command)
    loop.settle()
