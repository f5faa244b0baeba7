# SPDX-License-Identifier: GPL-2.0-or-later
"""A Linux kernel as the daemon serves it: implements kpfs.backends.backend.Backend."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kpfs.backends.linux.machine_info import LinuxMachineInfo
from kpfs.backends.linux.tree import LinuxTree, OwnFiles
from kpfs.base.errors import KernelError, SetupError
from kpfs.config import OF_KERNEL
from kpfs.emulator.libunicorn import EmulatorError
from kpfs.fs.machine import Probes
from kpfs.host import hints
from kpfs.host.mounts import shown_table
from kpfs.linux.running.files import OpenFiles
from kpfs.linux.running.linux_kernel import LinuxKernel

if TYPE_CHECKING:
    from kpfs.backends.linux.coverage import LinuxCoverage
    from kpfs.backends.linux.debugged import LinuxDebugged
    from kpfs.backends.linux.mirror import LinuxMirror
    from kpfs.base.core_file import CoreFile
    from kpfs.config import Settings
    from kpfs.fs.tree import Writers
    from kpfs.mirror.host import Host


class Boot:
    """A Linux kernel that goes on from its image."""

    def __init__(self, settings: Settings, _mountpoint: str, source: str) -> None:
        try:
            kernel = LinuxKernel(settings.kernel, quiet=settings.quiet_guest)
        except EmulatorError as error:
            raise SetupError(str(error)) from None
        self._kernel, self._files = kernel, OpenFiles(kernel)
        self._hints = settings.hints
        self.writers: Writers = {}
        table = partial(shown_table, source=source)
        coverage = _coverage(kernel, settings.coverage)
        self._info = info = LinuxMachineInfo(kernel, table, coverage, _dump)
        self.tree = LinuxTree(kernel, self._files, OwnFiles(kernel, info))

    def preload(self) -> None:
        """Begin to count what the kernel loses."""
        with self._kernel.lock:
            self._kernel.losses.told()

    def mirror(self, host: Host, listener: int) -> LinuxMirror:
        from kpfs.backends.linux.mirror import LinuxMirror

        tell = partial(hints.add, self._hints, if_failed=False)
        return LinuxMirror(self._kernel, self._files, host, listener, tell)

    def debugged(self) -> LinuxDebugged:
        from kpfs.backends.linux.debugged import LinuxDebugged
        from kpfs.linux.running.frozen import kept

        keep = partial(kept, self._kernel)
        return LinuxDebugged(self._kernel, Probes(self._info).show, keep)

    def stop(self) -> None:
        self._kernel.stop()


def _dump(kernel: LinuxKernel) -> CoreFile:
    from kpfs.backends.linux.dumped import core

    return core(kernel)


def _coverage(kernel: LinuxKernel, of: str) -> LinuxCoverage | None:
    """Begin to record coverage if it is wanted; SetupError: this kernel cannot."""
    if not of:
        return None
    from kpfs.backends.linux.coverage import LinuxCoverage

    try:
        return LinuxCoverage(kernel, of_kernel=of == OF_KERNEL)
    except KernelError as error:
        raise SetupError(f"--coverage: {error.why}") from None
