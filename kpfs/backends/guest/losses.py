# SPDX-License-Identifier: GPL-2.0-or-later
"""Tells what the guest kernel has lost, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from kpfs.backends.guest.root.module_support import PartsBuilt
from kpfs.base import losses
from kpfs.base.ktypes import KAddr
from kpfs.engine.aggr import kprobe_nmissed
from kpfs.engine.kretprobe import kretprobe_nmissed
from kpfs.engine.state import State


def told(parts: PartsBuilt, name_of: Callable[[int], str]) -> list[str]:
    """Return a line for each loss.  Context: lock held."""
    lines: list[str] = []
    if parts.state is not None:
        lines += _of_probes(parts.state, name_of)
    if parts.trace is not None:
        for instance, (overrun, dropped) in parts.trace.lost().items():
            lines += [losses.overwritten(instance, overrun)] * bool(overrun)
            lines += [losses.refused(instance, dropped)] * bool(dropped)
    return lines


def _of_probes(st: State, name_of: Callable[[int], str]) -> list[str]:
    hits, returns = Counter(st.missed_hits), Counter(st.missed_returns)
    maxactive: dict[KAddr, int] = dict(st.maxactive)
    for p, addr in st.registered.items():
        hits[addr] += kprobe_nmissed(st, p)
    for rp in st.kretprobes:
        returns[rp.kp.addr] += kretprobe_nmissed(st, rp)
        maxactive[rp.kp.addr] = rp.maxactive
    off = losses.disarmed(len(st.registered))
    return [
        *[off] * (st.kprobes_all_disarmed and bool(st.registered)),
        *(
            losses.missed_returns(name_of(at), count, maxactive[at])
            for at, count in returns.items()
            if count
        ),
        *(losses.skipped_hits(name_of(at), n) for at, n in hits.items() if n),
    ]
