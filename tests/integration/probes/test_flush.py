# SPDX-License-Identifier: GPL-2.0-or-later
"""Instances of return probes in functions that their task never returns from."""

import struct

import pytest

from kpfs.base import abi
from kpfs.engine.kprobe import Kprobe
from kpfs.engine.kretprobe import Kretprobe, register_kretprobe
from kpfs.engine.runtime.records import KpRethook

pytestmark = pytest.mark.guest

# words of struct kp_rethook: the free list, the site of the last hit
FREE, SITE = abi.KpRethook.free // 8, abi.KpRethook.site // 8


def test_a_dead_task_gives_its_instances_back_and_changes_nothing_else(kernel):
    """The guest's kprobe_flush_task() has the places of these words from no header."""
    rp = Kretprobe(Kprobe(symbol_name="do_exit"), lambda *_: None, maxactive=3)
    register_kretprobe(kernel.state, rp)
    guest, arch = kernel.guest, kernel.state.arch
    record = arch.rethooks._made[rp.addr][0]

    def state():
        words = list(struct.unpack("<16Q", guest.read(record.addr, KpRethook.SIZE)))
        words[FREE] = words[SITE] = 0
        return words

    before = state()
    for pid in range(777_100, 777_110):
        guest.host_tasks.exit(guest.host_tasks.of_process(pid, 0, "mortal", 1))
        assert state() == before
        assert arch.runtime.inuse(record) == 0
