# SPDX-License-Identifier: GPL-2.0-or-later
"""Uses of modules that are counted from outside the guest."""

from __future__ import annotations

import struct

from kpfs.guest.emu.memory import Memory

# offsets in struct module: see src/kernel/module.c
_STATE_AT, _REFCNT_AT = 0, 208
_GOING = 2
_STATE, _REFCNT = struct.Struct("<I"), struct.Struct("<q")


def _refcnt(memory: Memory, module: int) -> int:
    (count,) = _REFCNT.unpack(memory.read(module + _REFCNT_AT, _REFCNT.size))
    assert isinstance(count, int)
    return count


def try_module_get(memory: Memory, module: int) -> bool:
    """Context: control.  Kernel: try_module_get()"""
    (state,) = _STATE.unpack(memory.read(module + _STATE_AT, _STATE.size))
    count = _refcnt(memory, module)
    if state == _GOING or not count:
        return False
    memory.write(module + _REFCNT_AT, _REFCNT.pack(count + 1))
    return True


def module_put(memory: Memory, module: int) -> None:
    """Context: control.  Kernel: module_put()"""
    count = _refcnt(memory, module)
    memory.write(module + _REFCNT_AT, _REFCNT.pack(count - 1))
