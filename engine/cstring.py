# SPDX-License-Identifier: GPL-2.0-or-later
"""Strings in guest memory."""

from kpfs.engine.machine import Machine

_STEP = 16


def read_cstring(machine: Machine, addr: int, limit: int) -> str:
    """What stands at addr up to a NUL, about limit bytes at most.

    Context: either.
    """
    text = b""
    while b"\0" not in text and len(text) < limit:
        # up to the next boundary, so that no page is touched needlessly
        at = addr + len(text)
        text += machine.read(at, _STEP - at % _STEP)
    return text.partition(b"\0")[0].decode("latin-1")
