# SPDX-License-Identifier: GPL-2.0-or-later
"""A process that ends a daemon which does not end when it is told to.

While the emulated kernel runs, its thread holds Python's global lock.  So if it loops,
no thread of the daemon can act on a signal.  But Python writes the signal's number to a
pipe at once, whatever its threads do, and this process reads that pipe.
"""

from __future__ import annotations

import os
import select
import signal

from kpfs.base.log import Log
from kpfs.base.signals import ENDING
from kpfs.host import mounts, patience, process
from kpfs.host.outlet import Outlet

log = Log(__name__)

PATIENCE = 2.0  # s for the daemon to end by itself
DEATH = 0.5  # s for a killed process to close its files


def start(log: int) -> None:
    """Start the guard of this process, which is about to be the daemon.

    The guard learns of a signal in ENDING once Python has a handler for it. If it has
    to kill the daemon, it says so in one line of the file log.
    """
    told, tell = os.pipe()
    daemon = os.getpid()
    if os.fork():
        os.close(told)
        os.set_blocking(tell, False)
        signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
        return
    try:
        for number in ENDING:  # the terminal sends them to the foreground
            signal.signal(number, signal.SIG_IGN)
        os.chdir("/")
        process.close_all_but({told, log})
        process.rename("kpfs-guard")
        if os.read(told, 1) and not _ends(daemon, told, PATIENCE):
            _end(daemon, told, log)
    finally:
        os._exit(0)


def pipe() -> int:
    """Return the pipe to the guard, or -1 if there is none.

    poll(2) says POLLERR of it when the guard has died. Context: the main thread.
    """
    fd = signal.set_wakeup_fd(-1)
    if fd >= 0:
        signal.set_wakeup_fd(fd, warn_on_full_buffer=False)
    return fd


def give_up() -> None:
    """Continue without the guard, which was killed. Context: the main thread."""
    signal.set_wakeup_fd(-1)
    log.warning("the guard was killed: SIGTERM will not end a kernel that loops")


def _ends(daemon: int, told: int, seconds: float) -> bool:
    """Return True if the daemon closes its end of the pipe in time."""
    waiting = select.poll()
    waiting.register(told, select.POLLIN)

    def closed(step: float) -> bool:
        return bool(waiting.poll(step * 1000)) and not os.read(told, 512)

    return patience.comes(daemon, seconds, closed)


def _end(daemon: int, told: int, log: int) -> None:
    """Kill the daemon and unmount its tree, which would answer nobody."""
    source = mounts.source_name(daemon)
    served = [
        entry
        for entry in mounts.table()
        if entry.source == source and mounts.serves(daemon, entry)
    ]
    line = f"kpfs[{daemon}] the daemon did not end within {PATIENCE:g} s: killed\n"
    Outlet(log).write(line.encode())
    # first, as a thread of the daemon that waits for its own answer could not end
    for entry in served:
        mounts.abort(entry.target)
    if os.getppid() == daemon:
        os.kill(daemon, signal.SIGKILL)
    _ends(daemon, told, DEATH)
    for entry in reversed(served):
        mounts.detach(entry)
