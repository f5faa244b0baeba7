# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules of a kernel's package, loaded with what they depend on."""

from __future__ import annotations

import errno
import lzma
import os
import re
import zipfile
import zlib

from kpfs.linux import image, packages
from kpfs.linux import syscalls as nr
from kpfs.linux.bzimage import KernelError
from kpfs.linux.inside.loop import Worker
from kpfs.linux.machine import Op

_PIECE = 1 << 17
_PATH = b"/tmp/module\0"
_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


class Modules:
    """What ``kpfs kernel make`` has kept of them."""

    def __init__(self, folder: str) -> None:
        self._file = os.path.join(folder, image.MODULES)

    def load(self, worker: Worker, names: list[str]) -> None:
        """Load modules unless they are there or built in; KernelError if that fails."""
        with zipfile.ZipFile(self._file) as archive:
            paths = {
                os.path.basename(path).split(".ko")[0].replace("-", "_"): path
                for path in archive.namelist()
            }
            loaded: set[str] = set()
            for name in names:
                self._load(worker, archive, paths, name, loaded)

    def _load(
        self,
        worker: Worker,
        archive: zipfile.ZipFile,
        paths: dict[str, str],
        name: str,
        loaded: set[str],
    ) -> None:
        name = name.replace("-", "_")
        if name in loaded or name not in paths:
            return  # what is no file is built in, or is missed by who uses it
        loaded.add(name)
        data = _unpack(paths[name], archive.read(paths[name]))
        found = _DEPENDS.search(data)
        for other in found[1].decode().split(",") if found and found[1] else []:
            self._load(worker, archive, paths, other, loaded)
        fd = worker.call(Op(nr.OPEN, (_PATH, os.O_RDWR | os.O_CREAT, 0o600)))[0]
        for at in range(0, len(data), _PIECE):
            piece = data[at : at + _PIECE]
            worker.call(Op(nr.WRITE, (fd, piece, len(piece))))
        opened = worker.call(Op(nr.OPEN, (_PATH, os.O_RDONLY)), Op(nr.CLOSE, (fd,)))[0]
        *made, _ = worker.attempt(
            Op(nr.FINIT_MODULE, (opened, b"\0", 0)),
            Op(nr.CLOSE, (opened,)),
            Op(nr.UNLINK, (_PATH,)),
        )
        if made[0] < 0 and made[0] != -errno.EEXIST:
            why = os.strerror(-made[0])
            raise KernelError(f"the module {name} cannot be loaded: {why}")


def _unpack(path: str, data: bytes) -> bytes:
    if path.endswith(".xz"):
        return lzma.decompress(data)
    if path.endswith(".gz"):
        return zlib.decompress(data, 31)
    if path.endswith(".zst"):
        return packages.zstd(data)
    return data
