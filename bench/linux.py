# SPDX-License-Identifier: GPL-2.0-or-later
"""The costs of a Linux kernel in place of the guest kernel."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import sleep, thread_time

from bench import mirror, qemu_kernel
from bench.command import Command, NotHereError
from bench.row import Group, Row, least, medians, seconds
from kpfs.base import syscall_numbers as nr
from kpfs.base.ktypes import Caller
from kpfs.linux.distribution import distributions, fetch
from kpfs.linux.running.linux_kernel import LinuxKernel
from kpfs.linux.running.machine import FINALLY, STOP, Op, Out, Result
from kpfs.linux.store import image, store

GETPPID = 110
PID = 4_000_000  # pid of a task that stands for no process
CALLS = 20  # calls of one request
REQUESTS = 20  # requests of one measurement
OPENS = 200
MAKE_TIMEOUT = 300  # s
# a tool, and what it does
TOOLS = (
    ("bpftrace", "bpftrace -e 'BEGIN { exit(); }'"),
    (
        "perf",
        "cd /tmp && perf record -o data -e syscalls:sys_enter_openat true 2>data.log"
        " && perf script -i data",
    ),
)
LEARNING, LONGEST = 3, 20  # s: of a ready guest, to get to know commands and to stay
BESIDE = ("6.1", "6.1-cloud", "6.12")  # in which the loader of BPF runs, where made
TRACING = "/sys/kernel/tracing"
SWITCH = "/proc/sys/debug/kprobes-optimization"
SETTLED = 300_000_000  # ns of the guest's, after which a probe is a jump
# offsets in vfs_read(): the first where an instruction begins, which a jump can replace
INSIDE = 5, 9, 48
# name, definition of the event, whether jumps are allowed
HITS = (
    ("ftrace", "p:e vfs_read", True),
    ("int3", "p:e vfs_read+{inside}", False),
    ("optimized", "p:e vfs_read+{inside}", True),
    ("return", "r:e vfs_read", True),
)
# of a kernel without jumps, which steps or simulates each probed instruction
BREAKPOINTS = (
    ("entry", "p:e vfs_read", False),
    ("entry_return", "r:e vfs_read", False),
)
FOREIGN = 126  # status of a program for another architecture


class Shell:
    """A task in a kernel of this process."""

    def __init__(self, name: str) -> None:
        self.kernel = LinuxKernel(name, quiet=True)
        self.kernel.start()
        caller = Caller(PID, os.getuid(), os.getgid())
        with self.kernel.lock:
            tasks = self.kernel.tasks
            self.task = tasks.fork(tasks.agent, caller, "bench")
        how = nr.AT_FDCWD, SWITCH.encode() + b"\0", os.O_RDONLY, 0
        (self.has_jumps,) = (fd >= 0 for fd in self.request(Op(nr.OPENAT, how)))
        self.hits = HITS if self.has_jumps else BREAKPOINTS

    def request(self, *ops: Op) -> list[int]:
        with self.kernel.lock:
            return self.kernel.tasks.request(self.task, ops).results

    def takes(self, path: str, text: str) -> bool:
        """Write to a file; return whether the kernel has taken it."""
        data = text.encode() + b"\n"
        how = path.encode() + b"\0", os.O_WRONLY | os.O_TRUNC, 0
        made = self.request(
            Op(nr.OPENAT, (nr.AT_FDCWD, *how), STOP),
            Op(nr.WRITE, (Result(0), data, len(data)), STOP),
            Op(nr.CLOSE, (Result(0),), FINALLY),
        )
        assert made[0] >= 0, (path, made)
        return made[1] >= 0

    def echo(self, path: str, text: str) -> None:
        assert self.takes(path, text), path

    def pass_time(self, ns: int) -> None:
        with self.kernel.lock:
            machine = self.kernel.machine
            machine.advance(machine.now() + ns)

    @contextmanager
    def probed(self, event: str, jumps: bool) -> Iterator[None]:
        """Switch an event on, and delete it at the end."""
        if self.has_jumps:
            self.echo(SWITCH, f"{jumps:d}")
        definitions = [event.format(inside=offset) for offset in INSIDE]
        assert any(self.takes(f"{TRACING}/kprobe_events", each) for each in definitions)
        self.echo(f"{TRACING}/events/kprobes/e/enable", "1")
        self.pass_time(SETTLED)
        try:
            yield
        finally:
            self.echo(f"{TRACING}/events/kprobes/e/enable", "0")
            self.echo(f"{TRACING}/kprobe_events", "")


def first_list(name: str, repeats: int) -> float:
    """Seconds of a command that shows the list of a new guest."""
    with tempfile.TemporaryDirectory() as scratch:
        kpfs = Command(Path(scratch))
        cat = "cat", "/sys/kernel/debug/kprobes/list"
        return medians([lambda: kpfs("run", "--kernel", name, "--", *cat)], repeats)[0]


def inside(name: str, repeats: int) -> Iterator[Row]:
    """Time commands that are programs of the kernel, in a new machine and a
    ready one.
    """
    # that of the system: a manager of versions may put a script of that name before it
    interpreter = shutil.which("python3", path=os.defpath)
    python = interpreter or sys.executable, "-c", "print(1)"
    with tempfile.TemporaryDirectory() as scratch:
        kpfs = Command(Path(scratch))

        words = "run", "--kernel", name, "--inside", "--", "true"
        if kpfs(*words).returncode == FOREIGN:
            note = "this host has no programs for it"
            yield Row("kernel_inside_true", None, "s", note=note)
            return

        def run(kept: int, *command: str) -> None:
            # a guest that is kept ready is one of this measurement alone
            env = {**os.environ, "XDG_RUNTIME_DIR": scratch, "KPFS_WARM": str(kept)}
            words = "run", "--kernel", name, "--inside", "--", *command
            assert kpfs(*words, env=env).returncode == 0, words

        run(0, "true")  # the first one keeps something for the others
        cold = medians([lambda: run(0, "true")], repeats)[0]
        yield Row("kernel_inside_true", cold, "s")
        for command in (("true",), python):
            run(LONGEST, *command)
        sleep(LEARNING)
        warm = [partial(run, LONGEST, "true"), partial(run, LONGEST, *python)]
        took = medians(warm, repeats)
        yield Row("kernel_inside_true_warm", took[0], "s")
        yield Row("kernel_inside_python3_warm", took[1], "s")
        for tool, script in TOOLS:
            if shutil.which(tool):
                run(LONGEST, "sh", "-c", script)
                sleep(LEARNING)
                took = medians([partial(run, LONGEST, "sh", "-c", script)], repeats)
                yield Row(f"kernel_inside_{tool}_warm", took[0], "s")


def matrix(name: str, repeats: int) -> Iterator[Row]:
    """A loader of BPF in up to three kernels, in new guests and in ready ones."""
    made = {kernel for kernel, meta in store.metas() if isinstance(meta, image.Meta)}
    kernels = [name, *(each for each in BESIDE if each in made - {name})][:3]
    note = f"a loader of BPF in {', '.join(kernels)}"
    with tempfile.TemporaryDirectory() as scratch:
        kpfs = Command(Path(scratch))
        try:
            loader = qemu_kernel.build(scratch, "bpf_loader")
        except NotHereError as error:
            yield Row("kernel_matrix_warm", None, "s", note=str(error))
            return

        def run(kept: int) -> None:
            env = {**os.environ, "XDG_RUNTIME_DIR": scratch, "KPFS_WARM": str(kept)}
            words = "matrix", "--kernels", ",".join(kernels), "--", loader
            done = kpfs(*words, env=env, cwd=scratch)
            assert done.returncode == 0, done.stdout + done.stderr

        run(0)  # the first one keeps something for the others
        took = medians([lambda: run(0)], repeats)[0]
        yield Row("kernel_matrix", took, "s", note=note)
        run(LONGEST)
        sleep(LEARNING)
        took = medians([lambda: run(LONGEST)], repeats)[0]
        yield Row("kernel_matrix_warm", took, "s", note=note)


def open_read_close(name: str, repeats: int) -> float:
    """Seconds of a look at a file of a mount."""
    with tempfile.TemporaryDirectory() as scratch:
        kpfs = Command(Path(scratch))
        path = kpfs.mount("--kernel", name) / "kprobes" / "list"

        def look() -> None:
            for _ in range(OPENS):
                fd = os.open(path, os.O_RDONLY)
                os.read(fd, 4096)
                os.close(fd)

        look()
        took = medians([look], repeats)[0] / OPENS
        kpfs.finish()
        return took


def hits(shell: Shell, repeats: int) -> dict[str, float]:
    """Seconds of a hit, by kind of probe."""
    path = b"/proc/version\0"
    (fd,) = shell.request(Op(nr.OPENAT, (nr.AT_FDCWD, path, os.O_RDONLY, 0)))
    reads = [Op(nr.READ, (fd, Out(8), 0))] * CALLS

    def call() -> None:
        for _ in range(REQUESTS):
            shell.request(*reads)

    def cost() -> float:
        call()
        return least([call], repeats, thread_time)[0]

    base, took = cost(), dict[str, float]()
    for kind, event, jumps in shell.hits:
        with shell.probed(event, jumps):
            took[kind] = cost()
    base = min(base, cost())  # before, the host's processor may not have been warm
    return {kind: (all_ - base) / CALLS / REQUESTS for kind, all_ in took.items()}


def make(name: str) -> float | None:
    """Seconds that it takes to make a kernel of a package that is there."""
    if not distributions.is_name(name):
        return None
    with tempfile.TemporaryDirectory() as scratch:
        files = [fetch.save(file, scratch) for file in distributions.find(name).files]
        kpfs = Command(Path(scratch))
        words = "kernel", "make", name, *(f"--deb={file}" for file in files)
        place = {**os.environ, "XDG_DATA_HOME": scratch}
        return seconds(lambda: kpfs(*words, env=place, timeout=MAKE_TIMEOUT))


def _beside(name: str) -> dict[str, str]:
    """Measure the same kernel in QEMU; return notes by row."""
    real = qemu_kernel.figures(name)
    looks = real[qemu_kernel.OPEN_READ_CLOSE] / 1e3
    notes = {
        "first_list": f"QEMU: {real[qemu_kernel.FIRST_LIST]:.1f}",
        "open_read_close": f"QEMU: {looks:.3f}, inside",
        "getppid": f"QEMU: {real['base']:.2f}, inside",
    }
    names = {"ftrace": "ftrace", "int3": "boosted", "optimized": "optimized"}
    for kind, theirs_name in {**names, "return": "return"}.items():
        if theirs_name in real:
            notes[kind] = f"QEMU: {real[theirs_name] - real['base']:.2f}"
    return notes


def group(name: str, *, against_qemu: bool = False) -> Group:
    """The rows of one kernel; against_qemu: beside what it takes there."""
    store.folder(name)  # says where there is none

    def rows(repeats: int) -> Iterator[Row]:
        notes = _beside(name) if against_qemu else {}
        took = first_list(name, repeats)
        note = notes.get("first_list", "")
        yield Row("kernel_first_list", took, "s", note=note)
        took = open_read_close(name, repeats)
        note = notes.get("open_read_close", "")
        yield Row("kernel_open_read_close", took * 1e3, "ms", note=note)
        shell = Shell(name)
        getppid = Op(GETPPID)

        def call() -> None:
            for _ in range(CALLS * REQUESTS):
                shell.request(getppid)

        call()
        took = least([call], repeats, thread_time)[0] / CALLS / REQUESTS
        note = notes.get("getppid", "")
        yield Row("kernel_getppid", took * 1e6, "us", note=note)
        by_kind = hits(shell, repeats)
        for kind, _, _ in shell.hits:
            note = notes.get(kind, "")
            row = f"kernel_hit_{kind}_event"
            yield Row(row, by_kind[kind] * 1e6, "us", note=note)
        shell.kernel.stop()
        call_cost, fork = mirror.costs(repeats, "--kernel", name)
        yield Row("kernel_mirrored_call", call_cost * 1e6, "us")
        yield Row("kernel_mirrored_fork_and_exit", fork * 1e6, "us")
        rows_inside = list(inside(name, repeats))
        yield from rows_inside
        if rows_inside[0].value is not None:
            yield from matrix(name, repeats)
        yield Row("kernel_make", make(name), "s")

    return rows
