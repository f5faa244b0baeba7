# SPDX-License-Identifier: GPL-2.0-or-later
"""A worker that stands in for the agent, which may wait for a processor for seconds.

The agent is SCHED_IDLE. While programs are busy on all processors, it gets one for 3 ms
of each second. A signal or input for them would have to wait for that.
"""

from __future__ import annotations

from kpfs.linux.inside.loop import Loop, sleep

PERIOD_NS = 100_000_000  # by the kernel's clock


class Waker:
    """Begins with a command, and runs as long as its kernel."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._worker = loop.agent.fork("kpfs-wake")
        self._sleep = [sleep(PERIOD_NS, self._worker.model)]
        loop.machine.set_waker(self._worker.slot)
        self._go_on()

    def _go_on(self) -> None:
        self._worker.start(self._sleep, self._go_on)
        self._loop.turn()
