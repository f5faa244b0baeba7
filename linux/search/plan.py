# SPDX-License-Identifier: GPL-2.0-or-later
"""Plans of runs: which accesses wait, and which calls fail.

The kernel's memory and code are the same in every run from the same place on, so two
runs with one plan are one run. A plan is therefore all that a finding needs to be seen
again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kpfs.base import abi
from kpfs.base.kinds import IBT, LOCK, MEMORY, RACE

LOOKERS = {
    RACE: abi.LOOK_HOLD,
    MEMORY: abi.LOOK_MEMORY,
    LOCK: abi.LOOK_LOCKS,
    IBT: abi.LOOK_IBT,
}


class Order(NamedTuple):
    """Something to do before an access.

    at: address of the instruction; 0: each access of the searched text counts.
    number: which of these accesses, from 1 on.
    """

    number: int
    ns: int = 0  # for which the processor waits there
    at: int = 0
    until: int = 0  # address of an access by another task that ends the wait; 0: none
    timer: bool = False  # the processor's next timer is due at once
    then: int = 0  # ns that the other task waits before its next access, after until


class RunPlan(NamedTuple):
    """All that one run differs by from a run without a search."""

    way: str = "base"  # how the plan was chosen, for people
    checks: tuple[str, ...] = ()
    each_ns: int = 0  # each access waits for so long, and is compared with others
    orders: tuple[Order, ...] = ()
    faults: tuple[int, ...] = ()  # numbers of calls, of those that can fail

    @property
    def how(self) -> str:
        """Words for what is done to a run."""
        if len(self.faults) > 1:
            return f"the calls of numbers {' and '.join(map(str, self.faults))} fail"
        if self.faults:
            return f"the call of number {self.faults[0]} fails"
        if self.each_ns:
            return "each access waits"
        count = len(self.orders)
        waits = f"{count} waits" if count > 1 else "one wait"
        return waits if count else "nothing is done to it"

    def packed(self) -> dict[str, Any]:
        """Return the plan as JSON has it."""
        return self._asdict()

    @classmethod
    def unpacked(cls, row: dict[str, Any]) -> RunPlan:
        """Return the plan that packed() described."""
        orders = tuple(Order(*order) for order in row["orders"])
        checks, faults = tuple(row["checks"]), tuple(row["faults"])
        return cls(row["way"], checks, row["each_ns"], orders, faults)
