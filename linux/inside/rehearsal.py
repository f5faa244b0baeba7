# SPDX-License-Identifier: GPL-2.0-or-later
"""Run one command in a warm kernel before any user asks for one.

libunicorn translates code when it first runs. After one command has run, later ones
that are forked from this kernel start without that cost.
"""

from __future__ import annotations

import resource
import signal
import socket
import struct
import time

from kpfs.linux.inside.loop import Loop, Worker
from kpfs.linux.inside.stdio import open_pipe
from kpfs.linux.inside.tree import NEW
from kpfs.linux.running import syscalls as nr
from kpfs.linux.running.machine import Op, Place

_PROGRAM = b"/bin/true\0"
_EXIT = 60
_VECTORS = struct.Struct("<16sQQQ")  # the program's name, argv and its end, envp's end
_SIGACTION = bytes(32)  # SIG_DFL
_FIRST_FREE, _LAST_FD = 3, 0xFFFFFFFF
_NSEC = 1_000_000_000


def rehearse(loop: Loop, worker: Worker) -> None:
    """Start and end a command. It leaves nothing behind but one used pid."""
    machine, agent = loop.machine, loop.agent
    machine.skip(0)
    name = socket.gethostname().encode()
    now = struct.pack("<qq", *divmod(time.time_ns(), _NSEC))
    agent.attempt(Op(nr.CLOCK_SETTIME, (time.CLOCK_REALTIME, now)))
    agent.attempt(Op(nr.SETHOSTNAME, (name, len(name))))
    ends = open_pipe(worker)
    command = worker.fork("kpfs-command")
    worker.attempt(Op(nr.SETPGID, (command.pid, command.pid)))
    worker.attempt(*[Op(nr.CLOSE, (fd,)) for fd in ends])
    base = machine.address(command.slot, 0)
    memory = _VECTORS.pack(_PROGRAM, base, 0, 0)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (limit & (1 << 64) - 1 for limit in limits)
    command.attempt(
        Op(nr.CHROOT, (NEW.encode() + b"\0",)),
        Op(nr.CHDIR, (b"/\0",)),
        *[Op(nr.DUP2, (ends[1], number)) for number in range(_FIRST_FREE)],
        Op(nr.RT_SIGACTION, (signal.SIGCHLD, _SIGACTION, 0, 8)),
        Op(nr.CLOSE_RANGE, (_FIRST_FREE, _LAST_FD, 0)),
        Op(nr.SETGROUPS, (1, bytes(4))),
        Op(
            nr.PRLIMIT64, (0, resource.RLIMIT_NOFILE, struct.pack("<QQ", soft, hard), 0)
        ),
    )
    execve = Op(nr.EXECVE, (_PROGRAM, Place(16), Place(24)))
    # if there is no such program, the task ends at once
    command.start([execve, Op(_EXIT, (0,))], lambda: None, memory)
    worker.attempt(Op(nr.WAIT4, (command.pid, 0, 0, 0)))
    loop.release(command)
    loop.settle()
