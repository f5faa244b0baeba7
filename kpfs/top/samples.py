# SPDX-License-Identifier: GPL-2.0-or-later
"""The probes of a mount, read from its files, and how fast their counts grow.

Reading makes system calls in the kernel that is watched, so probes there see them: a
probe on vfs_read() is never at rest.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kpfs.session.paths import ReadablePath

COLUMNS = (
    "place", "type", "kind", "state", "hits/s", "missed/s", "hits", "missed", "cost",
)  # fmt: skip
NUMBERS = range(4, 9)  # columns that are aligned to the right
HISTORY = 24  # samples that a sparkline shows
BARS = " ▁▂▃▄▅▆▇█"
TAGS = {
    "[GONE]": "gone",
    "[DISABLED]": "disabled",
    "[FTRACE]": "ftrace",
    "[OPTIMIZED]": "jump",
}


class TopProbe(NamedTuple):
    """A probe at one time."""

    address: str  # "-": the files do not tell
    type: str  # k, r or j
    place: str
    owner: str
    kind: str  # how it is armed: ftrace, jump or breakpoint; or why it is not
    state: str  # each CPU's state at it; "-": the files do not tell
    boostable: str  # 1, 0 or -1; "-": it is no breakpoint, or the files do not tell
    hits: int
    nmissed: int


class Rate(NamedTuple):
    """A probe, with its hits and misses per second."""

    probe: TopProbe
    hits: float
    missed: float
    history: tuple[float, ...]  # hits a second, the newest last


Key = tuple[str, str, str]


def is_guest_kernel(tree: ReadablePath) -> bool:
    """Return True if the kernel of a mount is the guest kernel."""
    release = (tree / "sys/kernel/osrelease").read_text()
    return release.rstrip("\n").endswith("-kpfs")


def read(tree: ReadablePath) -> list[TopProbe]:
    """Return all probes of a mount in the order of kprobes/list."""
    armed = (tree / "kprobes/enabled").read_text().strip() == "1"
    kinds = _kinds((tree / "kprobes/list").read_text(), armed)
    try:
        table = (tree / "machine/probes").read_text()
    except FileNotFoundError:  # a Linux kernel
        profile = (tree / "tracing/kprobe_profile").read_text()
        events = (tree / "tracing/kprobe_events").read_text()
        return _from_profile(profile, events, kinds)
    return _from_table(table, kinds)


def lost(tree: ReadablePath) -> list[str]:
    """Return what the kernel of a mount has lost, each with its cause."""
    try:
        return (tree / "machine/lost").read_text().splitlines()
    except FileNotFoundError:  # copies of files, without a kernel
        return []


def _kinds(listed: str, armed: bool) -> dict[tuple[str, str], str]:
    """Return the kinds of probes by type and place, from kprobes/list."""
    kinds = {}
    for line in listed.splitlines():
        words = line.split()
        found = [kind for tag, kind in TAGS.items() if tag in line]
        kind = found[0] if found else "breakpoint"
        if not armed and kind not in ("gone", "disabled"):
            kind = "disarmed"
        kinds[words[1], words[2]] = kind
    return kinds


def _from_table(table: str, kinds: dict[tuple[str, str], str]) -> list[TopProbe]:
    probes = []
    for line in table.splitlines()[1:]:
        *words, boostable, _slot, _detour, hits, missed = line.split()
        if not hits.isdigit():
            continue  # the kernel's own probe, or a module's: nobody counts its hits
        address, type_, place, owner, state = words
        kind = kinds.get((type_, place.partition(":")[0]), "gone")
        said = address, type_, place, owner, kind, state, boostable
        probes.append(TopProbe(*said, int(hits), int(missed)))
    return probes


def _from_profile(
    profile: str, events: str, kinds: dict[tuple[str, str], str]
) -> list[TopProbe]:
    """Return the probes of events: definitions with the counts of kprobe_profile."""
    counts = {}
    for line in profile.splitlines():
        name, *numbers = line.split()
        counts[name] = int(numbers[0]), int(numbers[1])
    probes = []
    for line in events.splitlines():
        head, place = line.split()[:2]
        type_, _, owner = head.partition(":")
        hits, missed = counts.get(owner.partition("/")[2], (0, 0))
        type_, where = ("r" if type_[0] == "r" else "k"), place.rpartition(":")[2]
        where = where if "+" in where else f"{where}+0x0"
        kind = kinds.get((type_, where), "?")
        probes.append(TopProbe("-", type_, where, owner, kind, "-", "-", hits, missed))
    return probes


class Sampler:
    """The comparison of each sample with the one before."""

    def __init__(self) -> None:
        self._before: dict[Key, TopProbe] = {}
        self._when = 0.0
        self._histories: dict[Key, deque[float]] = {}

    def add(self, probes: Iterable[TopProbe], now: float | None = None) -> list[Rate]:
        """Return the rates since the sample before; 0 for a probe that is new."""
        now = time.monotonic() if now is None else now
        seconds = now - self._when
        rates = []
        before, histories = self._before, self._histories
        self._before, self._histories, self._when = {}, {}, now
        for probe in probes:
            key = probe.type, probe.place, probe.owner
            old = before.get(key, probe)
            hits = _grown(old.hits, probe.hits, seconds)
            missed = _grown(old.nmissed, probe.nmissed, seconds)
            history = histories.get(key, deque(maxlen=HISTORY))
            if key in before:
                history.append(hits)
            self._before[key], self._histories[key] = probe, history
            rates.append(Rate(probe, hits, missed, tuple(history)))
        return rates


def _grown(old: int, new: int, seconds: float) -> float:
    """Return growth per second; a count that begins anew has grown from 0."""
    return (new - old if new >= old else new) / seconds if seconds > 0 else 0.0


def cells(rate: Rate, cost: float | None) -> tuple[str, ...]:
    """Return a row's cells for COLUMNS; a cost is microseconds a hit."""
    probe = rate.probe
    speeds = f"{rate.hits:.1f}", f"{rate.missed:.1f}"
    counts = str(probe.hits), str(probe.nmissed)
    about = "" if cost is None else f"≈{cost:.2f} us"
    return probe.place, probe.type, probe.kind, probe.state, *speeds, *counts, about


def sparkline(history: Sequence[float]) -> str:
    """Return a bar for each value, scaled to the greatest."""
    top = max(history, default=0.0)
    if not top:
        return BARS[1] * len(history)
    return "".join(BARS[1 + round(value / top * (len(BARS) - 2))] for value in history)
