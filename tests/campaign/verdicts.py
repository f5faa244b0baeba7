# SPDX-License-Identifier: GPL-2.0-or-later
"""Verdicts of ``kpfs explain`` on all kernels that were made: each is the kernel's own.

Points are drawn anew, one in each function; then come the entries of all functions.
"""

from __future__ import annotations

from kpfs.linux.running.linux_kernel import LinuxKernel
from kpfs.linux.store import store
from tests.campaign.hunt import Hunt, Part
from tests.integration.linux.conftest import Process
from tests.probe_points import BATCH, choose, differences, entries, explain

DRAWN = 3000  # points of a kernel, besides entries
PID = 4_000_001


def judge(hunt: Hunt, name: str, *, drawn: bool) -> None:
    """Ask one kernel; each difference is a finding.  drawn: points, else entries."""
    kernel = LinuxKernel(name, quiet=True)
    kernel.start()
    try:
        shell = Process(kernel, PID)
        image, state = explain(kernel)
        symbols = kernel.symbols
        if drawn:
            addrs = choose(symbols, symbols.functions(), image, DRAWN, hunt.seed)
        else:
            addrs = entries(symbols, image)
        while addrs and hunt.more():
            some, addrs = addrs[: hunt.left(BATCH)], addrs[BATCH:]
            for difference in differences(shell, image, state, some, hunt.tally):
                hunt.finding(f"{name}: {difference}")
            hunt.did(len(some))
    finally:
        kernel.stop()


def run(hunt: Hunt) -> None:
    for drawn in (True, False):
        for name in [hunt.kernel] if hunt.kernel else store.names():
            judge(hunt, name, drawn=drawn)


PART = Part("verdicts", 1_000_000, 3, run, kernels=True)
