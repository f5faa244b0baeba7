# SPDX-License-Identifier: GPL-2.0-or-later
"""The session of a Linux kernel in this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from kpfs.backends.linux.access import LinuxAccess

if TYPE_CHECKING:
    from kpfs.api.probes import PostHandler, PreHandler, Probe, ReturnHandler
    from kpfs.api.records import Record
    from kpfs.api.snapshot import Snapshot
    from kpfs.backends.linux.snapshot import LinuxSnapshot
    from kpfs.backends.linux.task import LinuxTask


class LinuxSession(LinuxAccess):
    """Implements kpfs.backends.session.Session by a Linux kernel."""

    def task(self, pid: int, comm: str, uid: int = 0) -> LinuxTask:
        from kpfs.backends.linux.task import LinuxTask

        return LinuxTask(self, pid, comm, uid)

    def records(self, instance: str) -> Iterator[Record]:
        from kpfs.backends.linux.records import records

        return iter(self.do(instance, lambda: records(self.kernel, instance)))

    def dmesg(self) -> str:
        records = self.do("", self.kernel.dmesg)
        return "".join(f"{record.shown()}\n" for record in records)

    def snapshot(self) -> Snapshot:
        from kpfs.backends.linux.snapshot import LinuxSnapshot

        return self.do("", lambda: LinuxSnapshot(self))

    def restore(self, snapshot: Snapshot) -> None:
        self.do("", cast("LinuxSnapshot", snapshot).restore)

    def kprobe(
        self,
        symbol: str | int,
        offset: int,
        pre: PreHandler | None,
        post: PostHandler | None,
    ) -> Probe:
        from kpfs.backends.linux.probes import LinuxProbe

        handlers = {"pre_handler": pre, "post_handler": post}
        return LinuxProbe(self, symbol, offset, handlers)

    def kretprobe(
        self,
        symbol: str | int,
        handler: ReturnHandler | None,
        entry: PreHandler | None,
        maxactive: int,
    ) -> Probe:
        from kpfs.backends.linux.probes import LinuxProbe

        handlers = {"handler": handler, "entry_handler": entry}
        return LinuxProbe(self, symbol, 0, handlers, maxactive)
