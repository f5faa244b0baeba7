# SPDX-License-Identifier: GPL-2.0-or-later
"""Measure the hits of the group hits in a Linux 6.1 that QEMU emulates.

In QEMU a program calls getppid(2) and reads the clock of its machine, which goes on
while other processes have the processor; hence the least of some rounds is taken. Here
a loop of guest code calls the function behind getppid(2), and the median of this
thread's time is taken.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import thread_time

from bench.command import ROOT
from bench.engine import Bench, Place, find, is_boosted, is_jump, per_hit, with_event
from bench.guestcode import CALLS, TARGETS, Loop
from bench.row import Row, medians

HERE = Path(__file__).parent
KINDS = ("boosted", "optimized", "ftrace", "return")
TIMEOUT = 180  # seconds


class NotHereError(Exception):
    """Something that QEMU needs is missing; the text says what."""


def oracle() -> Path:
    """The program that runs scripts in a real kernel, as scripts/oracle finds it."""
    beside = ROOT.parent / "shared/oracle/run"
    path = Path(os.environ.get("KPFS_ORACLE") or beside)
    if not os.access(path, os.X_OK):
        raise NotHereError(f"{path} is missing (KPFS_ORACLE names another)")
    return path


def build(folder: str, name: str = "getppid") -> str:
    """The program of bench/NAME.c, static, below a folder."""
    program = f"{folder}/{name}"
    words = ["gcc", "-O2", "-static", "-o", program, str(HERE / f"{name}.c")]
    try:
        subprocess.run(words, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotHereError("gcc cannot make a static program") from error
    return program


def theirs(run: Path) -> dict[str, float]:
    """Microseconds of a call, by kind of probe; "base": without one."""
    with tempfile.TemporaryDirectory() as folder:
        program = build(folder)
        answer = subprocess.run(
            [run, HERE / "getppid.sh"],
            env={**os.environ, "ORACLE_FILES": program, "ORACLE_TIMEOUT": str(TIMEOUT)},
            capture_output=True,
            text=True,
            check=False,
        )
    words = [line.split() for line in answer.stdout.splitlines()]
    took = {line[0]: float(line[1]) / 1e3 for line in words if len(line) == 2}
    if "base" not in took:
        raise NotHereError(f"{run} does not answer: {answer.stderr.strip()[-200:]}")
    return took


def ours(repeats: int) -> dict[str, float]:
    """Microseconds of a call without a probe, and of the hits over it."""
    bench = Bench()
    loop = Loop(bench.machine)
    loop()
    (base,) = medians([loop], repeats, thread_time)
    took = {"base": base / CALLS * 1e6}
    entry = Place(TARGETS[0], 0)
    places = {
        "optimized": find(bench, lambda _probe: is_jump(bench)),
        "ftrace": entry,
    }
    for kind, place in places.items():
        if place is not None:
            took[kind] = per_hit(bench, with_event(bench, place), repeats)
    took["return"] = per_hit(bench, with_event(bench, entry, "r"), repeats)
    bench.store("/sys/debug/kprobes-optimization", "0")
    place = find(bench, is_boosted)
    if place is not None:
        took["boosted"] = per_hit(bench, with_event(bench, place), repeats)
    return took


def against(run: Path, repeats: int) -> Iterator[Row]:
    """Rows of theirs, with ours in the note."""
    real, mine = theirs(run), ours(repeats)
    base = real["base"]
    yield Row("qemu_getppid", base, "us", note=f"ours: {mine['base']:.3f}")
    for kind in KINDS:
        took = real.get(kind)
        over = None if took is None else took - base
        note = f"ours: {mine[kind]:.3f}" if kind in mine else ""
        if over and kind in mine:
            note += f", {over / mine[kind]:.1f} times as fast"
        yield Row(f"qemu_hit_{kind}_event", over, "us", note=note)
