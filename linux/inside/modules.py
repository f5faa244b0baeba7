# SPDX-License-Identifier: GPL-2.0-or-later
"""Loads modules of the kernel's package with what they depend on, at the start."""

from __future__ import annotations

import errno
import os

from kpfs.base import syscall_numbers as nr
from kpfs.linux.errors import UnfitError
from kpfs.linux.inside.loop import Worker
from kpfs.linux.running.machine import Op
from kpfs.linux.store import image
from kpfs.linux.store.modules import ModuleArchive

_PATH = b"/tmp/module\0"


def load(folder: str, worker: Worker, names: list[str]) -> None:
    """Load modules that are neither loaded nor built in.  Raises UnfitError."""
    files: dict[str, bytes] = {}
    with ModuleArchive(os.path.join(folder, image.MODULES)) as archive:
        for name in names:
            if name in archive:  # else it is built in, or its user will complain
                try:
                    wanted = (*archive.needed(name), name)
                    files.update((each, archive.read(each)) for each in wanted)
                except KeyError as missing:
                    raise UnfitError(f"{name} needs the module {missing}") from None
    for name, data in files.items():
        _load(worker, name, data)


def _load(worker: Worker, name: str, data: bytes) -> None:
    fd = worker.call(Op(nr.OPEN, (_PATH, os.O_RDWR | os.O_CREAT, 0o600)))[0]
    worker.write(fd, data)
    opened = worker.call(Op(nr.OPEN, (_PATH, os.O_RDONLY)), Op(nr.CLOSE, (fd,)))[0]
    *made, _ = worker.attempt(
        Op(nr.FINIT_MODULE, (opened, b"\0", 0)),
        Op(nr.CLOSE, (opened,)),
        Op(nr.UNLINK, (_PATH,)),
    )
    if made[0] < 0 and made[0] != -errno.EEXIST:
        why = os.strerror(-made[0])
        raise UnfitError(f"the module {name} cannot be loaded: {why}")
