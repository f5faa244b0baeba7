# SPDX-License-Identifier: GPL-2.0-or-later
"""Many clients of one mount at once, each as fast as it can.

    python -m tests.fuzz.load [--clients 64] [--seconds 10] [--kinds toggle,event,...]

One event for each client that toggles lies on one function, which every read hits.
Each client looks whether what it did is so, and nothing is torn.  Prints operations per
second, the slowest by kind, and what memory the daemon took; a wrong answer is an exit
status of 1.  ``run()`` does the same to a mount that is there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from bench.command import Command
from bench.mount import daemon_of

PIECE = 65536
GROUP = "load"
FUNCTION = "vfs_read"
LAST = 500  # bytes of a trace that are looked at
SPARE = 30  # s beyond the time that a client has to end in
LIST_LINE = re.compile(rb"[0-9a-f]{16}  [kr]  [\w.]+\+0x[0-9a-f]+ +(\[[A-Z]+\])*")
TRACE_LINE = re.compile(rb"#.*| +.*-\d+ +\[\d{3}\] .{5} +\d+\.\d{6}: .*|CPU:.*LOST.*")


class Kind(NamedTuple):
    """How often something was done, and how long it took."""

    times: int
    mean: float  # s
    slowest: float  # s


class Report(NamedTuple):
    """What became of a run."""

    seconds: float
    kinds: dict[str, Kind]
    memory: float  # MB, at most
    wrong: list[str]

    @property
    def rate(self) -> float:
        """Operations a second."""
        return sum(kind.times for kind in self.kinds.values()) / self.seconds

    @property
    def slowest(self) -> float:
        return max((kind.slowest for kind in self.kinds.values()), default=0.0)

    def lines(self) -> list[str]:
        """For people."""
        lines = [
            f"{self.rate:.0f} operations a second, the slowest {self.slowest:.3f} s, "
            f"memory {self.memory:.0f} MB"
        ]
        for name, kind in self.kinds.items():
            rate = kind.times / self.seconds
            lines.append(
                f"  {name:8} {rate:8.1f}/s  mean {kind.mean * 1e3:8.2f} ms  "
                f"slowest {kind.slowest * 1e3:8.1f} ms"
            )
        return lines + [f"  wrong: {text}" for text in self.wrong]


# ---- what a client does
def whole(path: str, most: int = 1 << 30) -> bytes:
    """The contents of a file; when ``most`` is reached, no more is asked for."""
    fd = os.open(path, os.O_RDONLY)
    try:
        pieces, length = [], 0
        while length < most and (piece := os.read(fd, min(PIECE, most))):
            pieces.append(piece)
            length += len(piece)
        return b"".join(pieces)
    finally:
        os.close(fd)


def write(path: str, data: bytes, flags: int = 0) -> None:
    fd = os.open(path, os.O_WRONLY | flags)
    try:
        taken = os.write(fd, data)
        assert taken == len(data), (path, taken)
    finally:
        os.close(fd)


class Client:
    """One of many; ``number`` tells it from the others."""

    def __init__(self, top: str, number: int) -> None:
        self.top = top
        self.number = number
        self.on = False

    def toggle(self) -> None:
        """Switch the client's own event over."""
        self.on = not self.on
        path = f"{self.top}/tracing/events/{GROUP}/t{self.number}/enable"
        write(path, b"%d" % self.on)
        assert whole(path) == b"%d\n" % self.on, path

    def event(self) -> None:
        """Add an event at the function, or delete it again."""
        self.on = not self.on
        name = f"{GROUP}/e{self.number}"
        text = f"p:{name} {FUNCTION}\n" if self.on else f"-:{name}\n"
        write(f"{self.top}/tracing/kprobe_events", text.encode(), os.O_APPEND)
        there = os.path.exists(f"{self.top}/tracing/events/{name}/enable")
        assert there == self.on, name

    def list(self) -> None:
        """Read the list of probes."""
        text = whole(f"{self.top}/kprobes/list")
        for line in text.splitlines():
            assert LIST_LINE.fullmatch(line), line
        assert not text or text.endswith(b"\n"), text[-80:]

    def trace(self) -> None:
        """Read all that is in the buffer."""
        text = whole(f"{self.top}/tracing/trace")
        assert text.startswith(b"# tracer:"), text[:80]
        assert text.endswith(b"\n"), text[-80:]
        # not of all: the clients, too, take the time of the machine
        for line in text[-LAST:].splitlines()[1:]:
            assert TRACE_LINE.fullmatch(line), line

    def head(self) -> None:
        """Read the beginning of it."""
        text = whole(f"{self.top}/tracing/trace", 4096)
        assert text.startswith(b"# tracer:"), text[:80]


KINDS = ("toggle", "event", "list", "trace")
ALL_KINDS = (*KINDS, "head")


def client(top: str, number: int, kind: str, end: float) -> dict[str, object]:
    """Do one thing again and again, until the time is ``end``."""
    do: Callable[[], None] = getattr(Client(top, number), kind)
    count, total, slowest = 0, 0.0, 0.0
    while (began := time.monotonic()) < end:
        try:
            do()
        except (OSError, AssertionError) as error:
            return {"kind": kind, "wrong": f"{kind} {number}: {error!r}"}
        taken = time.monotonic() - began
        count, total, slowest = count + 1, total + taken, max(slowest, taken)
    return {"kind": kind, "count": count, "total": total, "slowest": slowest}


# ---- the run
def peak_memory(pid: int) -> float:
    """The most that a process ever had in memory, in MB."""
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB$", text, re.M)
    assert found
    return int(found[1]) / 1024


def define(top: Path, numbers: Iterable[int]) -> None:
    """The events that are toggled."""
    lines = [f"p:{GROUP}/t{number} {FUNCTION}\n" for number in numbers]
    write(f"{top}/tracing/kprobe_events", "".join(lines).encode(), os.O_APPEND)
    # the first event that is enabled makes the ring as large as it will be, which is
    # EBUSY while anybody reads trace, as on Linux
    for value in (b"1", b"0") if lines else ():
        write(f"{top}/tracing/events/{GROUP}/enable", value)


def undefine(top: Path) -> None:
    """Take away all that a run has left."""
    tracing = top / "tracing"
    for line in (tracing / "kprobe_events").read_text().splitlines():
        name = line.split()[0].partition(":")[2]
        if name.startswith(f"{GROUP}/"):
            write(f"{tracing}/events/{name}/enable", b"0")
            write(f"{tracing}/kprobe_events", f"-:{name}\n".encode(), os.O_APPEND)


def run(
    top: Path,
    clients: int = 64,
    seconds: float = 10.0,
    kinds: Iterable[str] = KINDS,
) -> Report:
    """Have so many clients, of each kind as many as of any other, use a mount."""
    names = tuple(kinds)
    roles = [names[number % len(names)] for number in range(clients)]
    define(top, [n for n, kind in enumerate(roles) if kind == "toggle"])
    command = [sys.executable, "-S", "-m", "tests.fuzz.load", "--client"]
    children = [
        subprocess.Popen(
            [*command, str(top), str(number), kind, str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        for number, kind in enumerate(roles)
    ]
    for child in children:
        assert child.stdout
        child.stdout.readline()  # it is ready
    for child in children:
        assert child.stdin
        child.stdin.write(b"\n")
        child.stdin.flush()
    raw: dict[str, list[tuple[int, float, float]]] = {name: [] for name in names}
    wrong = []
    for number, child in enumerate(children):
        try:
            said, _ = child.communicate(timeout=seconds + SPARE)
            seen = json.loads(said)
        except (subprocess.TimeoutExpired, ValueError) as error:
            child.kill()
            child.wait()
            wrong.append(f"{roles[number]} {number}: {error!r}")
            continue
        if "wrong" in seen:
            wrong.append(seen["wrong"])
        else:
            raw[seen["kind"]].append((seen["count"], seen["total"], seen["slowest"]))
    memory = peak_memory(daemon_of(top))
    undefine(top)
    return Report(seconds, {n: _sum(of) for n, of in raw.items()}, memory, wrong)


def _sum(parts: list[tuple[int, float, float]]) -> Kind:
    count = sum(part[0] for part in parts)
    total = sum(part[1] for part in parts)
    slowest = max((part[2] for part in parts), default=0.0)
    return Kind(count, total / count if count else 0.0, slowest)


def main() -> int:
    if sys.argv[1:2] == ["--client"]:
        top, number, kind, seconds = sys.argv[2:]
        print(flush=True)
        sys.stdin.read(1)
        end = time.monotonic() + float(seconds)
        print(json.dumps(client(top, int(number), kind, end)))
        return 0
    parser = argparse.ArgumentParser("load", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--kinds", default=",".join(KINDS), help=",".join(ALL_KINDS))
    parser.add_argument("--mount", type=Path, help="one that is there, else a new one")
    arguments = parser.parse_args()
    kinds = arguments.kinds.split(",")
    if unknown := set(kinds) - set(ALL_KINDS):
        parser.error(f"no such kind: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as scratch:
        kpfs = Command(Path(scratch))
        place = arguments.mount or kpfs.mount()
        report = run(place, arguments.clients, arguments.seconds, kinds)
        kpfs.finish()
    print("\n".join(report.lines()))
    return bool(report.wrong)


if __name__ == "__main__":
    sys.exit(main())
