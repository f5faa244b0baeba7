# SPDX-License-Identifier: GPL-2.0-or-later
"""The session of a Linux kernel in this process, and its snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from kpfs.backends.linux.access import LinuxAccess
from kpfs.linux.running.frozen import freeze, thaw
from kpfs.session.session import keep

if TYPE_CHECKING:
    from kpfs.backends.linux.coverage import LinuxCoverage
    from kpfs.backends.linux.debugged import LinuxDebugged
    from kpfs.backends.linux.task import LinuxTask
    from kpfs.coverage.report import Report
    from kpfs.session.probes import Probe, ProbeDefinition
    from kpfs.session.records import Record
    from kpfs.session.session import Image, Snapshot


class LinuxSnapshot:
    """Implements kpfs.session.session.Snapshot.  Context: the kernel's lock is held."""

    def __init__(self, session: LinuxAccess) -> None:
        self.session = session
        self._frozen = freeze(session.kernel)
        self._next_pid, self._buffers = session.next_pid, dict(session.buffers)
        self._probes, self._functions = dict(session.probes), session.functions.held()

    def restore(self) -> None:
        """Put the kernel back into that state."""
        kernel = self.session.kernel
        thaw(kernel, self._frozen)
        kernel.on_board(kernel.machine.board)  # its memory has modules only now
        self.session.explainer = None
        self.session.next_pid = self._next_pid
        self.session.buffers = dict(self._buffers)
        self.session.functions.restore(self._functions)
        self.session.probes.clear()
        self.session.probes.update(self._probes)


class LinuxSession(LinuxAccess):
    """Implements kpfs.session.session.Session by a Linux kernel."""

    _coverage: LinuxCoverage | None = None

    def task(self, pid: int, comm: str, uid: int = 0) -> LinuxTask:
        from kpfs.backends.linux.task import LinuxTask

        return LinuxTask(self, pid, comm, uid)

    def records(self, instance: str) -> Iterator[Record]:
        from kpfs.backends.linux.records import records

        return iter(self.do(instance, lambda: records(self.kernel, instance)))

    def dmesg(self) -> str:
        records = self.do("", self.kernel.dmesg)
        return "".join(f"{record.shown()}\n" for record in records)

    def lost(self) -> list[str]:
        return self.do("", self.kernel.losses.told)

    def snapshot(self) -> Snapshot:
        return self.do("", lambda: LinuxSnapshot(self))

    def restore(self, snapshot: Snapshot) -> None:
        self.do("", cast(LinuxSnapshot, snapshot).restore)

    def cover(self, *, of_kernel: bool) -> None:
        from kpfs.backends.linux.coverage import LinuxCoverage

        if self._coverage is not None:
            raise ValueError("coverage is recorded already")
        self._coverage = self.do(
            "", lambda: LinuxCoverage(self.kernel, of_kernel=of_kernel)
        )

    def coverage(self) -> Report:
        if self._coverage is None:
            raise ValueError("coverage is not recorded: call cover() before")
        return self.do("", self._coverage.report)

    def debugged(self) -> LinuxDebugged:
        from kpfs.backends.linux.debugged import LinuxDebugged

        return self.do("", lambda: LinuxDebugged(self.kernel, keep=partial(keep, self)))

    def vmcoreinfo(self) -> bytes:
        from kpfs.backends.linux.dumped import vmcoreinfo

        return self.do("", lambda: vmcoreinfo(self.kernel))

    def images(self) -> list[Image]:
        return []

    def probe(self, asked: ProbeDefinition) -> Probe:
        from kpfs.backends.linux.probes import LinuxProbe

        return LinuxProbe(self, asked)
