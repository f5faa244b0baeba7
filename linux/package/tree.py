# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads a kernel out of the tree that it was built in, before anything is installed.

Kernel: make modules_install, which puts "kernel/" before the paths of a tree
"""

from __future__ import annotations

import os
import re

from kpfs.linux.errors import UnfitError
from kpfs.linux.package.compression import MAX_UNPACKED
from kpfs.linux.package.config import is_on
from kpfs.linux.package.packages import TOO_LARGE, KernelFiles, read_regular

# by the option of an architecture
_IMAGES = {
    "X86_64": "arch/x86/boot/bzImage",
    "ARM64": "arch/arm64/boot/Image",
    "RISCV": "arch/riscv/boot/Image",
}
_ORDER, _BUILTIN = "modules.order", "modules.builtin"
_BUILTIN_INFO = "modules.builtin.modinfo"


def read_tree(folder: str) -> KernelFiles:
    """Read the files of a kernel.  Raises UnfitError if it is not built."""

    left = MAX_UNPACKED
    root = os.path.realpath(folder)

    def read(name: str) -> bytes:
        """Read a file of the tree, which a stranger may have made."""
        nonlocal left
        try:
            path = os.path.realpath(os.path.join(root, name))
            if not path.startswith(os.path.join(root, "")):
                raise UnfitError(f"{folder}: {name}: it leads out of the tree")
            data = read_regular(path, left + 1)
        except (OSError, ValueError) as error:  # ValueError: a name with a 0 byte
            why = getattr(error, "strerror", None) or str(error)
            raise UnfitError(f"{folder}: {name}: {why}") from None
        left -= len(data)
        if left < 0:
            raise UnfitError(f"{folder}: {TOO_LARGE}")
        return data

    def there(name: str) -> bytes:
        return read(name) if os.path.exists(os.path.join(folder, name)) else b""

    config = read(".config").decode("utf-8", "replace")
    images = [path for option, path in _IMAGES.items() if is_on(config, option)]
    if not images:
        raise UnfitError(f"{folder}: no kernel for {', '.join(_IMAGES)}")
    vmlinuz = read(images[0])
    # their paths end in .o since 6.3
    order = re.sub(rb"(?m)\.o$", b".ko", there(_ORDER))
    paths = order.decode("utf-8", "replace").split()
    modules = {f"kernel/{path}": read(path) for path in paths}
    lists = {
        _ORDER: _installed(order),
        _BUILTIN: _installed(there(_BUILTIN)),
        _BUILTIN_INFO: there(_BUILTIN_INFO),
    }
    modules |= {name: text for name, text in lists.items() if text}
    return KernelFiles(vmlinuz, config, modules, os.path.abspath(folder))


def _installed(paths: bytes) -> bytes:
    """Return a list of paths in a tree as those that modules are installed at."""
    return re.sub(rb"(?m)^(?=.)", b"kernel/", paths)
