# SPDX-License-Identifier: GPL-2.0-or-later
"""Many clients of one mount at once, each as fast as it can.

    python -m tests.fuzz.load [--clients 64] [--seconds 10] [--kinds toggle,event,...]

Each client does one kind of operation again and again, and checks that it took effect
and that no text is torn.  By default one event for each client that toggles lies on one
function, which every read hits.  Prints operations per second, the slowest by kind, and
the memory of the daemon; a wrong answer is an exit status of 1.  ``run()`` does the
same to a mount that is there, with any number of clients of each kind.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.command import ROOT, Command
from bench.mount import daemon_of

PIECE = 65536
GROUP = "load"
FUNCTION = "vfs_read"
# with settled events the list shows these once each, each toggled event has a target,
# and events come and go at a function that is none of them
SETTLED = ("vfs_open", "vfs_write", "kfree", "dput", "ksys_write", "do_sys_openat2")
TARGETS = ("vfs_read", "ksys_read", "schedule", "vfs_fsync_range", "kernel_clone")
ELSEWHERE = "vfs_unlink"
CALLED = "__x64_sys_getppid"
CALLS = 20  # in one write to machine/syscall
MOST = 4  # events of one client that does several things
LAST = 500  # bytes of a trace that are looked at
SPARE = 60  # s beyond the time that a client has to end in
LIST_LINE = re.compile(
    rb"[0-9a-f]{16}  [kr]  [\w.]+\+0x[0-9a-f]+ +"
    rb"(\[(DISABLED|FTRACE|OPTIMIZED|GONE)\])*"
)
TRACE_LINE = re.compile(rb"#.*| +.*-\d+ +\[\d{3}\] .{5} +\d+\.\d{6}: .*|CPU:.*LOST.*")


class Kind(NamedTuple):
    """The number of operations of one kind, and the time that they took."""

    times: int
    fewest: int  # by any one client
    mean: float  # s
    slowest: float  # s


class Report(NamedTuple):
    """The result of a run."""

    seconds: float
    kinds: dict[str, Kind]
    memory: float  # MB, at most
    hits: int  # hits of the event at CALLED
    wrong: list[str]

    @property
    def rate(self) -> float:
        """Operations a second."""
        return sum(kind.times for kind in self.kinds.values()) / self.seconds

    @property
    def slowest(self) -> float:
        return max((kind.slowest for kind in self.kinds.values()), default=0.0)

    def lines(self) -> list[str]:
        """Return the report as text for people."""
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
def whole(path: str, most: int = 1 << 30, piece: int = PIECE) -> bytes:
    """Read a file in pieces of a size; stop when ``most`` bytes are there."""
    fd = os.open(path, os.O_RDONLY)
    try:
        pieces, length = [], 0
        while length < most and (read := os.read(fd, min(piece, most))):
            pieces.append(read)
            length += len(read)
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


def switch(path: str, value: bytes) -> None:
    """Write 0 or 1 to a file, and check that it shows it."""
    write(path, value)
    assert whole(path) == value + b"\n", path


class Client:
    """One of many; ``number`` tells it from the others of its kind."""

    def __init__(self, top: str, number: int) -> None:
        self.top = top
        self.tracing = f"{top}/tracing"
        self.number = number
        self.on = False
        self.turn = number  # in which it does several things; each begins elsewhere
        self.own: dict[str, bool] = {}  # events of ``several``, and whether each is on
        self.functions: list[str] = []
        self.settled = os.path.exists(f"{self.tracing}/events/{GROUP}/f0")
        function = ELSEWHERE if self.settled else FUNCTION
        self.definition = f"p:{GROUP}/e{number} {function}\n"

    def toggle(self) -> None:
        """Switch the client's own event over."""
        self.on = not self.on
        path = f"{self.tracing}/events/{GROUP}/t{self.number}/enable"
        switch(path, b"%d" % self.on)

    def toggle_listed(self, lax: bool = False) -> None:
        """Switch the client's own event on and off, and look for its tag in the list.

        It ends off: a read that is recorded would make the trace of others endless.
        """
        target = b" %s+0x0 " % TARGETS[self.number].encode()
        for _ in range(2):
            self.toggle()
            text = self.list()
            lines = [line for line in text.splitlines() if target in line]
            assert len(lines) == 1, text
            if not (lax and self.on):
                assert (b"[DISABLED]" in lines[0]) != self.on, lines

    def toggle_lax(self) -> None:
        """toggle_listed beside ``disarm``: what is enabled then stays disabled."""
        self.toggle_listed(lax=True)

    def event(self) -> None:
        """Add an event at the function, or delete it again."""
        self.on = not self.on
        name = f"{GROUP}/e{self.number}"
        text = self.definition if self.on else f"-:{name}\n"
        write(f"{self.tracing}/kprobe_events", text.encode(), os.O_APPEND)
        there = os.path.exists(f"{self.tracing}/events/{name}/enable")
        assert there == self.on, name

    def event_listed(self) -> None:
        """Add or delete an event, and look for its definition."""
        self.event()
        text = whole(f"{self.tracing}/kprobe_events", piece=777)
        assert (self.definition.encode() in text) == self.on, text

    def list(self) -> bytes:
        """Read the list of probes."""
        piece = random.choice((7, 100, 1000, PIECE)) if self.settled else PIECE
        text = whole(f"{self.top}/kprobes/list", piece=piece)
        for line in text.splitlines():
            assert LIST_LINE.fullmatch(line), line
        assert not text or text.endswith(b"\n"), text[-80:]
        for name in SETTLED if self.settled else ():
            assert text.count(b" %s+0x0 " % name.encode()) == 1, text
        return text

    def look(self) -> None:
        """Read several files in small pieces."""
        for name in ("kprobe_profile", "trace", "kprobe_events", "dynamic_events"):
            whole(f"{self.tracing}/{name}", piece=1000)

    def trace(self) -> None:
        """Read all that is in the buffer."""
        text = whole(f"{self.tracing}/trace")
        assert text.startswith(b"# tracer:"), text[:80]
        assert text.endswith(b"\n"), text[-80:]
        # not of all: the clients, too, take the time of the machine
        for line in text[-LAST:].splitlines()[1:]:
            assert TRACE_LINE.fullmatch(line), line

    def head(self) -> None:
        """Read the beginning of the buffer."""
        text = whole(f"{self.tracing}/trace", 4096)
        assert text.startswith(b"# tracer:"), text[:80]

    def call(self) -> None:
        """Make system calls in the emulated kernel."""
        write(f"{self.top}/machine/syscall", b"getppid\n" * CALLS)

    def disarm(self) -> None:
        """Turn the switch for all probes off and on; for one client alone."""
        for value in (b"0", b"1"):
            switch(f"{self.top}/kprobes/enabled", value)

    def optimize(self) -> None:
        """Turn optimisation off and on; for one client alone."""
        for value in (b"0", b"1"):
            switch(f"{self.top}/sys/debug/kprobes-optimization", value)

    def several(self) -> None:
        """Read the whole trace each eighth time, else the list, or change an event.

        The client has up to MOST events, each at any function.
        """
        self.turn += 1
        if not self.turn % 8:
            self.trace()
            return
        if not self.functions:
            text = whole(f"{self.tracing}/available_filter_functions").decode()
            self.functions = [name for name in text.splitlines() if " " not in name]
        match random.randrange(7):
            case 0 | 1:
                self.list()
            case 2 | 3 if len(self.own) < MOST:
                self.add()
            case 2 | 3 | 4 if self.own and random.randrange(2):
                self.delete()
            case _ if self.own:
                event = random.choice(sorted(self.own))
                self.own[event] = not self.own[event]
                path = f"{self.tracing}/events/{GROUP}/{event}/enable"
                switch(path, b"%d" % self.own[event])
            case _:
                self.add()

    def add(self) -> None:
        """Add an event at any function."""
        event = f"m{self.number}_{self.turn}"
        text = f"p:{GROUP}/{event} {random.choice(self.functions)}\n"
        # not all take a probe: EINVAL; some names stand for several: EADDRNOTAVAIL
        with contextlib.suppress(OSError):
            write(f"{self.tracing}/kprobe_events", text.encode(), os.O_APPEND)
            self.own[event] = False

    def delete(self) -> None:
        """Delete the oldest event of this client."""
        event = next(iter(self.own))
        if self.own.pop(event):
            write(f"{self.tracing}/events/{GROUP}/{event}/enable", b"0")
        text = f"-:{GROUP}/{event}\n"
        write(f"{self.tracing}/kprobe_events", text.encode(), os.O_APPEND)
        assert not os.path.exists(f"{self.tracing}/events/{GROUP}/{event}/enable")


KINDS = ("toggle", "event", "list", "trace")
ALL_KINDS = (*KINDS, "head", "several")


def client(top: str, number: int, kind: str, end: float) -> dict[str, object]:
    """Do one thing once, and again and again until the time is ``end``."""
    random.seed(number)
    do: Callable[[], object] = getattr(Client(top, number), kind)
    count, total, slowest = 0, 0.0, 0.0
    while (began := time.monotonic()) < end or not count:
        try:
            do()
        except (OSError, AssertionError) as error:
            return {"kind": kind, "wrong": f"{kind} {number}: {error!r}"}
        taken = time.monotonic() - began
        count, total, slowest = count + 1, total + taken, max(slowest, taken)
    return {"kind": kind, "count": count, "total": total, "slowest": slowest}


# ---- the run
def peak_memory(pid: int) -> float:
    """Return the most memory that a process ever had, in MB."""
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB$", text, re.M)
    assert found
    return int(found[1]) / 1024


def define(top: Path, toggled: int, *, settled: bool) -> None:
    """Define the events that are toggled, and those that stay enabled."""
    targets = TARGETS if settled else (FUNCTION,) * max(toggled, 1)
    lines = [f"p:{GROUP}/t{i} {name}\n" for i, name in enumerate(targets)]
    fixed = {f"f{i}": name for i, name in enumerate(SETTLED)} if settled else {}
    fixed |= {"calls": CALLED} if settled else {}
    lines += [f"p:{GROUP}/{event} {name}\n" for event, name in fixed.items()]
    write(f"{top}/tracing/kprobe_events", "".join(lines).encode(), os.O_APPEND)
    # the first event that is enabled makes the ring as large as it will be, which is
    # EBUSY while anybody reads trace, as on Linux
    for value in (b"1", b"0") if lines else ():
        write(f"{top}/tracing/events/{GROUP}/enable", value)
    for event in fixed:
        write(f"{top}/tracing/events/{GROUP}/{event}/enable", b"1")


def count_hits(top: Path) -> int:
    """Return how often the event at CALLED was hit; 0 if there is none."""
    for line in (top / "tracing/kprobe_profile").read_text().splitlines():
        name, hits, _ = line.split()
        if name == "calls":
            return int(hits)
    return 0


def undefine(top: Path) -> None:
    """Take away all that a run has left."""
    tracing = top / "tracing"
    for line in (tracing / "kprobe_events").read_text().splitlines():
        name = line.split()[0].partition(":")[2]
        if name.startswith(f"{GROUP}/"):
            write(f"{tracing}/events/{name}/enable", b"0")
            write(f"{tracing}/kprobe_events", f"-:{name}\n".encode(), os.O_APPEND)


def mixed(clients: int, kinds: Sequence[str] = KINDS) -> list[str]:
    """Return the kinds of so many clients, of each as many as of any other."""
    return [kinds[number % len(kinds)] for number in range(clients)]


def under_a_switch(clients: int, kind: str, callers: int = 0) -> list[str]:
    """Return the kinds of clients among which one turns a switch, by that kind.

    With ``disarm`` the others know that an enabled event may be disarmed.
    """
    toggle = "toggle_listed" if kind == "optimize" else "toggle_lax"
    kinds = [kind, *[toggle] * len(TARGETS), *["look"] * (clients // 6)]
    kinds += ["call"] * callers + ["event_listed"] * (callers // 2)
    return kinds + ["list"] * (clients - len(kinds))


def run(
    top: Path, kinds: Sequence[str], seconds: float = 10.0, *, settled: bool = False
) -> Report:
    """Have a client of each kind that is named use a mount.

    settled: events on other functions stay enabled meanwhile, and calls are counted.
    """
    numbers = [list(kinds[:i]).count(kind) for i, kind in enumerate(kinds)]
    define(top, sum(kind.startswith("toggle") for kind in kinds), settled=settled)
    command = [sys.executable, "-S", "-m", "tests.fuzz.load", "--client"]
    children = [
        subprocess.Popen(
            [*command, str(top), str(number), kind, str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        for number, kind in zip(numbers, kinds, strict=True)
    ]
    for child in children:
        assert child.stdout
        child.stdout.readline()  # it is ready
    for child in children:
        assert child.stdin
        child.stdin.write(b"\n")
        child.stdin.flush()
    raw: dict[str, list[tuple[int, float, float]]] = {name: [] for name in kinds}
    wrong = []
    for kind, child in zip(kinds, children, strict=True):
        try:
            said, _ = child.communicate(timeout=seconds + SPARE)
            seen = json.loads(said)
        except (subprocess.TimeoutExpired, ValueError) as error:
            child.kill()
            child.wait()
            wrong.append(f"{kind}: {error!r}")
            continue
        if "wrong" in seen:
            wrong.append(seen["wrong"])
        else:
            raw[seen["kind"]].append((seen["count"], seen["total"], seen["slowest"]))
    memory, hits = peak_memory(daemon_of(top)), count_hits(top)
    undefine(top)
    sums = {name: _sum(parts) for name, parts in raw.items()}
    return Report(seconds, sums, memory, hits, wrong)


def _sum(parts: list[tuple[int, float, float]]) -> Kind:
    count = sum(part[0] for part in parts)
    total = sum(part[1] for part in parts)
    slowest = max((part[2] for part in parts), default=0.0)
    fewest = min((part[0] for part in parts), default=0)
    return Kind(count, fewest, total / count if count else 0.0, slowest)


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
        report = run(place, mixed(arguments.clients, kinds), arguments.seconds)
        kpfs.finish()
    print("\n".join(report.lines()))
    return bool(report.wrong)


if __name__ == "__main__":
    sys.exit(main())
