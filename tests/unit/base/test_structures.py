# SPDX-License-Identifier: GPL-2.0-or-later
"""Structures of C, as Python has them, are those that the compiler has laid out."""

import ctypes
import gc
import weakref
from typing import Any

import pytest

from kpfs.base import abi
from kpfs.emulator.libunicorn import BlockCounter
from kpfs.guest.emu.hypercalls import Hypercalls
from kpfs.guest.emu.idle_turn import IdleTurn
from kpfs.mirror.fast_path import FastPath
from kpfs.mirror.plan import MirrorCall, Plan, PlanRow

STRUCTURES: dict[Any, Any] = {
    BlockCounter: abi.BlockCounter,
    FastPath: abi.FastPath,
    Hypercalls: abi.Hypercalls,
    IdleTurn: abi.IdleTurn,
    MirrorCall: abi.MirrorCall,
    Plan: abi.Plan,
    PlanRow: abi.PlanRow,
}


@pytest.mark.parametrize("ours", STRUCTURES, ids=lambda ours: ours.__name__)
def test_fields_are_where_they_are_in_c(ours):
    theirs = STRUCTURES[ours]
    assert ctypes.sizeof(ours) == theirs.SIZE
    for name, _ in ours._fields_:
        assert getattr(ours, name).offset == getattr(theirs, name)


@pytest.mark.parametrize("ours", STRUCTURES, ids=lambda ours: ours.__name__)
def test_one_that_nobody_has_goes(ours):
    """The garbage collector finds what has itself, if it may look inside."""
    gc.disable()
    try:
        made = weakref.ref(ours())
        gc.collect(0)  # all there is would take long
    except TypeError:
        pytest.skip("it wants arguments")
    finally:
        gc.enable()
    assert made() is None
