# SPDX-License-Identifier: GPL-2.0-or-later
"""How work grows with its size: a row is the exponent between the last two sizes.

1 is linear, 2 is quadratic.  The note has each size with the seconds that it takes: of
the processor where a thread or a daemon does the work, else of the clock.
"""

from __future__ import annotations

import math
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bench import engine, mount
from bench.command import KPFS, ROOT, Command
from bench.row import Clock, Row, seconds
from kpfs.api.kernel import Kernel
from kpfs.base.ktypes import KAddr
from kpfs.engine.kprobe import Kprobe
from kpfs.engine.register import unregister_kprobes
from kpfs.linux.store import store

PROBES = 100, 1_000, 10_000, 100_000
EVENTS = 100, 1_000, 10_000
CLIENTS = 1, 16, 64, 256
KERNELS = 1, 5, 30
RING = 1, 32, 1024  # MB
FULL = 1, 4, 16  # MB that are read
MODULE_COUNTS = 10, 100, 1_000
PROCESSES = 8, 64, 500
FILES = 1_000, 10_000, 100_000
READS = 30  # by a client
MODULE = b"trace_printk"
TIMEOUT = 300  # s
# its arguments: a number of processes; they live at the same time
FORKS = """
import os, sys, time
begin = time.perf_counter()
end = os.pipe()
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        os.close(end[1])
        os.read(end[0], 1)
        os._exit(0)
print(time.perf_counter() - begin)
begin = time.perf_counter()
os.close(end[1])
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
print(time.perf_counter() - begin)
"""
FIND = """
import subprocess, sys, time
begin = time.perf_counter()
subprocess.run(["find", sys.argv[1], "-name", "none"], check=True)
print(time.perf_counter() - begin)
"""


class Curves:
    """The times of each operation, by the size of the work."""

    def __init__(self) -> None:
        self._points: dict[str, list[tuple[int, float]]] = defaultdict(list)

    def add(self, name: str, size: int, taken: float) -> None:
        self._points[name].append((size, max(taken, 1e-6)))

    def take(self, size: int, clock: Clock, /, **works: Callable[[], object]) -> None:
        """Do works one after the other."""
        for name, work in works.items():
            self.add(name, size, seconds(work, clock))

    def rows(self) -> Iterator[Row]:
        for name, points in self._points.items():
            (small, before), (large, after) = points[-2:]
            exponent = math.log(after / before) / math.log(large / small)
            note = ", ".join(f"{size}: {taken:.4f} s" for size, taken in points)
            yield Row(f"growth_{name}", exponent, "", note=note)


def probes(curves: Curves) -> None:
    """Probes of the guest kernel; where addresses are too few, several at one."""
    bench = engine.Bench()
    found = engine.places(bench, max(PROBES))
    for count in PROBES:
        chosen = [found[i % len(found)] for i in range(count)]
        made = [Kprobe(addr=KAddr(a), pre_handler=engine.nothing) for a in chosen]
        curves.take(
            count,
            time.thread_time,
            register=partial(engine.register_all, bench.state, made),
            list=partial(bench.show, "/kprobes/list"),
            disarm=partial(bench.store, "/kprobes/enabled", "0"),
            arm=partial(bench.store, "/kprobes/enabled", "1"),
            unregister=partial(unregister_kprobes, bench.state, made),
        )
        bench.settle()


def events(curves: Curves) -> None:
    """Events, one by a write."""
    bench = engine.Bench()
    lines = engine.definitions(bench, max(EVENTS))
    file = "/tracing/kprobe_events"

    def write(texts: list[str]) -> None:
        for text in texts:
            bench.store(file, text)

    for count in EVENTS:
        curves.take(
            count,
            time.thread_time,
            events=partial(write, lines[:count]),
            events_shown=partial(bench.show, file),
            profile=partial(bench.show, "/tracing/kprobe_profile"),
            events_on=partial(bench.store, "/tracing/events/kprobes/enable", "1"),
            events_off=partial(bench.store, "/tracing/events/kprobes/enable", "0"),
            events_deleted=partial(write, ["-:kprobes/\n"]),
        )
        bench.settle()


def clients(curves: Curves) -> None:
    """Threads that read at once: seconds of the daemon's processor."""
    with tempfile.TemporaryDirectory() as scratch:
        kpfs = Command(Path(scratch))
        at = kpfs.mount("--quiet-guest")
        daemon = mount.daemon_of(at)

        def client() -> None:
            for _ in range(READS):
                mount.read(at / "kprobes/list")

        for count in CLIENTS:
            threads = [threading.Thread(target=client) for _ in range(count)]
            before = mount.cpu_seconds(daemon)
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            curves.add("clients", count, mount.cpu_seconds(daemon) - before)
        kpfs.finish()


def ring(curves: Curves) -> None:
    """The ring made larger, and a full one read: seconds of the daemon's processor."""
    with tempfile.TemporaryDirectory() as scratch:
        kpfs = Command(Path(scratch))
        at = kpfs.mount("--quiet-guest")
        used, tracing = partial(mount.cpu_seconds, mount.daemon_of(at)), at / "tracing"
        (tracing / "kprobe_events").write_text("p:e __x64_sys_getppid\n")
        mount.write(tracing / "events/kprobes/enable", b"1")

        for size in FULL:
            (tracing / "buffer_size_kb").write_text(f"{size << 10}")
            mount.write(at / "machine/syscall", b"getppid\n" * (30_000 * size))
            curves.take(size, used, trace_read=partial(mount.read, tracing / "trace"))
        for size in RING:
            text = f"{size << 10}".encode()
            work = partial(mount.write, tracing / "buffer_size_kb", text)
            curves.take(size, used, ring=work)
        kpfs.finish()


def modules(curves: Curves) -> None:
    """Modules of the guest kernel, each under a name of its own."""
    original = (ROOT / "guest/image/modules" / f"{MODULE.decode()}.ko").read_bytes()
    with tempfile.TemporaryDirectory() as scratch:
        for count in MODULE_COUNTS:
            names = [f"m{number:0{len(MODULE) - 1}}" for number in range(count)]
            for name in names:
                text = original.replace(MODULE + b"\0", name.encode() + b"\0")
                Path(scratch, f"{name}.ko").write_bytes(text)
            with Kernel() as kernel:

                def load(names: list[str], kernel: Kernel = kernel) -> None:
                    for name in names:
                        kernel.insmod(f"{scratch}/{name}.ko")

                def unload(names: list[str], kernel: Kernel = kernel) -> None:
                    for name in names:
                        kernel.rmmod(name)

                curves.take(
                    count,
                    time.thread_time,
                    insmod=partial(load, names),
                    modules=partial(kernel.read, "modules"),
                    rmmod=partial(unload, names),
                )


def kernels(curves: Curves) -> None:
    """One kernel by many names: seconds of the processor."""
    made = [name for name in store.names() if "+" not in name]
    if not made:
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "kpfs/kernels")
        folder.mkdir(parents=True)
        for count in KERNELS:
            names = [f"k{number}" for number in range(count)]
            for name in names:
                if not (folder / name).exists():
                    (folder / name).symlink_to(Path(store.place(), made[0]))
            several = "--kernels", ",".join(names)
            for name, words in {
                "explain": ["explain", *several, "vfs_read"],
                "features": ["kernel", "features", *names],
                "matrix": ["matrix", *several, "--", "true"],
            }.items():
                before = _of_children()
                subprocess.run(
                    [KPFS, *words],
                    env={**os.environ, "XDG_DATA_HOME": scratch},
                    stdout=subprocess.DEVNULL,
                    timeout=TIMEOUT,
                    check=True,
                )
                curves.add(name, count, _of_children() - before)


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def processes(curves: Curves) -> None:
    """Processes under ``kpfs run`` that live at once, and their ends."""
    with tempfile.TemporaryDirectory() as scratch:
        for count in PROCESSES:
            program = sys.executable, "-Sc", FORKS, str(count)
            done = Command(Path(scratch))("run", "--quiet-guest", "--", *program)
            begun, ended = map(float, done.stdout.split())
            curves.add("forks", count, begun)
            curves.add("exits", count, ended)


def files(curves: Curves) -> None:
    """Files of a tree that is walked under ``kpfs run``."""
    with tempfile.TemporaryDirectory() as scratch:
        tree, there = Path(scratch, "tree"), 0
        for count in FILES:
            for number in range(there, count):
                file = tree / f"{number // 1000}" / f"{number}"
                if number % 1000 == 0:
                    file.parent.mkdir(parents=True)
                file.touch()
            there = count
            program = sys.executable, "-Sc", FIND, str(tree)
            run = Command(Path(scratch))
            done = run("run", "--quiet-guest", "--", *program, timeout=TIMEOUT)
            curves.add("find", count, float(done.stdout.split()[-1]))


def growth(_repeats: int) -> Iterator[Row]:
    """The exponents, each measured once."""
    for axis in probes, events, clients, ring, modules, kernels, processes, files:
        curves = Curves()
        axis(curves)
        yield from curves.rows()


GROUPS = {"growth": growth}
