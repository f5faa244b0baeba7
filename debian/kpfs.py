#!/usr/bin/python3 -IS
# SPDX-License-Identifier: GPL-2.0-or-later
"""/usr/bin/kpfs of the Debian package."""

import sys

sys.path.insert(0, "/usr/lib/kpfs")
sys.path.append("/usr/lib/python3/dist-packages")  # -S leaves it out

from kpfs.__main__ import script

script()
