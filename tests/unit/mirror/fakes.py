# SPDX-License-Identifier: GPL-2.0-or-later
"""Fakes of the mirror."""

from types import SimpleNamespace

from kpfs.base.lock import FairLock
from kpfs.mirror.process_table import ProcessTable
from tests.there import stand_in

PID, TREE_FD = 7, 3


class FakeTable(ProcessTable[object]):
    """A table of processes that notes what it is told."""

    def __init__(self, log):
        self.log, self.known = log, False
        host = SimpleNamespace(
            fd_in_tree=lambda _pid, fd: fd == TREE_FD,
            forget=lambda pid: log.append(("forget", pid)),
            lives=lambda pid: pid == PID,
        )
        super().__init__(stand_in(host), FairLock())

    def find(self, pid):
        return self if self.known else None

    def leave_out(self, pid):
        super().leave_out(pid)
        self.log.append(("left out", pid))

    def executes(self, pid):
        self.log.append(("executes", pid))
        super().executes(pid)
