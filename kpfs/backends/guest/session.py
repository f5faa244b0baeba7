# SPDX-License-Identifier: GPL-2.0-or-later
"""The session of a guest kernel in this process."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from functools import partial

from kpfs.backends.guest.access import GuestAccess
from kpfs.base.errors import KernelError
from kpfs.base.typed import TYPE_CHECKING, cast
from kpfs.engine.judge import place_of
from kpfs.guest.images import KERNEL_IMAGE
from kpfs.session.session import Image, keep

if TYPE_CHECKING:
    from kpfs.backends.guest.debugged import GuestDebugged
    from kpfs.backends.guest.snapshot import GuestSnapshot
    from kpfs.backends.guest.task import GuestTask
    from kpfs.coverage.report import Report
    from kpfs.guest.loader.modules import Module
    from kpfs.guest.running.klog import LogRecord
    from kpfs.session.probes import Probe, ProbeDefinition
    from kpfs.session.records import Record
    from kpfs.session.session import Snapshot


class GuestSession(GuestAccess):
    """Implements kpfs.session.session.Session by a guest kernel."""

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

    def lost(self) -> list[str]:
        from kpfs.backends.guest.losses import told

        with self.call(), self.root.lock:
            names = partial(place_of, self.root.guest.kallsyms)
            return told(self.root.parts_built(), names)

    def snapshot(self) -> Snapshot:
        from kpfs.backends.guest.snapshot import GuestSnapshot

        with self.call(), self.root.lock:
            return GuestSnapshot(self)

    def restore(self, snapshot: Snapshot) -> None:
        with self.call(), self.root.lock:
            cast("GuestSnapshot", snapshot).restore()

    def cover(self, *, of_kernel: bool) -> None:
        from kpfs.backends.guest.coverage import GuestCoverage

        with self.call(), self.root.lock:
            if self.root.guest.modules.text_follower is not None:
                raise ValueError("coverage is recorded already")
            GuestCoverage(of_kernel=of_kernel).follow(self.root)

    def coverage(self) -> Report:
        from kpfs.backends.guest.coverage import GuestCoverage

        with self.call(), self.root.lock:
            follower = self.root.guest.modules.text_follower
            if not isinstance(follower, GuestCoverage):
                raise ValueError("coverage is not recorded: call cover() before")
            return follower.report()

    def debugged(self) -> GuestDebugged:
        from kpfs.backends.guest.debugged import GuestDebugged

        self.check()
        return GuestDebugged(self.root, keep=partial(keep, self))

    def vmcoreinfo(self) -> bytes:
        return b""

    def images(self) -> list[Image]:
        with self.call(), self.root.lock:
            guest, info = self.root.guest, self.root.config.on("DEBUG_INFO")
            start, end = guest.needed("_stext"), guest.needed("_etext")
            kernel = Image(KERNEL_IMAGE, guest.vmlinux(info), start, end, {})
            return [kernel, *map(_image, guest.modules)]

    def probe(self, asked: ProbeDefinition) -> Probe:
        from kpfs.backends.guest.probes import GuestProbe

        return GuestProbe(self, asked)


def _image(module: Module) -> Image:
    core, content = module.layout.core, bytes(module.file.data)
    end = core.base + core.size
    return Image(module.name, content, core.base, end, module.section_addresses())


def _line(record: LogRecord) -> str:
    seconds, us = divmod(record.ts_nsec // 1000, 1_000_000)
    return f"[{seconds:5d}.{us:06d}] {os.fsdecode(bytes(record.text))}\n"
