# SPDX-License-Identifier: GPL-2.0-or-later
"""Where libunicorn is, and the error of what goes wrong with it."""

from __future__ import annotations

import os
from importlib.machinery import PathFinder


class EmulatorError(Exception):
    """libunicorn is missing or failed: a bug or a broken guest, not a refusal."""


def find_library() -> str:
    """Path of libunicorn in the unicorn package, which is not imported."""
    spec = PathFinder.find_spec("unicorn")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for name in ("libunicorn.so.2", "libunicorn.so", "libunicorn.2.dylib"):
            path = os.path.join(folder, "lib", name)
            if os.path.exists(path):
                return path
    raise EmulatorError("the Python package unicorn is not installed")
