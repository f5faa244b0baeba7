# SPDX-License-Identifier: GPL-2.0-or-later
"""Whole commands: the cold start, operations on a mount, and what it costs idle."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path

from bench.command import Command
from bench.row import Row, medians
from kpfs.host.mounts import mount_at

OPERATIONS = 300  # in one measurement
ON_MOUNT = "open_read_close", "open_write_close", "stat"
LINES = 5000
IDLE_SECONDS = 5
CPUCLOCK_SCHED = 2
EVENTS = 32  # on one function, where many records are to be made
HITS_AT_ONCE = 5000
DRAINED = 1_000_000  # records
LIST = "/sys/kernel/debug/kprobes/list"


def cold_start(repeats: int) -> Iterator[Row]:
    """``kpfs run -- cat LIST``, from nothing to nothing."""
    with tempfile.TemporaryDirectory() as scratch:
        command = Command(Path(scratch)).command("run", "--", "cat", LIST)

        def run() -> None:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

        run()
        (taken,) = medians([run], max(repeats, 7))
        yield Row("cold_start", taken, "s")


def read(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    while os.read(fd, 65536):
        pass
    os.close(fd)


def write(path: Path, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY)
    os.write(fd, data)
    os.close(fd)


def repeatedly(
    function: Callable[..., object], *arguments: object
) -> Callable[[], None]:
    """Return a function that calls another so many times."""

    def run() -> None:
        for _ in range(OPERATIONS):
            function(*arguments)

    return run


def operations(repeats: int) -> Iterator[Row]:
    """Microseconds of open-read-close, open-write-close and stat on a mount.

    Beside them are those of a mount by libfuse.  Then those of a line of
    machine/syscall, of which many are written at once; and of open-read-close while an
    event is on that sees it.
    """
    with tempfile.TemporaryDirectory() as scratch:
        kpfs = Command(Path(scratch))
        mount = kpfs.mount()
        syscall = mount / "machine/syscall"
        lines = b"getppid\n" * LINES
        functions = [lambda: write(syscall, lines), *on_mount(mount)]
        with contextlib.suppress(AssertionError):  # libfuse is missing
            functions += on_mount(kpfs.mount("--transport", "libfuse"))
        calling, *taken = medians(functions, repeats)
        (mount / "tracing/kprobe_events").write_text("p:bench vfs_read")
        write(mount / "tracing/events/kprobes/enable", b"1")
        (seen,) = medians([on_mount(mount)[0]], repeats)
        write(mount / "tracing/events/kprobes/enable", b"0")
        kpfs.finish()
    unit = 1e6 / OPERATIONS
    for name, ours, theirs in zip_longest(ON_MOUNT, taken[:3], taken[3:]):
        yield Row(f"mount_{name}", ours * unit, "us")
        beside = None if theirs is None else theirs * unit
        yield Row(f"libfuse_{name}", beside, "us", note="the same by libfuse")
    note = "while an event sees it"
    yield Row("mount_open_read_close_armed", seen * unit, "us", note=note)
    yield Row("machine_syscall_line", calling * 1e6 / LINES, "us")


def on_mount(mount: Path) -> list[Callable[[], None]]:
    """Return what ON_MOUNT names, for one mount."""
    enabled = mount / "kprobes/enabled"
    return [
        repeatedly(read, enabled),
        repeatedly(write, enabled, b"1"),
        repeatedly(os.stat, enabled),
    ]


def hits(mount: Path, count: int) -> None:
    """Make so many system calls getppid in the guest, each seen by EVENTS events."""
    while count > 0:
        lines = min(count, HITS_AT_ONCE)
        write(mount / "machine/syscall", b"getppid\n" * lines)
        count -= lines


def drain(mount: Path) -> tuple[int, float]:
    """Records that trace_pipe gave, and the seconds it took."""
    fd = os.open(mount / "tracing/trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
    lines, start = 0, time.perf_counter()
    with contextlib.suppress(BlockingIOError):
        while data := os.read(fd, 131072):
            lines += data.count(b"\n")
    taken = time.perf_counter() - start
    os.close(fd)
    return lines, taken


def draining(repeats: int) -> Iterator[Row]:
    """A million records by trace_pipe, and a full buffer of 1 MB by trace."""
    with tempfile.TemporaryDirectory() as scratch:
        kpfs = Command(Path(scratch))
        mount = kpfs.mount("--quiet-guest")
        tracing = mount / "tracing"
        events = "".join(f"p:e{i} __x64_sys_getppid\n" for i in range(EVENTS))
        (tracing / "buffer_size_kb").write_text("16384")
        (tracing / "kprobe_events").write_text(events)
        write(tracing / "events/kprobes/enable", b"1")
        records, taken = 0, 0.0
        while records < DRAINED:
            hits(mount, 10000)
            lines, seconds = drain(mount)
            records, taken = records + lines, taken + seconds
        yield Row("trace_pipe_drain", records / taken / 1000, "k/s")
        seen = (tracing / "kprobe_profile").read_text().split()[1::3]
        yield Row("trace_pipe_lost", sum(map(int, seen)) - records, "")
        (tracing / "buffer_size_kb").write_text("1024")
        hits(mount, 4000)
        (full,) = medians([lambda: read(tracing / "trace")], repeats)
        yield Row("trace_1mb", full, "s")
        write(tracing / "events/kprobes/enable", b"0")
        kpfs.finish()


def daemon_of(mount: Path) -> int:
    """The pid of the daemon that serves it, which is in the name of its source."""
    entry = mount_at(str(mount))
    assert entry is not None
    return int(entry.source.removeprefix("kpfs:"))


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far, to the ns: clock_getcpuclockid(3)."""
    return time.clock_gettime(~pid << 3 | CPUCLOCK_SCHED)


def memory(pid: int) -> float:
    """Resident memory in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def idle(_repeats: int) -> Iterator[Row]:
    """An idle mount, with its background tasks."""
    with tempfile.TemporaryDirectory() as scratch:
        kpfs = Command(Path(scratch))
        daemon = daemon_of(kpfs.mount())
        time.sleep(1)
        before = cpu_seconds(daemon)
        time.sleep(IDLE_SECONDS)
        used = (cpu_seconds(daemon) - before) / IDLE_SECONDS * 100
        yield Row("idle_cpu", used, "%")
        yield Row("idle_memory", memory(daemon), "MB")
        kpfs.finish()


GROUPS = {
    "start": cold_start,
    "mount": operations,
    "drain": draining,
    "idle": idle,
}
