# SPDX-License-Identifier: GPL-2.0-or-later
"""Random changes of the memory that a Linux kernel shares with kpfs, and of its own.

A root of the kernel can write to both.  Between any two steps of the machine words of
the region are changed, and words of the kernel's lists, while requests go on and kpfs
looks into the kernel's memory.  The kernel may die; another one in the same process
goes on.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import gc
import os
import random
import struct
from collections.abc import Callable
from pathlib import Path

from kpfs.backends.linux.machine_info import LinuxMachineInfo
from kpfs.backends.linux.records import records
from kpfs.backends.linux.tree import LinuxEntry, LinuxTree, OwnFiles
from kpfs.base import abi, pagemap
from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError, MemoryFault
from kpfs.base.ktypes import Caller
from kpfs.base.units import PAGE_SIZE
from kpfs.linux.running import machine
from kpfs.linux.running.files import OpenFiles
from kpfs.linux.running.linux_kernel import LinuxKernel
from kpfs.linux.running.machine import FINALLY, STOP, Op, Out, Result
from kpfs.linux.running.tasks import AgentTask
from tests.campaign.attack import Attack
from tests.campaign.hunt import Hunt, Part
from tests.campaign.seeds import hunt_with
from tests.harness import KERNEL, WrongError, kernels

PER_CHILD = 200  # which are some 1,000,000 changes
PER_SHORT_CHILD = 10  # in a campaign that goes by the clock
PATIENCE = 7200  # s for that many, on a machine that others use too
IMPATIENT = 5  # turns of a request, each of 20 ms of the kernel's time; else 953
REQUESTS = 150  # to one machine, before it starts anew
SIZE = 4096
FIRST_PID = 4_100_000
EDGES: tuple[int, ...] = (
    0,
    1,
    2,
    3,
    24,
    25,
    255,
    511,
    512,
    4095,
    4096,
    0x22000,
    0x22001,
    1 << 31,
)
EDGES = (*EDGES, (1 << 32) - 1, 1 << 63, (1 << 63) - 1, (1 << 64) - 1, (1 << 64) - 4096)
EDGES = (*EDGES, (1 << 64) - 11, 0xFFFF888000000000, 0xFFFFFFFF81000000)
HEADS: tuple[str, ...] = (
    "modules",
    "ftrace_trace_arrays",
    "dyn_event_list",
    "ftrace_events",
    "prb",
)
HEADS = (*HEADS, "kprobe_table", "ftrace_pages_start", "vmcoreinfo_data", "nr_cpu_ids")
PATHS = (
    *("/proc/version", "/proc/kallsyms", "/sys/kernel/tracing/trace", "/proc/modules"),
    *("/sys/kernel/tracing/kprobe_events", "/sys/kernel/debug/kprobes/list"),
)
ENTRIES: tuple[str, ...] = (
    "/tracing",
    "/tracing/events",
    "/kprobes/list",
    "/tracing/trace",
    "/kallsyms",
)
ENTRIES = (
    *ENTRIES,
    "/machine/probes",
    "/machine/text/vfs_read",
    "/proc/self",
    "/version",
)


def word(rng: random.Random) -> int:
    value = rng.choice(EDGES) if rng.random() < 0.7 else rng.getrandbits(64)
    return (value + rng.choice((0, 0, 1, -1))) % (1 << 64)


class Changes:
    """Changes memory before each step of a machine."""

    def __init__(self, kernel: LinuxKernel, rng: random.Random) -> None:
        self.kernel, self.rng = kernel, rng
        # before a step they mostly kill the kernel; behind it kpfs alone sees them
        self.before = rng.choice((0, 0, 0, 1, 5, 40))
        self.behind = rng.choice((0, 1, 5, 50, 500))
        self.of_kernel = rng.choice((0.0, 0.0, 0.1))  # in how many steps
        self.made = 0

    def attach(self) -> None:
        """Change this machine from now on; who waits for it gets a signal at once."""
        attacked, tasks = self.kernel.machine, self.kernel.tasks

        def interrupt(task: AgentTask) -> None:
            tasks.interrupt(task)
            if task.waits:
                raise KernelError(errno.EINTR, "a signal")

        tasks._await = interrupt  # type: ignore[method-assign]
        step = attacked.step

        def changed() -> int:
            for _ in range(self.before):
                self.change()
            if self.rng.random() < self.of_kernel:
                self.change_kernel()
            why = step()
            for _ in range(self.behind):
                self.change(answers=True)
            return why

        attacked.step = changed  # type: ignore[method-assign]

    def change(self, *, answers: bool = False) -> None:
        """Change a word.  answers: of those that the kernel itself writes."""
        rng, region = self.rng, self.kernel.machine.region
        kind = rng.choice((0.6, 0.6, 0.9)) if answers else rng.random()
        slot = rng.choice((0, 0, 1, 1, 2, 3, 511, rng.randrange(abi.NR_SLOTS)))
        base = abi.SLOTS_AT + slot * abi.SLOT_SIZE
        if kind < 0.2:
            at = rng.randrange(0, 32 + abi.NR_SLOTS // 8, 8)  # struct agent_control
        elif kind < 0.5 or (answers and rng.random() < 0.05):
            at = base + 8 if answers else base + rng.choice((0, 8, 16, 24, 32, 40, 48))
        elif kind < 0.85:
            op = (
                base
                + abi.AgentSlot.ops
                + rng.choice((0, 0, 1, 2, 23)) * abi.AgentOp.SIZE
            )
            others = () if answers else range(0, 72, 8)
            at = op + rng.choice((abi.AgentOp.ret,) * 4 + (*others,))
        elif kind < 0.95:
            at = base + abi.SLOT_DATA + rng.randrange(0, 2 * SIZE, 8)
        else:
            at = rng.randrange(abi.REGION_SIZE - 8)
        region[at : at + 8] = struct.pack("<Q", word(rng))
        self.made += 1

    def change_kernel(self) -> None:
        """Change what kpfs reads out of the kernel's memory."""
        rng, kernel = self.rng, self.kernel
        symbols = kernel.symbols.lookup_name(rng.choice(HEADS))
        if symbols:
            at = symbols[0].addr + rng.randrange(0, max(symbols[0].size, 8), 8)
            for _ in range(rng.choice((0, 0, 0, 1, 2))):  # into the lists
                with contextlib.suppress(MemoryFault):
                    at = kernel.memory.word(at) + rng.randrange(-64, 512, 8)
            value = word(rng) if rng.random() < 0.6 else at + rng.choice((0, 8, -8, 64))
            with contextlib.suppress(MemoryFault):
                kernel.memory.write(at, struct.pack("<Q", value % (1 << 64)))
            self.made += 1


class RegionAttack(Attack):
    """Attacks one kernel of a process, and looks at another."""

    def __init__(self, name: str, path: Path, at: int) -> None:
        super().__init__(path, at)
        machine.MAX_TURNS = IMPATIENT
        self.kernel = LinuxKernel(name, quiet=True)
        self.other = LinuxKernel(name, quiet=True)
        self.info = LinuxMachineInfo(self.kernel, lambda _pid: b"")
        own = OwnFiles(self.kernel, self.info)
        self.tree = LinuxTree(self.kernel, OpenFiles(self.kernel), own)
        self.pid = FIRST_PID
        self.made = 0

    def one(self, rng: random.Random) -> str:
        kernel = self.kernel
        with kernel.lock:
            kernel.reboot()
        gc.collect()  # the machine before refers to itself by what Changes has put in
        changes = Changes(kernel, rng)
        self.pid += 1
        self.attempt(lambda: self.system_calls(rng))
        changes.attach()
        kinds: tuple[Callable[[], object], ...] = (
            lambda: self.system_calls(rng),
            lambda: self.system_calls(rng),
            lambda: self.look(rng),
            lambda: self.through_the_mount(rng),
        )
        for _ in range(REQUESTS):
            kind = rng.choice(kinds)
            self.attempt(kind)
            if kernel.machine.dead:
                break
        self.attempt(lambda: self.look(rng))
        self.look_at_the_other()
        self.tally["changes"] += changes.made
        return "dead kernels" if kernel.machine.dead else "living kernels"

    def close(self) -> None:
        first, most = self.first >> 20, self.most >> 20
        self.tally[f"process that grew from {first} to {most} MB"] = 1

    def used(self) -> int:
        boards = [kernel.machine.board for kernel in (self.kernel, self.other)]
        pages = sum(
            end - first
            for board in boards
            for first, end in pagemap.runs(
                board.ram_address, len(board.ram), pagemap.POPULATED
            )
        )
        return super().used() - pages * PAGE_SIZE

    def attempt(self, action: Callable[[], object]) -> None:
        """Do something; a refusal is fine, if the errno is one that Linux knows."""
        try:
            action()
        except KernelError as error:
            if not 0 < error.errno <= 4095:
                raise WrongError(f"errno {error.errno}") from error

    def system_calls(self, rng: random.Random) -> None:
        """Make some calls of a task, which may not wait."""
        kernel = self.kernel
        path = rng.choice(PATHS).encode() + b"\0"
        ops = [
            Op(nr.OPENAT, (nr.AT_FDCWD, path, os.O_RDONLY, 0), STOP),
            Op(nr.READ, (Result(0), Out(SIZE), SIZE)),
            Op(nr.CLOSE, (Result(0),), FINALLY),
        ]
        with kernel.lock:
            tasks = kernel.tasks
            task = tasks.task(Caller(self.pid, 0, 0))
            places = kernel.tasks.begin(task, ops)
            if task.waits:
                tasks.interrupt(task)
            if task.waits:
                tasks.kill(task)
                return
            results = kernel.machine.results(task.slot, len(ops))
            if results[1] > 0 and len(places) > 1:
                with contextlib.suppress(KernelError):
                    data = kernel.machine.data(task.slot, places[1], results[1])
                    assert len(data) == results[1]

    def look(self, rng: random.Random) -> None:
        """Read structures out of its memory."""
        kernel, info = self.kernel, self.info
        looks: tuple[Callable[[], object], ...] = (
            kernel.dmesg, kernel.modules, info.probes, info.functions,
            lambda: info.functions_named("vfs_read"),
            lambda: records(kernel) if not kernel.machine.dead else None,
            info.stats, kernel.watch.update,
        )  # fmt: skip
        with kernel.lock:
            rng.choice(looks)()

    def through_the_mount(self, rng: random.Random) -> None:
        """Use files as the daemon does."""
        tree, caller = self.tree, Caller(self.pid, 0, 0)
        entry = LinuxEntry(rng.choice(ENTRIES))
        kind = rng.randrange(4)
        if kind == 0:
            tree.attributes(self.pid, entry)
        elif kind == 1:
            tree.read_link(self.pid, entry)
        elif kind == 2:
            tree.entries(self.pid, entry)
        else:
            file = tree.open(caller, entry, os.O_RDONLY)
            try:
                for at in range(0, 4 * SIZE, SIZE):
                    if len(tree.read(caller, file, SIZE, at)) > SIZE:
                        raise WrongError("more was read than was asked for")
            finally:
                tree.release(file)

    def look_at_the_other(self) -> None:
        """The kernel that nobody attacks still works."""
        with self.other.lock:
            if b"Linux version" not in self.other.tasks.read_file("/proc/version"):
                raise WrongError("the other kernel has suffered")


def run(hunt: Hunt) -> None:
    if not hunt.kernel:
        os.environ["XDG_DATA_HOME"] = str(kernels())
    make = functools.partial(RegionAttack, hunt.kernel or KERNEL)
    per_child = PER_SHORT_CHILD if hunt.short else PER_CHILD
    hunt_with(make, hunt, per_child, PATIENCE)


PART = Part("machines", 400, 2, run, kernels=True)
