# SPDX-License-Identifier: GPL-2.0-or-later
"""A Linux kernel as the daemon serves it: implements kpfs.backends.backend.Backend."""

from __future__ import annotations

import contextlib
import ctypes
from functools import partial
from typing import TYPE_CHECKING

from kpfs.backends.linux.machine_info import LinuxMachineInfo
from kpfs.backends.linux.tree import LinuxTree, OwnFiles
from kpfs.guest.emu.libunicorn import EmulatorError
from kpfs.host.errors import SetupError
from kpfs.host.mounts import shown_table
from kpfs.linux.errors import UnfitError
from kpfs.linux.running.files import OpenFiles
from kpfs.linux.running.linux_kernel import LinuxKernel

if TYPE_CHECKING:
    from kpfs.backends.linux.mirror import LinuxMirror
    from kpfs.config import Settings
    from kpfs.fs.tree import Writers
    from kpfs.mirror.host import Host

M_ARENA_MAX, ARENAS = -8, 4  # of mallopt(3)


def limit_arenas() -> None:
    """Keep malloc() from looking how many processors there are.

    It does so when many threads have come, with the GIL held, in a file that under
    ``kpfs run`` is one of this daemon: it could not answer itself.
    """
    with contextlib.suppress(AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, ARENAS)


class Boot:
    """A Linux kernel that goes on from its image."""

    def __init__(self, settings: Settings, _mountpoint: str, source: str) -> None:
        limit_arenas()
        quiet, exact = settings.quiet_guest, settings.exact
        try:
            kernel = LinuxKernel(settings.kernel, quiet=quiet, exact=exact)
        except (UnfitError, EmulatorError) as error:
            raise SetupError(str(error)) from None
        self._kernel, self._files = kernel, OpenFiles(kernel)
        self.writers: Writers = {}
        info = LinuxMachineInfo(kernel, partial(shown_table, source=source))
        self.tree = LinuxTree(kernel, self._files, OwnFiles(kernel, info))

    def preload(self) -> None:
        """All of it is in the image."""

    def mirror(self, host: Host, listener: int) -> LinuxMirror:
        from kpfs.backends.linux.mirror import LinuxMirror

        return LinuxMirror(self._kernel, self._files, host, listener)

    def stop(self) -> None:
        self._kernel.stop()
