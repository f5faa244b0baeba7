# SPDX-License-Identifier: GPL-2.0-or-later
"""Uses of modules that are counted from outside the guest."""

from __future__ import annotations

import struct

from kpfs import abi
from kpfs.guest.emu.memory import Memory

_REFCNT = struct.Struct("<q")


def _refcnt(memory: Memory, module: int) -> int:
    (count,) = _REFCNT.unpack(memory.read(module + abi.Module.refcnt, _REFCNT.size))
    assert isinstance(count, int)
    return count


def try_module_get(memory: Memory, module: int) -> bool:
    """Context: control.  Kernel: try_module_get()"""
    state = memory.read_u32(module + abi.Module.state)
    count = _refcnt(memory, module)
    if state == abi.MODULE_STATE_GOING or not count:
        return False
    memory.write(module + abi.Module.refcnt, _REFCNT.pack(count + 1))
    return True


def module_put(memory: Memory, module: int) -> None:
    """Context: control.  Kernel: module_put()"""
    count = _refcnt(memory, module)
    memory.write(module + abi.Module.refcnt, _REFCNT.pack(count - 1))
