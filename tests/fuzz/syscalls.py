# SPDX-License-Identifier: GPL-2.0-or-later
"""Make random system calls in a guest.

Arguments are noise or nearly right; a call may fail, sleep or end its task, but the
guest must go on, without an oops, and its lists of free memory must stay sound.
"""

import random
import struct

from kpfs.base.errors import KernelError
from kpfs.guest.machine import Guest
from kpfs.guest.running.requests import BLOCKED
from tests.guest import tasks_of
from tests.harness import WrongError

TASKS = range(5000, 5004)  # pids of host processes
LOOK_EVERY = 200  # calls between looks at the guest's own state
IMPATIENCE = 3  # s of CPU time after which a call is a lockup
# it ends a task for good; so do the others, but they are worth it
RARE = ("exit", "exit_group")
WORDS = (
    *("/", ".", "..", "", "/tmp", "/tmp/a", "/tmp/b", "/tmp/d", "/tmp/d/e", "/etc"),
    *("/etc/passwd", "/proc/mounts", "/proc/self", "/proc/1/comm", "/tmp/a/b", "a"),
    *("/sys/kernel/debug/kprobes/list", "/proc/kallsyms", "//tmp//..//tmp/", "l"),
    *("/tmp/" + "n" * 255, "/tmp/" + "n" * 256, "/" * 5000, "x/" * 2047, "\xff\xfe"),
    *("/bin/cat", "/tmp/l", "/dev/null", "/proc/loadavg", "/sys", "/machine/syscall"),
)
EDGES = (
    *(0, 1, 2, 3, 4, 7, 8, 16, 23, 24, 63, 64, 65, 100, 255, 256, 1023, 1024, 4095),
    *(4096, 4097, 65535, 65536, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 1 << 32),
    *(0x7FFF_FFFF_FFFF_FFFF, 1 << 63, (1 << 63) - 4096, 1 << 62, 1 << 40, 1000000),
    *(-1, -2, -9, -100, -4096, 0o777, 0o100, 0o1000, 0o2000, 0o102, 0o1102, 0x10000),
)
POINTERS = (
    *(0, 1, 8, 0xFFF, 0x1000, 0x7FFF_FFFF_F000, 0x7FFF_FFFF_FFFF, 0x8000_0000_0000),
    *(0xFFFF_8880_0000_0000, 0xFFFF_8880_0100_0000, 0xFFFF_FFFF_8100_0000),
    *(0xFFFF_FFFF_8120_0000, 0xFFFF_FFFF_C000_0000, (1 << 64) - 1, 1 << 63),
)


class Fuzzer:
    """Makes random calls in a guest of its own."""

    def __init__(self, seed: int, guest: Guest) -> None:
        self.rng = random.Random(seed)
        self.guest = guest
        self.names = sorted(guest._syscall_numbers())
        self.fds = [0, 1, 2, 3]
        self.made = 0
        self.counts: dict[str, int] = {}
        self.log_seq = 0
        self.last = ""
        guest.cpus.watchdog.limit = IMPATIENCE

    def argument(self, task):
        """Return an argument that may be nearly right, or noise."""
        rng = self.rng
        kind = rng.random()
        if kind < 0.25:
            return rng.choice(self.fds[-8:])
        if kind < 0.45:
            return rng.choice(WORDS)
        if kind < 0.65:
            return rng.choice(EDGES)
        if kind < 0.75:
            return task.buffer + rng.choice((0, 0, 0, 1, 8, 4096, 65535, 1 << 20))
        if kind < 0.85:
            return self.structure()
        if kind < 0.92:
            return rng.choice(POINTERS) + rng.choice((0, 0, 1, -8))
        return rng.getrandbits(rng.choice((8, 16, 32, 64)))

    def structure(self) -> bytes:
        """Return the bytes of a structure that a call may read."""
        rng = self.rng
        words = [
            rng.choice((0, 0, 1, rng.choice(EDGES), rng.choice(POINTERS)))
            for _ in range(rng.choice((1, 2, 4, 11, 13, 16)))
        ]
        return b"".join(struct.pack("<Q", w & (1 << 64) - 1) for w in words)

    def one(self) -> None:
        """Have one of the tasks make a random call."""
        rng, guest = self.rng, self.guest
        name = rng.choice(self.names)
        if name in RARE and rng.random() < 0.9:
            name = "getpid"
        task = guest.host_tasks.of_process(
            rng.choice(TASKS), rng.choice((0, 0, 1000)), "fuzz", 1
        )
        arguments = [self.argument(task) for _ in range(rng.randrange(7))]
        self.last = f"{name}{tuple(arguments)!r:.300}"
        try:
            value = guest.syscalls.call(task, name, *arguments)
        except KernelError as refused:
            value = -refused.errno
        if name in ("open", "openat", "creat", "dup", "dup2", "fcntl") and value >= 0:
            self.fds.append(value)
        self.made += 1
        kind = "ok" if value >= 0 else "asleep" if value == BLOCKED else "errno"
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if task.gone:
            self.counts["task ended"] = self.counts.get("task ended", 0) + 1

    def look(self) -> None:
        """Raise WrongError if the guest has logged a bug or lost memory or tasks."""
        guest = self.guest
        records = guest.log.records(self.log_seq)
        for record in records:
            self.log_seq = record.seq + 1
            text = record.text.decode("latin-1")
            if text.startswith(("BUG", "Oops", "watchdog", "WARNING", "slab error")):
                lines = [r.text.decode("latin-1") for r in records]
                at = lines.index(text)
                raise WrongError("\n".join(lines[at : at + 30]))
        checks = (("validate_slab_caches", 0), ("validate_free_area", 1))
        for check, sound in checks:
            if guest.call(guest.kallsyms.lookup_name(check)[0].addr) & 0xFF != sound:
                raise WrongError(check)
        pids = [task.pid for task in tasks_of(guest)]
        if len(pids) != len(set(pids)) or 1 not in pids:
            raise WrongError(f"tasks {pids}")
        if guest.syscalls.call(guest.requests.init(), "getpid") != 1:
            raise WrongError("init")

    def run(self, calls: int, look_every: int = LOOK_EVERY) -> None:
        """Make so many calls; WrongError names the last one before it was seen."""
        try:
            for number in range(calls):
                self.one()
                if number % look_every == 0:
                    self.look()
            self.look()
        except Exception as error:
            raise WrongError(f"call {self.made}, {self.last}: {error}") from error
