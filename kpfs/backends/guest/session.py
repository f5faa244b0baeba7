# SPDX-License-Identifier: GPL-2.0-or-later
"""The session of a guest kernel in this process."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from kpfs.backends.guest.access import GuestAccess
from kpfs.base.errors import KernelError

if TYPE_CHECKING:
    from kpfs.api.probes import Probe, ProbeDefinition
    from kpfs.api.records import Record
    from kpfs.backends.guest.snapshot import GuestSnapshot
    from kpfs.backends.guest.task import GuestTask
    from kpfs.backends.session import Snapshot
    from kpfs.guest.running.klog import LogRecord


class GuestSession(GuestAccess):
    """Implements kpfs.backends.session.Session by a guest kernel."""

    def task(self, pid: int, comm: str, uid: int = 0) -> GuestTask:
        from kpfs.backends.guest.task import GuestTask

        return GuestTask(self, pid, comm, uid)

    def records(self, instance: str) -> Iterator[Record]:
        from kpfs.backends.guest.records import records

        with self.call(f"tracing/instances/{instance}"), self.root.lock:
            trace = self.root.trace
            if instance and instance not in trace.instances:
                raise KernelError(errno.ENOENT)
            return iter(list(records(trace.instances[instance] if instance else trace)))

    def dmesg(self) -> str:
        self.check()
        return "".join(map(_line, self.root.guest.log.records()))

    def snapshot(self) -> Snapshot:
        from kpfs.backends.guest.snapshot import GuestSnapshot

        with self.call(), self.root.lock:
            return GuestSnapshot(self)

    def restore(self, snapshot: Snapshot) -> None:
        with self.call(), self.root.lock:
            cast("GuestSnapshot", snapshot).restore()

    def probe(self, asked: ProbeDefinition) -> Probe:
        from kpfs.backends.guest.probes import GuestProbe

        return GuestProbe(self, asked)


def _line(record: LogRecord) -> str:
    seconds, us = divmod(record.ts_nsec // 1000, 1_000_000)
    return f"[{seconds:5d}.{us:06d}] {os.fsdecode(bytes(record.text))}\n"
