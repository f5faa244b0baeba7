# SPDX-License-Identifier: GPL-2.0-or-later
"""Descriptors, name, heap and end of a process."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import time
from collections.abc import Container, Iterable

from kpfs.base.units import PAGE_SIZE

_PR_SET_PDEATHSIG = 1
_M_ARENA_MAX = -8
# New objects until the collector looks at them.  Thousands of probes are made of many
# that stay, and next to nothing of what is thrown away needs it.
GC_THRESHOLD = 20_000
GROWN = 16 << 20  # bytes that a process may grow by before its heap is looked at
SLEEP_TIMEOUT = 1.0  # s until a thread that has made a request sleeps
SLEEP_LOOK = 0.0001  # s
EPOLL, EPOLL_FLAGS = b"anon_inode:[eventpoll]", os.O_RDWR | os.O_CLOEXEC


def die_with_parent(parent: int) -> None:
    """Have this process, a child of that one, killed when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def outlive_parent() -> None:
    """Undo die_with_parent()."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)


def close_all_but(kept: Container[int]) -> None:
    """Close what this process has from its parent, so that no pipe stays open."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            with contextlib.suppress(OSError):
                os.close(int(name))


def settle_heap() -> None:
    """Keep the garbage collector from looking at the objects of now: they stay."""
    gc.set_threshold(GC_THRESHOLD)
    gc.freeze()


class HeapTrimmer:
    """Gives back memory that threads have freed, when the process has grown.

    glibc keeps what is freed in the heap of each thread.  What others use at a look
    counts as grown when it is given back later, so each half of them that goes is a
    reason for another look.
    """

    def __init__(self) -> None:
        self._least = self._before = _resident()
        self._users: set[int] = set()  # those at the last look who are left
        self._few = 0  # so many are left at the next look

    def look(self, users: Iterable[int] = ()) -> None:
        """Give memory back if there may be much.  Context: no lock is held.

        users: numbers of those that still use memory which they will free.
        """
        self._users = set(users)
        self._few = len(self._users) // 2
        self._trim(self._before)

    def gone(self, user: int) -> None:
        """Look again if so many are gone.  Context: no lock is held."""
        if user not in self._users:
            return
        self._users.discard(user)
        if len(self._users) <= self._few:
            self._few //= 2
            # many short readers of a small process are not to trim it all the time
            if self._trim(2 * self._least) and not self._users:
                self._least = self._before

    def _trim(self, before: int) -> bool:
        if _resident() <= before + GROWN:
            return False
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:  # musl has none
            trim(ctypes.c_size_t(0))
        self._before = _resident()
        self._least = min(self._least, self._before)
        return True


def _resident() -> int:
    """Return how many bytes of this process are in memory; 0 if /proc is missing."""
    try:
        with open("/proc/self/statm", "rb", 0) as file:
            return int(file.read().split()[1]) * PAGE_SIZE
    except OSError:
        return 0


def rename(name: str) -> None:
    """Set the name that ps(1) shows of this process."""
    with contextlib.suppress(OSError), open("/proc/self/comm", "w") as comm:
        comm.write(name)


def system_call(pid: int) -> tuple[int, tuple[int, ...]]:
    """Return the system call that a thread sleeps in: its number and six arguments.

    The number is -1 if it is in none, or nobody may know.  One that is about to sleep
    is waited for.
    """
    deadline = time.monotonic() + SLEEP_TIMEOUT
    try:
        while True:
            with open(f"/proc/{pid}/syscall", "rb", 0) as file:
                number, *words = file.read().split()
            if number != b"running" or time.monotonic() > deadline:
                return int(number), tuple(int(word, 16) for word in words[:6])
            time.sleep(SLEEP_LOOK)
    except (OSError, ValueError):  # it is gone, or does not sleep
        return -1, ()


def descriptor_flags(pid: int, fd: int) -> int:
    """Return the flags of open(2) that a process's open file has; -1: it has none.

    For an epoll instance they are those that nearly all have. Its file of fdinfo would
    wait until its process has polled every file in it, and that process may wait for a
    lock of the caller.
    Kernel: ep_show_fdinfo()
    """
    number = fd & 0xFFFFFFFF
    try:
        if os.readlink(b"/proc/%d/fd/%d" % (pid, number)) == EPOLL:
            return EPOLL_FLAGS
        return flags_of_info(b"/proc/%d/fdinfo/%d" % (pid, number))
    except (OSError, IndexError, ValueError):
        return -1


def flags_of_info(path: bytes, folder: int | None = None) -> int:
    """Return the flags of open(2) that a file of fdinfo tells.

    folder: where the path begins.  errno: those of open() and read().  IndexError,
    ValueError: the descriptor is gone.
    Document: proc_pid_fdinfo(5)
    """
    info = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return int(os.read(info, 64).split()[3], 8)  # pos: NUMBER flags: OCTAL
    finally:
        os.close(info)


def exit_status(status: int) -> int:
    """Return a status of wait(2) as a shell gives it."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def keep_one_heap() -> None:
    """Have all threads allocate memory from one heap.

    glibc asks /proc/sys/vm/overcommit_memory when it first shrinks the heap of another
    thread, and would wait for us, with Python's lock, where we serve that file.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # musl has none, and no such heaps
        mallopt(_M_ARENA_MAX, 1)
