# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules that do not come back, of all kinds: tests.fuzz.lockups makes them."""

from __future__ import annotations

import logging

from tests.campaign.hunt import Hunt, Part
from tests.fuzz.lockups import NR_MODULES, TIME_MAX, case, run_case

LIMIT = 0.4  # s of CPU time that a request may take; as configured it is 5
LIVE = 4  # one in so many guests has a life of its own


def run(hunt: Hunt) -> None:
    logging.getLogger().addHandler(logging.NullHandler())  # guests may die here
    numbers = list(range(NR_MODULES))
    hunt.rng.shuffle(numbers)
    while hunt.more():
        number = numbers[hunt.done % NR_MODULES]
        live = hunt.rng.randrange(LIVE) == 0
        outcome = run_case(number, LIMIT, hunt.rng.randint(1, 4), live=live)
        if outcome.bad or outcome.seconds > TIME_MAX / 3:
            hunt.finding(
                f"module {number}, {outcome.name}: {outcome.how}, "
                f"{outcome.seconds:.1f} s{', live' if live else ''}",
                outcome=outcome.why,
                module=case(number).text,
            )
        hunt.did(1, outcome.how if not outcome.bad else "bad")


PART = Part("modules", NR_MODULES, 2, run)
