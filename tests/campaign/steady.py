# SPDX-License-Identifier: GPL-2.0-or-later
"""Steady use of a mount among several: a daemon grows no larger, and opens no more.

Each round makes probes, has them hit, reads the trace and takes them away, makes and
removes an instance, and loads and unloads a module. Names repeat, since the host's
Linux keeps those that it has looked up.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

from tests import harness
from tests.campaign.hunt import Hunt, Part
from tests.campaign.mounted import Mounts
from tests.harness import WrongError

CROWD = 8  # mounts beside it
NAMES = 20
SETTLED = 200  # rounds until everything has come that stays
GROWTH = 16 << 10  # KiB from then on
MODULES = {True: "dummy", False: "kprobe_example"}  # by kind: Linux kernel or not


def anonymous(pid: int) -> int:
    """Return the KiB of memory of its own that a process has."""
    words = Path(f"/proc/{pid}/smaps_rollup").read_text().split()
    return int(words[words.index("Anonymous:") + 1])


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def append(path: Path, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def one_round(top: Path, number: int, module: str) -> None:
    """Use everything once, and leave nothing. Raises OSError, WrongError."""
    tracing, name = top / "tracing", f"e{number % NAMES}"
    append(tracing / "kprobe_events", f"p:{name} do_sys_openat2 name=+0(%si):ustring\n")
    append(tracing / "kprobe_events", f"r:r{name} do_sys_openat2 $retval\n")
    events = tracing / "events/kprobes"
    for event in (name, f"r{name}"):
        (events / event / "enable").write_text("1")
    (tracing / "README").read_text()
    trace = (tracing / "trace").read_text()
    for event in (name, f"r{name}"):
        (events / event / "enable").write_text("0")
        append(tracing / "kprobe_events", f"-:{event}\n")
        if f"{event}: (" not in trace:
            raise WrongError(f"{event} was not hit")
    (tracing / "trace").write_text("")
    instance = tracing / "instances" / name
    instance.mkdir()
    instance.rmdir()
    append(top / "machine/insmod", f"{module}\n")
    append(top / "machine/rmmod", f"{module}\n")


def run(hunt: Hunt) -> None:
    mounts = Mounts(hunt.scratch)
    module = MODULES[bool(hunt.kernel)]
    with ExitStack() as stack:
        for number in range(CROWD):
            one_round(stack.enter_context(mounts.new(*hunt.guest)), number, module)
        top = stack.enter_context(mounts.new(*hunt.guest))
        pid = harness.daemon_of(top)
        settled = 0
        while hunt.more():
            try:
                one_round(top, hunt.done, module)
            except (OSError, WrongError) as error:
                hunt.finding(f"round {hunt.done}: {error}")
                return
            hunt.did()
            if hunt.done == 2:
                opened = descriptors(pid)
            elif hunt.done == SETTLED:
                settled = anonymous(pid)
            elif hunt.done > 2 and (now := descriptors(pid)) > opened + 1:
                hunt.finding(f"round {hunt.done}: {now - opened} more descriptors")
                return
            if settled and (more := anonymous(pid) - settled) > GROWTH:
                hunt.finding(f"round {hunt.done}: {more} KiB more memory")
                return


PART = Part("rounds", 2_000, 1, run, kernels=True)
