# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds modules for the kernel that the tests make, by the package of its headers."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests import harness


def headers() -> Path:
    """Return the folder of a kernel's headers; skip the test if there is none."""
    folder = harness.kernels() / "kpfs" / "kernels" / harness.KERNEL
    release = json.loads((folder / "meta.json").read_text())["release"]
    found = Path(f"/usr/src/linux-headers-{release}")
    if not found.is_dir():
        pytest.skip(f"no {found} (package linux-headers-{release})")
    return found


def build(sources: Mapping[str, str]) -> Path:
    """Build modules from C, by their names; return their folder, which is kept."""
    below = str(headers())

    def make(folder: Path) -> None:
        for name, source in sources.items():
            (folder / f"{name}.c").write_text(source)
        objects = " ".join(f"{name}.o" for name in sources)
        (folder / "Makefile").write_text(f"obj-m := {objects}\n")
        words = ["make", "-s", "-C", below, f"M={folder}", "modules"]
        subprocess.run(words, check=True, capture_output=True, timeout=120)

    return harness.kept((below, sources), make)
