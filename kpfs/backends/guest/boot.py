# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest kernel as the daemon serves it: implements backends.backend.Backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kpfs.backends.guest.booted import Booted
from kpfs.backends.guest.console import Console
from kpfs.backends.guest.machine_info import GuestMachineInfo
from kpfs.backends.guest.root.debugfs import links_in, shown_nowhere
from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.backends.guest.tree import GuestTree, build
from kpfs.base.typed import TYPE_CHECKING
from kpfs.config import OF_KERNEL
from kpfs.fs.machine import Probes
from kpfs.host.mounts import shown_table

if TYPE_CHECKING:
    from kpfs.backends.guest.coverage import GuestCoverage
    from kpfs.backends.guest.debugged import GuestDebugged
    from kpfs.backends.guest.mirror import GuestMirror
    from kpfs.config import Settings
    from kpfs.fs.tree import Writers
    from kpfs.guest.running.klog import KernelLog, LogRecord
    from kpfs.mirror.host import Host


class Boot:
    """The guest kernel, which a write to machine/reboot makes anew."""

    def __init__(self, settings: Settings, mountpoint: str, source: str) -> None:
        folder = settings.debugfs
        show = links_in(folder, f"{mountpoint}/debug") if folder else shown_nowhere
        boot = partial(
            GuestKernel,
            nr_cpus=settings.cpus,
            quiet=settings.quiet_guest,
            workload=settings.workload,
            config=settings.config,
            mount_table=partial(shown_table, source=source),
            show_debugfs=show,
            console=partial(_console, settings.console),
        )
        self.writers: Writers = {}
        coverage = _coverage(settings.coverage)
        self._booted = booted = Booted(boot, partial(build, coverage=coverage))
        if coverage is not None:
            coverage.follow(booted.kernel)
            booted.follow(coverage.follow)
        self.tree = GuestTree(
            booted.kernel, booted.root, lazy=settings.lazy, hints=settings.hints
        )
        booted.follow(self.tree.follow)

    def preload(self) -> None:
        self._booted.kernel.preload()

    def mirror(self, host: Host, _listener: int) -> GuestMirror:
        from kpfs.backends.guest.mirror import GuestMirror

        with self._booted.kernel.lock:
            mirror = GuestMirror(self._booted.kernel, host)
            self._booted.follow(mirror.follow)
        return mirror

    def debugged(self) -> GuestDebugged:
        from kpfs.backends.guest.debugged import GuestDebugged

        booted = self._booted

        def keep() -> Callable[[], None]:
            return booted.keep(self.tree.vfs, GuestTree)

        debugged = GuestDebugged(booted.kernel, _show_probes, keep)
        booted.follow(lambda kernel, _root: debugged.replace(kernel))
        return debugged

    def stop(self) -> None:
        self._booted.stop()


def _console(fd: int, log: KernelLog) -> Callable[[Sequence[LogRecord]], None] | None:
    """Return what shows new records of the log at a descriptor, if that is not -1."""
    return Console(fd, log).show if fd >= 0 else None


def _coverage(of: str) -> GuestCoverage | None:
    """Return what records coverage.  SetupError: nothing can."""
    if not of:
        return None
    from kpfs.backends.guest.coverage import GuestCoverage

    return GuestCoverage(of_kernel=of == OF_KERNEL)


def _show_probes(kernel: GuestKernel) -> str:
    return Probes(GuestMachineInfo(kernel)).show()
