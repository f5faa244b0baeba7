# SPDX-License-Identifier: GPL-2.0-or-later
"""``python -m kpfs``, and what scripts/kpfs starts with ``python -I -S``.

There KPFS_HOME names the virtual environment; its packages are put on the path by
hand, which saves the 25 ms that ``site`` takes.
"""

import os
import sys


def _find_packages() -> None:
    """Put the checkout and the packages of KPFS_HOME on the import path."""
    home = os.environ.pop("KPFS_HOME", "")
    if not home:
        return
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    here = os.path.dirname(os.path.abspath(__file__))
    if not sys.flags.isolated:
        del sys.path[0]
    sys.path.insert(0, os.path.dirname(here))
    sys.path.append(f"{home}/lib/{version}/site-packages")


if __name__ == "__main__":
    _find_packages()
    from kpfs.base.loading import load

    load("kpfs.cli").script()
