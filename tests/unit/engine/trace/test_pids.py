# SPDX-License-Identifier: GPL-2.0-or-later
"""Lists of pids, and the hash tables that guest code searches."""

import errno
import random

import pytest

from kpfs.base import abi
from kpfs.base.errors import KernelError
from kpfs.engine.trace import pids as module
from kpfs.engine.trace.pids import GuestSet, PidSet, place


def found(machine, table, key):
    """Return the answer of hashed() of engine/runtime/trace.c."""
    mask = machine.read_u64(table)
    i = place(key) & mask
    while (there := machine.read_u64(table + abi.KpHash.key + 8 * i)) not in (0, key):
        i = (i + 1) & mask
    return there == key


def test_guest_code_finds_what_was_added_and_nothing_else(trace):
    rng = random.Random(1)
    for _ in range(20):
        keys = rng.sample(range(1, 1000), rng.randrange(0, 60))
        cut = rng.randrange(len(keys) + 1)
        table = GuestSet(trace.runtime, keys[:cut])
        there = set(keys[:cut])
        if table.add(keys[cut:]):
            there.update(keys[cut:])
        hits = {key for key in range(1, 1000) if found(trace.machine, table.addr, key)}
        assert hits == there


def test_a_set_without_room_is_left_as_it_is(trace):
    table = GuestSet(trace.runtime, range(1, 4))
    before = bytes(table.view)
    assert not table.add(range(4, 100))
    assert bytes(table.view) == before


def test_a_long_list_is_written_piece_by_piece(trace, monkeypatch):
    made = []

    class Counted(GuestSet):
        def __init__(self, runtime, keys):
            made.append(len(keys))
            super().__init__(runtime, keys)

    monkeypatch.setattr(module, "GuestSet", Counted)
    pids = PidSet(trace.runtime)
    for first in range(1, 20001, 100):
        data = "".join(f"{pid}\n" for pid in range(first, first + 100)).encode()
        assert pids.write(data) == len(data)
    assert pids.pids == set(range(1, 20001))
    assert sum(made) < 3 * 20000  # each write making a table anew: 2,010,000
    assert all(found(trace.machine, pids.addr, pid + 1) for pid in range(1, 20001, 97))
    assert not found(trace.machine, pids.addr, 20002)


def test_a_wrong_word_changes_nothing(trace):
    pids = PidSet(trace.runtime)
    pids.write(b"1 2")
    for data, code in (
        (b"3 x", errno.EINVAL),
        (b"3 08", errno.EINVAL),
        (b"3 1073741824", errno.EPERM),
        (b"3 " + b"1" * 128, errno.EINVAL),
    ):
        with pytest.raises(KernelError) as error:
            pids.write(data)
        assert error.value.errno == code
        assert pids.text() == "1\n2\n"
        assert not found(trace.machine, pids.addr, 4)


def test_words_are_numbers_as_in_c(trace):
    pids = PidSet(trace.runtime)
    assert pids.write(b" \t0x10 010 +5\n7\0 9") == 18
    assert pids.write(b"20 \0 30") == 4
    assert pids.text() == "5\n7\n8\n9\n16\n20\n"
    pids.clear()
    assert (pids.text("no pid\n"), pids.addr) == ("no pid\n", 0)


def test_removed_entry_hides_nothing(trace):
    rng = random.Random(2)
    for _ in range(20):
        keys = rng.sample(range(1, 1000), 40)
        table = GuestSet(trace.runtime, keys)
        for key in keys[:20]:
            table.remove(key)
        table.remove(1001)  # is not there
        hits = {key for key in range(1, 1000) if found(trace.machine, table.addr, key)}
        assert hits == set(keys[20:])


def listed(trace, pids, addr):
    """The pids below 20,000 that both the file and guest code know of."""
    known = {pid for pid in range(20000) if found(trace.machine, addr, pid + 1)}
    assert known == pids.pids
    return known


def test_children_of_listed_tasks_join(trace):
    pids = PidSet(trace.runtime)
    pids.follow_fork(7, 8)
    assert (pids.pids, pids.addr) == (None, 0)
    pids.write(b"7")
    for pid, child in ((7, 8), (8, 9), (6, 10), (7, 8)):
        pids.follow_fork(pid, child)
    assert listed(trace, pids, pids.addr) == {7, 8, 9}


def test_ended_task_leaves_and_an_empty_list_stays(trace):
    pids = PidSet(trace.runtime)
    pids.follow_exit(7)
    pids.write(b"7 8")
    for pid in (8, 9, 7):
        pids.follow_exit(pid)
    assert pids.addr
    assert listed(trace, pids, pids.addr) == set()
    assert pids.text("no pid\n") == ""
    pids.follow_fork(7, 8)
    assert listed(trace, pids, pids.addr) == set()


def test_many_come_and_go(trace):
    addresses: list[int] = []
    pids = PidSet(trace.runtime, addresses.append)
    pids.write(b"1")
    for child in range(2, 5000):
        pids.follow_fork(1, child)
        if child > 10:
            pids.follow_exit(child - 5)
    assert addresses[-1] == pids.addr
    assert listed(trace, pids, pids.addr) == {1, 2, 3, 4, 5, *range(4995, 5000)}
    assert trace.machine.read_u64(pids.addr) < 256  # the table has not grown for ever
    pids.clear()
    assert addresses[-1] == 0


def test_without_memory_a_child_is_not_listed(trace, monkeypatch):
    def full(_size):
        raise KernelError(errno.ENOMEM, "full")

    pids = PidSet(trace.runtime)
    pids.write(b"1")
    monkeypatch.setattr(trace.runtime.heap, "alloc", full)
    for child in range(2, 100):
        pids.follow_fork(1, child)
    assert 1 < len(listed(trace, pids, pids.addr)) < 10
