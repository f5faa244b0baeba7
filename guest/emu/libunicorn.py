# SPDX-License-Identifier: GPL-2.0-or-later
"""Find libunicorn, and define the error for its failures."""

from __future__ import annotations

import os
from importlib.machinery import PathFinder


class EmulatorError(Exception):
    """libunicorn is missing or failed: a bug or a broken guest, not a refusal."""


def find_library() -> str:
    """Return the path of libunicorn in the unicorn package, without importing it."""
    spec = PathFinder.find_spec("unicorn")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for name in ("libunicorn.so.2", "libunicorn.so", "libunicorn.2.dylib"):
            path = os.path.join(folder, "lib", name)
            if os.path.exists(path):
                return path
    raise EmulatorError("the Python package unicorn is not installed")
