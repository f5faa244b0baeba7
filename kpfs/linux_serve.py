# SPDX-License-Identifier: GPL-2.0-or-later
"""The daemon over a real kernel: what kpfs.daemon.serve() is over our own."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable
from functools import partial

from kpfs.backends.linux.machine_info import LinuxMachineInfo
from kpfs.backends.linux.tree import LinuxTree, OwnFiles
from kpfs.fs.fuse import server
from kpfs.fs.tree import Writers
from kpfs.guest.emu.libunicorn import EmulatorError
from kpfs.host.errors import SetupError
from kpfs.host.mounts import shown_table, source_name
from kpfs.linux.errors import UnfitError
from kpfs.linux.running.files import OpenFiles
from kpfs.linux.running.linux_kernel import LinuxKernel

M_ARENA_MAX, ARENAS = -8, 4  # of mallopt(3)


def limit_arenas() -> None:
    """Keep malloc() from looking how many processors there are.

    It does so when many threads have come, in a file that under kpfs run is ours, and
    with the GIL held: we could not answer.
    """
    with contextlib.suppress(AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, ARENAS)


def serve(
    name: str,
    mountpoint: str,
    answering: Callable[[], None],
    channel: int,
    *,
    quiet: bool,
    exact: bool,
    host_uname: bool,
    lazy: bool,
) -> None:
    """Run a kernel by its name, and serve its files until unmounted."""
    limit_arenas()
    try:
        kernel = LinuxKernel(name, quiet=quiet, exact=exact)
    except (UnfitError, EmulatorError) as error:
        raise SetupError(str(error)) from None
    source = source_name(os.getpid())
    files = OpenFiles(kernel)
    writers: Writers = {}

    def mirror() -> None:
        from kpfs.backends.linux.mirror import LinuxMirror
        from kpfs.mirror import replayer

        replayer.serve(
            partial(LinuxMirror, kernel, files),
            *(channel, source, mountpoint, writers),
            host_uname=host_uname,
            lazy=lazy,
        )

    def ready() -> None:
        answering()
        if channel >= 0:
            threading.Thread(target=mirror, daemon=True).start()

    info = LinuxMachineInfo(kernel, partial(shown_table, source=source))
    own = OwnFiles(kernel, info)
    try:
        server.mount(
            LinuxTree(kernel, files, own),
            mountpoint,
            ready,
            fsname=source,
            allow_other=os.geteuid() == 0,
            writers=writers,
        )
    finally:
        kernel.stop()
