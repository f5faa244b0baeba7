# SPDX-License-Identifier: GPL-2.0-or-later
"""Load many modules at once, without the garbage collector in between."""

from __future__ import annotations

import gc
import sys

from kpfs.base.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def load(name: str) -> ModuleType:
    """Import a module, with all that it imports, and return it.

    What is made meanwhile stays. The collector looks at it several times, which takes
    a twentieth of a start, in vain. In the end all objects of the process count as old
    ones to it, as if it had looked at them: freeze() and unfreeze() move them. Nothing
    is moved if the process has frozen objects itself, as these stay frozen.
    """
    if name not in sys.modules and gc.isenabled():
        gc.disable()
        try:
            __import__(name)
        finally:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()
    __import__(name)
    return sys.modules[name]
