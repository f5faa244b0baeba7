# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes over all writable files of a mount, half of them in the grammar of the file.

A write that is refused leaves all as it was, as far as the files show it.
"""

from __future__ import annotations

import errno
import os
import random
import signal
import sys
import tempfile
from pathlib import Path

from tests.campaign.hunt import Hunt, Part
from tests.campaign.mounted import Mounts, log_of
from tests.fuzz.fuzz import (
    BUGS,
    FLAGS,
    attempt,
    files,
    random_bytes,
    read_all,
    too_long,
)
from tests.fuzz.lines import KINDS
from tests.fuzz.mount_lines import DEFINING, LISTS, MountFuzzer
from tests.harness import WrongError

PER_MOUNT = 4000
LOOK_EVERY = 1000  # writes between two reads of all files; over a real kernel, twice it
PATIENCE = 20  # s for one write and what is looked at around it
LIVE = 4  # one in so many mounts has a guest with a life of its own
# what changes of itself, or with each line that is refused
RESTLESS = (
    *("trace", "snapshot", "kmsg", "error_log", "free_buffer", "stats"),
    "tracing_on",  # triggers switch it, and looking may hit them
)
# Real kernels compare each word with the names of all functions, in 70 ms, and have a
# list of those that were chosen, which takes as long to open if they are nearly all.
FUNCTIONS = "set_ftrace_filter"
SELDOM = 8  # times less often than other lines
FUNCTIONS_MAX = 100  # bytes
# Of a real kernel, which has some 10,000 files: elsewhere are more of the same kind, or
# switches that stop it (it divides by debug/sched/numa_balancing/scan_size_mb).
KERNEL_PLACES = (
    *("kprobes", "tracing", "machine", "sys/debug", "sys/kernel", "sys/net/core"),
    "debug/dynamic_debug",
)
# A work of the kernel tells watchers of tracing_max_latency of each snapshot: with one
# at each switch to another task there is always another one, and no rest.
ENDLESS = "/events/sched/", b"snapshot"


class Writes(MountFuzzer):
    """Writes of both kinds to one mount."""

    def __init__(self, mount: Path, seed: int, kernel: str = "") -> None:
        """Choose by the seed if the guest is quiet: its own hits would change files.

        kernel: name of a Linux kernel, which is always quiet.
        """
        super().__init__(mount, seed)
        self.quiet = bool(seed % LIVE or kernel)
        self.kernel = kernel
        self.places = KERNEL_PLACES if kernel else ("",)
        if kernel:
            often = [kind for kind in KINDS if kind != FUNCTIONS]
            self.kinds = [*often * SELDOM, FUNCTIONS]
        self.made: list[str] = []
        self.targets: list[str] = []

    def write(self, path: str, data: bytes) -> int | None:
        signal.alarm(PATIENCE)
        functions = self.kernel and path.endswith(FUNCTIONS)
        data = data[:FUNCTIONS_MAX] if functions else data
        if self.kernel and ENDLESS[0] in path and ENDLESS[1] in data:
            data = data.replace(ENDLESS[1], b"stacktrace")
        self.made.append(f"{path} {data!r}")
        made = super().write(path, data)
        if functions and (b"*" in data or b"!" in data):
            Path(self.path(path)).write_text("")  # O_TRUNC
            self.seen.clear()
        return made

    def send(self, fd: int, data: bytes) -> int:
        signal.alarm(PATIENCE)
        return super().send(fd, data)

    def compare(self, names: list[str]) -> None:
        if self.quiet:
            super().compare(names)

    def step(self, number: int) -> None:
        """One write, and now and then a look at everything."""
        signal.alarm(PATIENCE)
        if number % (2 * LOOK_EVERY if self.kernel else LOOK_EVERY) == 0:
            self.targets = []
            for place in self.places:
                signal.alarm(PATIENCE)
                read_all(self.path(place))
                self.targets += files(self.path(place), 0o222)
        if self.rng.random() < 0.5:
            self.one()
        else:
            self.any()
        if len(self.events()) > 2 * len(LISTS) and self.rng.random() < 0.01:
            signal.alarm(PATIENCE)
            self.clear()
        signal.alarm(0)

    def any(self) -> None:
        """Bytes into any file."""
        rng = self.rng
        path, data = rng.choice(self.targets), random_bytes(rng)
        flags = rng.choice(FLAGS)
        offset = rng.choice((0, 0, 0, 0, 0, 1, 4096, 1 << 40))
        name = os.path.relpath(path, self.mount)
        self.made.append(f"{name} {data!r} {flags:#o} {offset}")
        watched = self.comparable(name, flags) if self.quiet else []
        before = {each: self.remembered(each) for each in watched}
        if flags & os.O_TRUNC:  # opening alone has changed something
            self.seen.clear()
            self.known = []
        number = attempt(self.mount, name, data, flags, offset)
        word = errno.errorcode[number] if number else "ok"
        self.tally[word] = self.tally.get(word, 0) + 1
        several = b"\n" in data[:-1] or name.endswith(DEFINING)
        if number and not several:
            self.seen.pop(name, None)  # a filter says what was wrong
            for each, text in before.items():
                now = self.look_at(each)
                if now != text:
                    raise WrongError(f"{each}: {text!r:.1000} -> {now!r:.1000}")
        else:
            self.seen.clear()
            self.known = []

    def comparable(self, name: str, flags: int) -> list[str]:
        """Return the files to look at around a write with these flags."""
        watched = [self.look.choice(LISTS)]
        itself = os.path.basename(name) not in (*RESTLESS, "filter")
        if itself and self.readable(name):
            watched.append(name)
        # opening has emptied it, whatever becomes of the write
        return [] if flags & os.O_TRUNC else watched

    def readable(self, name: str) -> bool:
        """Return True if reading shows what it says, and it has not gone."""
        try:
            return bool(os.stat(self.path(name)).st_mode & 0o444) and "pipe" not in name
        except FileNotFoundError:
            return False

    def remembered(self, name: str) -> str:
        """Return the text of a file; that of a list may be as old as the last write."""
        if name not in LISTS:
            return self.look_at(name)
        if name not in self.seen:
            self.seen[name] = self.look_at(name)
        return self.seen[name]

    def look_at(self, name: str) -> str:
        """Return the text of a file, or the name of the errno of reading it."""
        try:
            return self.show(name)
        except OSError as error:
            if error.errno in BUGS:
                raise
            return errno.errorcode[error.errno or errno.EIO]


def options(seed: int, kernel: str = "") -> list[str]:
    """Return the options of the mount for the writes of a seed."""
    if kernel:
        return ["--kernel", kernel, "--quiet-guest"]
    words = [f"--cpus={random.Random(seed).randint(1, 4)}"]
    return [*words, "--quiet-guest"] if seed % LIVE else words


def run(hunt: Hunt) -> None:
    signal.signal(signal.SIGALRM, too_long)
    mounts = Mounts(hunt.scratch)
    while hunt.more():
        seed = hunt.rng.getrandbits(32)
        writes, target = None, None
        try:
            with mounts.new(*options(seed, hunt.kernel)) as target:
                writes = Writes(target, seed, hunt.kernel)
                for number in range(hunt.left(PER_MOUNT)):
                    if not hunt.more():
                        break
                    writes.step(number)
                    hunt.did()
                for place in writes.places:
                    signal.alarm(PATIENCE)
                    read_all(writes.path(place))
        except Exception as error:
            signal.alarm(0)
            made = writes.made if writes else []
            what = f"{error}\nafter {made[-1:]} of {len(made)} writes to a new mount"
            again = f"python -m tests.campaign.fuzz {seed} {hunt.kernel}".rstrip()
            log = [log_of(target)] if target else []
            hunt.finding(f"{what}\n{again}", *log, writes="\n".join(made))
        signal.alarm(0)
        if writes:
            for word, count in writes.tally.items():
                hunt.tally["taken" if word.endswith("ok") else "refused"] += count


def main() -> None:
    """Make the writes of a seed once more: what is wrong is raised."""
    seed, kernel = int(sys.argv[1]), "".join(sys.argv[2:])
    signal.signal(signal.SIGALRM, too_long)
    with tempfile.TemporaryDirectory() as folder:
        with Mounts(Path(folder)).new(*options(seed, kernel)) as target:
            writes = Writes(target, seed, kernel)
            for number in range(PER_MOUNT):
                writes.step(number)


PART = Part("writes", 1_000_000, 3, run, kernels=True)

if __name__ == "__main__":
    main()
