# SPDX-License-Identifier: GPL-2.0-or-later
"""A crowd of processes that use the same files of ``kpfs run`` at once.

It is a program by itself: ``crowd.py SEED PROCESSES ACTIONS [NAME...]``.  Each process
makes so many actions, drawn from those named or from all.  Some use open files that all
have inherited.  A refusal is an answer like any other; what counts is that all end.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import random
import select
import signal
import sys
from collections.abc import Callable

TRACING = "/sys/kernel/tracing"
PROBES = f"{TRACING}/kprobe_events"
PROBE = f"{TRACING}/events/kprobes/crowd/enable"
# probed are functions that many calls come to, or few
FUNCTIONS = ("do_sys_openat2", "vfs_write", "ksys_read", "do_exit", "vfs_statx")
WRITTEN = {
    "kprobe_events": (b"p:crowd_%d vfs_read\n", b"-:crowd_%d\n", b"p4:crowd_%d x\n"),
    "tracing_on": (b"1\n", b"0\n", b"x\n"),
    "trace_marker": (b"of %d", b"of %d\n"),
    "options/overwrite": (b"1\n", b"0\n"),
    "buffer_size_kb": (b"64\n", b"128\n"),
    "events/kprobes/crowd/enable": (b"1\n", b"0\n"),
    "events/kprobes/crowd/filter": (b"common_pid > %d\n", b"0\n"),
}
READ = ("README", "trace", "kprobe_events", "kprobe_profile", "available_events")
SIZE, PIECES = 4096, 8  # bytes, and how often they are read of one file
WAIT = 0.001  # s

Action = Callable[["Member"], object]
_libc = ctypes.CDLL(None)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    *[ctypes.c_int] * 3,
    ctypes.c_long,
)


class Member:
    """One process of the crowd."""

    def __init__(self, number: int, seed: int, shared: dict[str, int]) -> None:
        """shared: open files that all members have, by name."""
        self.number = number
        self.rng = random.Random(f"{seed} {number}")
        self.shared = shared

    def text(self, name: str) -> bytes:
        """Return what to write to a file."""
        text = self.rng.choice(WRITTEN[name])
        return text % self.number if b"%" in text else text

    def open(self, name: str, flags: int) -> int:
        return os.open(f"{TRACING}/{name}", flags)

    # ---- writes
    def append(self) -> None:
        """Write as a shell does by >>."""
        name = self.rng.choice((*WRITTEN, "kprobe_events", "kprobe_events"))
        fd = self.open(name, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(fd, self.text(name))
        finally:
            os.close(fd)

    def write_shared(self) -> None:
        name, fd = self.rng.choice([*self.shared.items()])
        text = self.text(name)
        how = self.rng.randrange(4)
        if how == 0:
            os.pwrite(fd, text, 0)
        elif how == 1:
            os.writev(fd, [text, b"", text])
        else:
            os.write(fd, text if how == 2 else b"")

    def seek_shared(self) -> None:
        fd = self.rng.choice([*self.shared.values()])
        os.lseek(fd, 0, self.rng.choice((os.SEEK_END, os.SEEK_CUR, os.SEEK_SET)))

    # ---- reads
    def read(self) -> None:
        fd = self.open(self.rng.choice(READ), os.O_RDONLY)
        try:
            for _ in range(PIECES):
                if not os.read(fd, SIZE):
                    break
        finally:
            os.close(fd)

    def read_shared(self) -> None:
        os.read(self.rng.choice([*self.shared.values()]), SIZE)

    def look(self) -> None:
        os.stat(f"{TRACING}/{self.rng.choice(READ)}")
        os.listdir(f"{TRACING}/events/kprobes")

    def map(self) -> None:
        """Make calls whose path, or whose data, lies in a page of a file there."""
        how = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE
        fd = self.open("README", os.O_RDONLY)
        page = ctypes.c_void_p(_libc.mmap(None, SIZE, *how, fd, 0))
        os.close(fd)
        _libc.access(page, os.F_OK)
        _libc.write(self.shared["trace_marker"], page, 64)
        _libc.klogctl(3, page, 512)  # into it
        _libc.munmap(page, SIZE)

    # ---- waits
    def poll(self) -> None:
        waits = select.poll()
        with contextlib.ExitStack() as opened:
            for name in ("trace_pipe", "per_cpu/cpu0/trace_pipe_raw"):
                fd = self.open(name, os.O_RDONLY | os.O_NONBLOCK)
                opened.callback(os.close, fd)
                waits.register(fd, select.POLLIN)
            for fd, events in waits.poll(WAIT * 1000):
                if events & select.POLLIN:
                    os.read(fd, SIZE)

    def epoll(self) -> None:
        """Wait for what is always ready, so that the kernel asks again each time."""
        fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        try:
            with select.epoll() as waits:
                waits.register(fd, select.EPOLLIN)
                for _ in range(PIECES):
                    waits.poll(WAIT)
                    os.getppid()
        finally:
            os.close(fd)

    # ---- processes
    def fork(self) -> None:
        """Have a child do something and end, or become another program."""
        if not (child := os.fork()):
            with contextlib.suppress(OSError):
                if self.rng.random() < 0.5:
                    self.append()
                else:
                    for fd in self.shared.values():
                        os.set_inheritable(fd, self.rng.random() < 0.5)
                    os.execv("/bin/true", ["true"])
            os._exit(0)
        os.waitpid(child, 0)

    def duplicate(self) -> None:
        name, fd = self.rng.choice([*self.shared.items()])
        copy = os.dup(fd)
        try:
            os.write(copy, self.text(name))
        finally:
            os.close(copy)

    def watch(self) -> None:
        """Have the kernel see other calls than before."""
        with open(PROBE, "w", encoding="ascii") as file:
            file.write(str(self.number % 2))


ACTIONS: dict[str, Action] = {
    name: method
    for name, method in vars(Member).items()
    if callable(method) and not name.startswith("_") and name not in ("text", "open")
}


def crowd(seed: int, count: int, actions: int, names: list[str]) -> int:
    """Run a crowd; return the number of members that did not come to their end."""
    rng = random.Random(seed)
    with open(PROBES, "w", encoding="ascii") as file:
        file.write(f"p:crowd {rng.choice(FUNCTIONS)}")
    with open(PROBE, "w", encoding="ascii") as file:
        file.write("1")
    shared = {
        name: os.open(
            f"{TRACING}/{name}", os.O_WRONLY if "marker" in name else os.O_RDWR
        )
        for name in ("tracing_on", "trace_marker", "kprobe_events")
    }
    members = []
    for number in range(count):
        if not (child := os.fork()):
            member = Member(number, seed, shared)
            for _ in range(actions):
                with contextlib.suppress(OSError):
                    ACTIONS[member.rng.choice(names)](member)
            os._exit(0)
        members.append(child)
    return sum(os.waitpid(member, 0)[1] != 0 for member in members)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    SEED, COUNT, TIMES = map(int, sys.argv[1:4])
    FAILED = crowd(SEED, COUNT, TIMES, sys.argv[4:] or list(ACTIONS))
    print(f"{FAILED} of {COUNT} failed")
    sys.exit(bool(FAILED))
