# SPDX-License-Identifier: GPL-2.0-or-later
"""The words in which a run of a search is told.  Tests kpfs.linux.search.described."""

from kpfs.base import abi
from kpfs.linux.search.described import described
from kpfs.linux.search.hold import HeldAccess, HoldCounts, PartyRow
from kpfs.linux.search.plan import Order, RunPlan

COMM = (int.from_bytes(b"test", "little"), 0)


class Texts:
    def place(self, address):
        return f"io+{address:#x} [m]" if address < 0x100 else ""


class Holds:
    """A run that has come by its first order, and waits there."""

    def __init__(self, orders):
        self.orders = orders

    def is_past(self, number):
        return not number

    def held(self):
        party = PartyRow(pid=7, comm=COMM)
        yield HeldAccess(1, 0x11, 0x2000, 8, abi.INSN_WRITES, 9_500_000, 0x67, party)

    def done(self):
        return HoldCounts(5, 2, 1, 0, 0, 0)


def lines(plan, now=None):
    return list(described(plan, Holds(plan.orders), Texts(), now))  # type: ignore[arg-type]


def test_the_orders_and_the_accesses_that_wait_are_told():
    orders = (
        Order(2, 8_000_000, 0x11, 0x67, then=4_000_000),
        Order(1, 2_000_000, 0x1000),
        Order(30, timer=True),
    )
    plan = RunPlan("pair", orders=orders)
    assert lines(plan, 1_500_000) == [
        "plan: 3 waits",
        "  1. before io+0x11 [m], time 2: wait for another task at io+0x67 [m], which "
        "then waits 4 ms, at most 8 ms: reached",
        "  2. before 0x1000, time 1: wait 2 ms: to come",
        "  3. before access 30: let the next timer come: to come",
        "so far: 5 accesses, 2 calls that can fail, 1 waits",
        "CPU 1 waits before io+0x11 [m], which writes 8 bytes at 0x2000, for another "
        "task at io+0x67 [m], at most 8 ms more: task 7 (test)",
    ]


def test_a_run_that_has_not_come_to_where_runs_begin():
    plan = RunPlan("fault", faults=(2, 5))
    assert lines(plan) == [
        "plan: the calls of numbers 2 and 5 fail",
        "the run has not come to where runs begin",
    ]
    assert lines(RunPlan(each_ns=100_000))[1] == ("  each access waits 0.1 ms")
