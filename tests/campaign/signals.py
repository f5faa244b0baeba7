# SPDX-License-Identifier: GPL-2.0-or-later
"""Each command with each signal that is to end it, at any moment from 0 to its end.

It ends at once, by that signal or as if none had come. It says nothing of its inside,
leaves no process, mount or half of a file, and writes what it had collected. A disk
that is full and a reader that reads no further are tried, too.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench.command import KPFS
from kpfs.base.signals import ENDING
from kpfs.host import mounts
from tests import harness
from tests.campaign import processes
from tests.campaign.hunt import Hunt, Part
from tests.harness import WrongError

SOON = 20.0  # s until all has ended, on a machine that others use too
PATIENCE = 120.0  # s for a command to which nothing happens
FULL, CLOSED = "a full disk", "a closed pipe"
MAKE = "kernel make"
EVENTS = (*ENDING, FULL, CLOSED)
RECORDS = 'cat /etc/passwd >/dev/null; : >"$0"; exec sleep 1'
# of Python, which has a handler of SIGINT before it reads our first line
ITS_START = re.compile(
    r"(Traceback.*|  File .*__main__.py.*|  \S.*|.*KeyboardInterrupt)"
)


class Try(NamedTuple):
    """One command, and what must hold of its files when it has ended."""

    words: list[str]
    check: Callable[[Path], None] = lambda _folder: None


def whole_records(folder: Path) -> None:
    """Check a recording of a command that had begun."""
    out = folder / "out.jsonl"
    if not (folder / "begun").exists():
        return
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    if not any(row.get("file") == "/etc/passwd" for row in rows):
        raise WrongError(f"the recording is lost: {len(rows)} rows")


def whole_or_none(name: str, most: int = 0) -> Callable[[Path], None]:
    """Return a check that a file is there as a whole, or not at all."""

    def check(folder: Path) -> None:
        others = {path.name for path in folder.iterdir()} - {name, "log", "begun"}
        others -= {f"kpfs-{os.getuid()}"}  # the sockets of this user
        if others:
            raise WrongError(f"left behind: {others}")
        if (folder / name).exists() and (folder / name).stat().st_size < most:
            raise WrongError(f"half of {name}")

    return check


class Signals:
    """Makes the tries, each in a new folder."""

    def __init__(self, hunt: Hunt) -> None:
        self.hunt = hunt
        self.rng = hunt.rng
        self.kernel = "" if harness.missing_kernels(harness.KERNEL) else harness.KERNEL
        self.took: dict[str, float] = {}  # s, of commands to which nothing happened
        self.mounted = hunt.scratch / "mounted"
        self.mounted.mkdir()
        self.said = ""

    def table(self, folder: Path) -> dict[str, Try]:
        """Return all commands."""
        log, traced = ["--log", str(folder / "log")], ["-e", "p:e do_sys_openat2 file="
        "+0(%si):ustring"]  # fmt: skip
        record = ["sh", "-c", RECORDS, str(folder / "begun")]
        out = ["-o", str(folder / "out.jsonl")]
        core = str(folder / "core")
        found = {
            "run": Try(["run", *log, "--", *record]),
            "run --coverage": Try(
                ["run", *log, "--coverage", str(folder / "reached"), "--", *record]
            ),
            "trace": Try(["trace", *log, *traced, *out, "--", *record], whole_records),
            "mount": Try(["mount", *log, str(self.mounted)]),
            "doctor": Try(["doctor", "--json"]),
            "explain": Try(["explain", "vfs_read"]),
            "completion": Try(["completion", "bash"]),
            "kernel list": Try(["kernel", "list"]),
        }
        if not self.kernel:
            return found
        linux, archive = ["--kernel", self.kernel], str(folder / "x.kpfs")
        inside = ["run", *linux, "--inside", "--", *record[:2], "exec sleep 1"]
        found |= {
            "trace, a Linux kernel": Try(
                ["trace", *log, *linux, *traced, *out, "--", *record], whole_records
            ),
            "run --inside": Try(inside),
            "matrix": Try(["matrix", "--kernels", self.kernel, "--", "sleep", "0.5"]),
            "kernel export": Try(
                ["kernel", "export", self.kernel, archive],
                whole_or_none("x.kpfs", 1 << 20),
            ),
            MAKE: Try(["kernel", "make", "x", "--deb", str(folder / "fifo")]),
            "dump": Try(
                ["run", *log, *linux, "--", str(KPFS), "dump", core],
                whole_or_none("core", 1 << 20),
            ),
        }
        return found

    def one(self) -> str:
        """Make a try; return its name. Raises WrongError."""
        folder = self.hunt.scratch / f"try{self.hunt.done}"
        folder.mkdir()
        name, each = self.rng.choice(list(self.table(folder).items()))
        event = self.rng.choice(EVENTS)
        if name == MAKE:  # it waits for the package until it is told to end
            os.mkfifo(folder / "fifo")
            event, self.took[name] = self.rng.choice(ENDING), 1.0
        if name not in self.took:  # to know when its end is
            begin = time.monotonic()
            self.start(each, folder, None).communicate(timeout=PATIENCE)
            self.took[name] = time.monotonic() - begin
            self.clear(folder)
        if event in (FULL, CLOSED):
            self.said = f"{name}: {event}"
            child = self.start(each, folder, str(event))
        else:
            at = self.rng.random() ** 2 * self.took[name]  # the start is as long
            to_group = self.rng.random() < 0.5
            self.said = f"{name}: {event!r} at {at:.4f} s, group: {to_group}"
            child = self.start(each, folder, None)
            time.sleep(at)
            try:
                (os.killpg if to_group else os.kill)(child.pid, int(event))
            except ProcessLookupError:
                pass
        self.judge(each, child, event)
        self.clear(folder)
        each.check(folder)
        return name

    def start(
        self, each: Try, folder: Path, event: str | None
    ) -> subprocess.Popen[str]:
        environment = {**os.environ, "XDG_DATA_HOME": str(harness.kernels())}
        environment["TMPDIR"] = str(folder)
        environment["KPFS_WARM"] = self.rng.choice(("0", processes.WARM))
        if "make" in each.words:
            environment["XDG_DATA_HOME"] = str(self.hunt.scratch / "data")
        out = open("/dev/full", "w") if event == FULL else subprocess.PIPE
        child = subprocess.Popen(
            [str(KPFS), *each.words], stdout=out, stderr=subprocess.PIPE, text=True,
            errors="replace", env=environment, stdin=subprocess.DEVNULL, cwd=folder,
            start_new_session=True,
        )  # fmt: skip
        if event == CLOSED and child.stdout:
            child.stdout.close()
            child.stdout = None
        return child

    def judge(
        self, each: Try, child: subprocess.Popen[str], event: signal.Signals | str
    ) -> None:
        """Raise WrongError unless it ends soon, as it should."""
        patience = PATIENCE if isinstance(event, str) else SOON
        try:
            _, err = child.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            raise WrongError(f"it does not end within {patience} s") from None
        status = child.returncode
        if "Traceback" in err and not self.is_of_pythons_start(err):
            raise WrongError(f"a traceback, status {status}: {err[-2000:]}")
        fine = {0, 1, 2, 141, -signal.SIGPIPE}
        if not isinstance(event, str):
            fine |= {-event, 128 + event}
        if status not in fine:
            raise WrongError(f"status {status}: {err[-2000:]}")

    def is_of_pythons_start(self, err: str) -> bool:
        """Return True if Ctrl-C came before our first line was run."""
        own = all(ITS_START.fullmatch(line) for line in err.splitlines() if line)
        early = own and "KeyboardInterrupt" in err
        self.hunt.tally["in Python's start"] += early
        return early

    def clear(self, folder: Path) -> None:
        """Raise WrongError unless all has ended; a mount may have come in time."""
        for entry in list(mounts.table()):
            if entry.target == str(self.mounted):
                done = harness.run(KPFS, "umount", entry.target, timeout=PATIENCE)
                if done.returncode:
                    raise WrongError(f"umount: {done.stderr}")
        if left := processes.linger(SOON, self.hunt.others):
            raise WrongError(f"left behind: {processes.told(left)}")
        made = self.hunt.scratch / "data/kpfs/kernels"
        if made.exists() and os.listdir(made):
            raise WrongError(f"left behind: {os.listdir(made)}")
        if left_files := [p.name for p in folder.glob("kpfs-?*-*")]:
            raise WrongError(f"left behind: {left_files}")


def run(hunt: Hunt) -> None:
    signals = Signals(hunt)
    hunt.each(signals.one, lambda: signals.said)


PART = Part("signals", 400, 1.5, run)
