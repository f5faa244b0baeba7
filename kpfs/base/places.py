# SPDX-License-Identifier: GPL-2.0-or-later
"""Where kpfs keeps what it can make again."""

import os


def cache() -> str:
    """Return the folder, below XDG_CACHE_HOME, which may be missing."""
    above = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(above, "kpfs")
