# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the mount that a command means."""

from __future__ import annotations

import os
from pathlib import Path

from kpfs.base.errors import SetupError
from kpfs.host import mounts


def find_tree(name: str, command: str) -> Path:
    """Return the named mount, else that of kpfs run, else the only one.

    command: stands in a SetupError.
    """
    if name:
        tree = Path(name)
    elif "KPFS" in os.environ:
        tree = Path(os.environ["KPFS"])
    else:
        served = [entry for entry in mounts.table() if mounts.served_by(entry.source)]
        trees = sorted({entry.target for entry in served})
        if len(trees) != 1:
            found = ", ".join(trees) or "nothing is mounted (kpfs mount DIR)"
            raise SetupError(f"{command}: say which DIR: {found}")
        tree = Path(trees[0])
    if not (tree / "machine").is_dir():  # which a dead kernel has, too
        raise SetupError(f"{command}: {tree}: no files of kpfs")
    return tree
