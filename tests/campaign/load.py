# SPDX-License-Identifier: GPL-2.0-or-later
"""64 clients at one mount: what they read is whole, and all that they do is counted.

The number is one of seconds, here alone.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests import harness
from tests.campaign import client
from tests.campaign.hunt import Hunt, Part
from tests.campaign.mounted import Mounts, WrongError, log_of
from tests.e2e import stress
from tests.fuzz import load

CLIENTS = 64
CALLERS, MAKERS, LOOKERS = 8, 4, 8
ROUND = 15  # s with one mount
PATIENCE = 60  # s that they may take to end
MEMORY_MAX = 400 << 20  # bytes; a guest has 64 MiB of RAM, and as much for its buffers
KERNEL_KINDS = ("toggle", "event", "list", "head")
KERNEL_MEMORY_MAX = 800 << 20  # the same for a distribution's kernel


def roles(switch: str) -> list[tuple[str, int]]:
    """Who does what: some have a number of their own, one alone switches."""
    toggler = "toggler" if switch == "optimizer" else "lax_toggler"
    found = [(switch, 0)]
    found += [(toggler, i) for i in range(len(stress.TARGETS))]
    found += [("caller", i) for i in range(CALLERS)]
    found += [("maker", i) for i in range(MAKERS)]
    found += [("looker", i) for i in range(LOOKERS)]
    return found + [("reader", i) for i in range(CLIENTS - len(found))]


def resident(pid: int) -> int:
    """Bytes of memory that a process has."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    return 0


def counted(mount: Path) -> int:
    """Hits of the event that the callers hit."""
    for line in (mount / "tracing/kprobe_profile").read_text().splitlines():
        name, hits, _ = line.split()
        if name == "calls":
            return int(hits)
    raise WrongError("the event is not there any more")


def one_round(hunt: Hunt, mount: Path, *, switch: str, seconds: float) -> None:
    """All clients at once, for so long; WrongError if something is not right."""
    events = stress.definitions() + client.EVENT + "\n"
    (mount / "tracing/kprobe_events").write_text(events)
    for name in ("calls", *(f"f{i}" for i in range(len(stress.FIXED)))):
        (mount / f"tracing/events/stress/{name}/enable").write_text("1")
    words = [sys.executable, "-m", "tests.campaign.client", str(mount)]
    who = roles(switch)
    children = [
        subprocess.Popen(
            [*words, role, str(number), str(seconds)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=harness.ROOT,
        )
        for role, number in who
    ]  # fmt: skip
    try:
        calls = watch(hunt, who, children, seconds)
    finally:
        for child in children:
            child.kill()
            child.wait()
    hits = counted(mount)
    # while all probes are disarmed, a call is not counted
    if hits > calls or (switch == "optimizer" and hits != calls):
        raise WrongError(f"{hits} hits of {calls} calls")
    if (size := resident(harness.daemon_of(mount))) > MEMORY_MAX:
        raise WrongError(f"the daemon has {size >> 20} MiB")
    hunt.tally["calls counted"] += calls


def watch(
    hunt: Hunt,
    who: list[tuple[str, int]],
    children: list[subprocess.Popen[str]],
    seconds: float,
) -> int:
    """Wait for the clients; how many system calls the callers have made."""
    calls = 0
    for (role, _), child in zip(who, children, strict=True):
        try:
            out, err = child.communicate(timeout=seconds + PATIENCE)
        except subprocess.TimeoutExpired:
            raise WrongError(f"a {role} does not end") from None
        if err or child.returncode:
            raise WrongError(f"{role}: {err}")
        rounds = int(out.split()[0])
        if not rounds:
            raise WrongError(f"a {role} has starved")
        calls += rounds * client.CALLS * (role == "caller")
        hunt.did(rounds)
    return calls


def as_fast_as_they_can(hunt: Hunt, mount: Path, seconds: float) -> None:
    """The clients of tests.fuzz.load, each of which looks whether it got its way."""
    # on Linux a trace into which its reading is recorded has no end
    kinds = KERNEL_KINDS if hunt.kernel else load.KINDS
    report = load.run(mount, CLIENTS, seconds, kinds)
    if report.wrong:
        raise WrongError("\n".join(report.wrong[:20]))
    most = KERNEL_MEMORY_MAX if hunt.kernel else MEMORY_MAX
    if report.memory > most / 1e6:
        raise WrongError(f"the daemon had {report.memory:.0f} MB")
    hunt.did(sum(kind.times for kind in report.kinds.values()))


def run(hunt: Hunt) -> None:
    mounts = Mounts(hunt.scratch)
    rounds: list[Callable[..., None]] = [
        partial(one_round, switch="optimizer"),
        as_fast_as_they_can,
        partial(one_round, switch="switcher"),
    ]
    if hunt.kernel:  # its calls are not counted: there is no machine/syscall
        rounds = [as_fast_as_they_can]
    hunt.end = min(hunt.end, hunt.begin + hunt.number)
    hunt.number = 1 << 62
    while hunt.more():
        rounds.append(rounds.pop(0))
        target = None
        try:
            with mounts.new(*(hunt.guest or ["--quiet-guest"])) as target:
                rounds[0](hunt, target, seconds=ROUND)
        except (WrongError, OSError, AssertionError) as error:
            hunt.finding(f"{error}", *([log_of(target)] if target else []))


PART = Part("operations", 600, 1, run, kernels=True)  # for 600 s, however many that are
