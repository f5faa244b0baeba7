# SPDX-License-Identifier: GPL-2.0-or-later
"""Guest code that means harm: tests/modules/hostile.c with wild parameters.

The guest may die of it; the process that it runs in may not, nor touch memory outside
the guest's, nor take what the guest has damaged for a fault of its own.
"""

from __future__ import annotations

import contextlib
import random
from functools import partial
from pathlib import Path

from kpfs.base import abi
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import Caller
from kpfs.guest.emu import memory
from tests.campaign.guard import guard
from tests.campaign.hunt import Hunt, Part
from tests.campaign.seeds import Seeds, hunt_with
from tests.modbox import Box, build

PER_CHILD = 40
PER_GUEST = 8  # that do not kill it
PATIENCE = 300  # s for that many, on a machine that others use too
FIRST_PID = 1 << 23  # pid of a process that the host does not have
MARK = b"JUNK BEGINS HERE"
JUNK = len(MARK) + 240  # bytes
FILES = (
    *("kprobes/list", "modules", "kallsyms", "machine/stats", "machine/text/vfs_read"),
    *("tracing/trace", "tracing/kprobe_profile", "tracing/kprobe_events"),
    *("tracing/per_cpu/cpu0/stats", "tracing/saved_cmdlines", "kprobes/blacklist"),
)
MASK64 = (1 << 64) - 1
RAM_END = abi.DIRECT_MAP + memory.RAM_SIZE
ALL_END = RAM_END + memory.AREA_SIZE + memory.USER_MAP_SIZE
EDGES = (
    *(0, 1, 7, 0xFFF, 0x1000, MASK64, MASK64 - 7, 1 << 63, (1 << 63) - 1, 1 << 47),
    *(abi.DIRECT_MAP, abi.DIRECT_MAP - 8, RAM_END, RAM_END - 4, ALL_END, ALL_END - 1),
    *(memory.KERNEL_MAP, abi.TEXT_BASE, abi.TEXT_BASE + 0x200000, memory.AREA_END),
    *(abi.MODULE_BASE, abi.MODULE_BASE - 1, memory.AREA_END - 4, memory.AREA_END - 1),
    *(abi.USER_BASE, memory.USER_END, memory.USER_END - 1, abi.USER_BASE - 1),
)
LENGTHS = (
    0,
    1,
    8,
    100,
    4096,
    1 << 16,
    1 << 20,
    1 << 31,
    (1 << 32) - 1,
    1 << 63,
    MASK64,
)
CALLS = (*range(4), *range(0x10, 0x14), *range(0x20, 0x24), *range(0x30, 0x34))
CALLS = (*CALLS, *range(0x40, 0x4A), *range(0x100, 0x105), 0x200, 0x210, 0x7F, MASK64)
HYPERCALLS = (*range(0x10, 0x19), *range(0x20, 0x26), *range(0x30, 0x34), 0x60)
IMAGE = 8 << 20  # bytes of RAM with the kernel's image and what it allocates first


class Case:
    """One misuse for one load of the module, chosen at random."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.what, make = rng.choice(list(KINDS.items()))
        self.words = make(self)

    def parameters(self) -> str:
        words = zip("abcd", self.words, strict=False)
        return " ".join(
            [f"what={self.what}", *(f"{n}={v & MASK64:#x}" for n, v in words)]
        )

    def address(self) -> int:
        rng = self.rng
        kind = rng.random()
        if kind < 0.4:
            return rng.choice(EDGES) + rng.choice((0, 0, 0, 1, -1, 8, -8, 4096))
        start, size = rng.choice(
            (
                (abi.DIRECT_MAP, memory.LOW_SIZE),
                (abi.DIRECT_MAP, ALL_END - abi.DIRECT_MAP),
                (abi.DIRECT_MAP + (16 << 20), IMAGE),
                (abi.MODULE_BASE, 2 << 20),
                (abi.TEXT_BASE, IMAGE),
                (abi.USER_BASE, memory.USER_MAP_SIZE),
                (0, 1 << 48),
                (0, 1 << 64),
            )
        )
        return start + rng.randrange(size)

    def length(self) -> int:
        return self.rng.choice(LENGTHS) + self.rng.choice((0, 0, 1, -1))

    def value(self) -> int:
        rng = self.rng
        some = rng.choice(LENGTHS), self.address(), rng.getrandbits(64)
        return rng.choice((*some, rng.randrange(300)))

    def port(self) -> int:
        rng = self.rng
        usual = (rng.choice(HYPERCALLS), rng.randrange(256), rng.randrange(1 << 16))
        return rng.choice(usual)

    def entry(self) -> int:
        """Return a value for an entry of a page table."""
        rng = self.rng
        flags = rng.choice((1, 3, 7, 0x63, 0xE3, 0x83, 1 << 63 | 0x63, 0xFFF))
        page = rng.choice(
            (0, 0x1000, rng.getrandbits(36) << 12, rng.randrange(1 << 16) << 12)
        )
        return page | flags

    def poke(self) -> tuple[int, ...]:
        rng = self.rng
        if rng.random() < 0.6:  # page tables
            return abi.DIRECT_MAP + rng.randrange(
                memory.LOW_SIZE // 8
            ) * 8, self.entry()
        return self.address(), self.value()

    def scribble(self) -> tuple[int, ...]:
        """Overwrite some pages, or a few words of many pages."""
        size = self.rng.choice((64, 4096, 1 << 16, 1 << 20))
        return self.address() & ~7, size, 0, self.rng.choice((1, 1, 61, 509))


Words = tuple[int, ...]
KINDS = {
    "out": lambda c: (c.port(), c.value(), c.rng.choice((1, 2, 4))),
    "in": lambda c: (c.rng.randrange(1 << 16),),
    "string": lambda c: (
        c.port(), c.address(), c.rng.choice((0, 1, 10, 5000)), c.rng.randrange(2),
    ),
    "control": lambda c: (
        c.rng.choice(CALLS), c.value(), c.value(), c.rng.choice((0, 1, 7, c.value())),
    ),
    "registers": lambda c: (c.port(), c.value(), c.address(), c.value()),
    "poke": Case.poke,
    "peek": lambda c: (c.address(),),
    "scribble": Case.scribble,
    "system": lambda c: (
        c.rng.randrange(18), c.value(), c.rng.choice((0, 0xC0000080, c.value())),
    ),
    "stack": lambda c: (c.address(), c.rng.randrange(7), c.address()),
    "jump": lambda c: (c.address(),),
    "trap": lambda c: (c.rng.randrange(256),),
    "junk": lambda c: (),
    "overflow": lambda c: (),
    "probe": lambda c: (c.rng.randrange(3), c.value(), c.rng.randrange(16), c.value()),
    "batch": lambda c: (c.rng.randrange(6), c.address(), c.value()),
}  # fmt: skip


def junk(rng: random.Random) -> bytes:
    """Instructions, many of which mean something."""
    some = bytes.fromhex(
        "0f010f000f300f320f200f22f4f4eeefe6e7cccdcf9dfff0f36548"
        "8e8e0f050f340fae0f0bc8c862c56766fbfa"
    )
    return bytes(
        rng.choice(some) if rng.random() < 0.3 else rng.randrange(256)
        for _ in range(JUNK)
    )


class Victim(Seeds):
    """A guest that such modules are loaded into."""

    def __init__(self, module: bytes, path: Path, at: int) -> None:
        guard()
        self.module = module
        self.pid = FIRST_PID
        self.survived = 0
        super().__init__(path, at)

    def boot(self, rng: random.Random) -> Box:
        box = self.impatient(Box(rng.randint(1, 3)))
        self.survived = 0
        if rng.random() < 0.5:
            box.write(
                "/tracing/kprobe_events", "p:e vfs_read\nr:r vfs_read\np:i vfs_read+5\n"
            )
            box.write("/tracing/events/kprobes/enable", "1\n")
        return box

    def load(self, rng: random.Random) -> str:
        if self.box.kernel.syscalls.dead or self.survived >= PER_GUEST:
            with contextlib.suppress(KernelError):
                self.box.close()
            self.box = self.boot(rng)
        case = Case(rng)
        at = self.module.index(MARK)
        code = junk(rng)
        self.path.write_bytes(self.module[:at] + code + self.module[at + JUNK :])
        self.last = f"{case.parameters()} {code.hex() if case.what == 'junk' else ''}"
        self.as_another(lambda: self.box.insmod(self.path, case.parameters()))
        self.as_another(lambda: self.box.rmmod("hostile"))
        for name in rng.sample(FILES, 5):
            self.as_another(partial(self.read, f"/{name}"))
        self.as_another(lambda: self.box.write("/tracing/events/enable", "0\n"))
        dead = self.box.kernel.syscalls.dead
        self.survived += 1
        return "dead guests" if dead else "survived"

    def read(self, path: str) -> None:
        with contextlib.suppress(UnicodeDecodeError):
            self.box.read(path)

    def as_another(self, function: object) -> None:
        """Have a new process do something; a refusal is fine."""
        assert callable(function)
        self.pid += 1
        self.box.caller = Caller(self.pid, 0, 0)
        with contextlib.suppress(KernelError):
            function()


def run(hunt: Hunt) -> None:
    module = build("hostile").read_bytes()
    hunt_with(partial(Victim, module), hunt, PER_CHILD, PATIENCE)


PART = Part("hostile loads", 5_000, 1.5, run)
