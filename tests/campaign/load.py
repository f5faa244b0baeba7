# SPDX-License-Identifier: GPL-2.0-or-later
"""64 clients of tests.fuzz.load: each sees what it did, and each call is counted.

The number is one of seconds, here alone.
"""

from __future__ import annotations

from pathlib import Path

from tests.campaign.hunt import Hunt, Part
from tests.campaign.mounted import Mounts, log_of
from tests.fuzz import load
from tests.harness import WrongError

CLIENTS = 64
CALLERS = 8
ROUND = 15  # s with one mount
MEMORY_MAX = 400  # MB; a guest has 64 MiB of RAM, and as much for its buffers
KERNEL_KINDS = ("toggle", "event", "list", "head")
KERNEL_MEMORY_MAX = 800  # MB, for a Linux kernel


def one_round(hunt: Hunt, mount: Path, switch: str) -> None:
    """Run all clients once, one of which turns a switch; WrongError if one is wrong."""
    settled = switch != ""
    if settled:
        kinds = load.under_a_switch(CLIENTS, switch, CALLERS)
    else:
        # on Linux a trace into which its reading is recorded has no end
        kinds = load.mixed(CLIENTS, KERNEL_KINDS if hunt.kernel else load.KINDS)
    report = load.run(mount, kinds, ROUND, settled=settled)
    if report.wrong:
        raise WrongError("\n".join(report.wrong[:20]))
    if settled:
        check_counts(hunt, report, exactly=switch == "optimize")
    if report.memory > (KERNEL_MEMORY_MAX if hunt.kernel else MEMORY_MAX):
        raise WrongError(f"the daemon had {report.memory:.0f} MB")
    hunt.did(sum(kind.times for kind in report.kinds.values()))


def check_counts(hunt: Hunt, report: load.Report, *, exactly: bool) -> None:
    """Compare calls with hits; while all probes are disarmed, a call has none."""
    for name, kind in report.kinds.items():
        if not kind.fewest:
            raise WrongError(f"a client that does {name} has starved")
    calls = report.kinds["call"].times * load.CALLS
    if report.hits > calls or (exactly and report.hits != calls):
        raise WrongError(f"{report.hits} hits of {calls} calls")
    hunt.tally["calls counted"] += calls


def run(hunt: Hunt) -> None:
    mounts = Mounts(hunt.scratch)
    # calls of a Linux kernel are not counted: there is no machine/syscall
    switches = [""] if hunt.kernel else ["optimize", "", "disarm"]
    hunt.end = min(hunt.end, hunt.begin + hunt.number)
    hunt.number = 1 << 62
    while hunt.more():
        switches.append(switches.pop(0))
        target = None
        try:
            with mounts.new(*(hunt.guest or ["--quiet-guest"])) as target:
                one_round(hunt, target, switches[0])
        except (WrongError, OSError, AssertionError) as error:
            hunt.finding(f"{error}", *([log_of(target)] if target else []))


PART = Part("operations", 600, 1, run, kernels=True)  # for 600 s, however many that are
