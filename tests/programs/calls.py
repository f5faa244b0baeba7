# SPDX-License-Identifier: GPL-2.0-or-later
"""Make system calls some times each, and print which of them the kernel has seen.

Run where tracefs is: calls.py TIMES SET, of SETS.  A line for each kind of call: its
name, how often the event of its entry fired, and what it returned, each value once, or
"a descriptor".
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import signal
import socket
import sys
import tempfile
import termios
from ctypes import byref
from typing import Any

from kpfs.base import syscall_numbers as nr

TRACING = "/sys/kernel/tracing/"
RAW = TRACING + "events/raw_syscalls/enable"
EVENT = re.compile(
    r"-(\d+) +\[\d+\].*: sys_(enter|exit): NR (\d+) (?:= (-?\d+)|\((\w+))"
)
NOT_OPEN = "ffffffffffffffff"  # the argument of an fsync() between two kinds of calls

BUFFER = ctypes.create_string_buffer(4096)
LIBC = ctypes.CDLL(None)
TIME = (ctypes.c_long * 2)(0, 1000)
NO_TIME = (ctypes.c_long * 2)()
VECTOR = (ctypes.c_ulong * 2)(ctypes.addressof(BUFFER), 4)

_, PATH = tempfile.mkstemp()
NAME = os.fsencode(PATH)
FILE = os.open(PATH, os.O_RDWR)
os.write(FILE, bytes(100))
LEFT, RIGHT = socket.socketpair()
WATCHED = (ctypes.c_int * 2)(RIGHT.fileno(), 1)
SET = (ctypes.c_long * 16)()
SET[RIGHT.fileno() // 64] |= 1 << RIGHT.fileno() % 64

BOTH: dict[str, tuple[Any, ...]] = {
    "kill": (nr.KILL, os.getpid(), 0),
    "umask": (nr.UMASK, 0o22),
    "gettimeofday": (nr.GETTIMEOFDAY, BUFFER, 0),
    "sync": (nr.SYNC,),
    "clock_gettime": (nr.CLOCK_GETTIME, 1, BUFFER),
    "nanosleep": (nr.NANOSLEEP, byref(TIME), 0),
    "F_GETFD": (nr.FCNTL, FILE, nr.F_GETFD),
    "F_GETFL": (nr.FCNTL, FILE, nr.F_GETFL),
    "F_SETFL": (nr.FCNTL, FILE, nr.F_SETFL, os.O_APPEND),
    "pwrite64": (nr.PWRITE64, FILE, b"abc", 3, 0),
    "getuid": (nr.GETUID,),
    "fsync": (nr.FSYNC, FILE),
    "access": (nr.ACCESS, NAME, 0),
    "dup": (nr.DUP, FILE),
}
OF_LINUX: dict[str, tuple[Any, ...]] = {
    "SIGCHLD": (nr.KILL, os.getpid(), signal.SIGCHLD),
    "clock_nanosleep": (nr.CLOCK_NANOSLEEP, 1, 0, byref(TIME), 0),
    "clock_getres": (nr.CLOCK_GETRES, 1, BUFFER),
    "getitimer": (nr.GETITIMER, 0, BUFFER),
    "prlimit64": (nr.PRLIMIT64, 0, 7, 0, BUFFER),
    "getrusage": (nr.GETRUSAGE, 0, BUFFER),
    "sysinfo": (nr.SYSINFO, BUFFER),
    "setpgid": (nr.SETPGID, 0, 0),
    "getresuid": (nr.GETRESUID, BUFFER, BUFFER, BUFFER),
    "getpriority": (nr.GETPRIORITY, 0, 0),
    "setpriority": (nr.SETPRIORITY, 0, 0, 0),
    "sched_getparam": (nr.SCHED_GETPARAM, 0, BUFFER),
    "sched_getscheduler": (nr.SCHED_GETSCHEDULER, 0),
    "sched_get_priority_max": (nr.SCHED_GET_PRIORITY_MAX, 1),
    "sched_rr_get_interval": (nr.SCHED_RR_GET_INTERVAL, 0, BUFFER),
    "sched_getattr": (nr.SCHED_GETATTR, 0, BUFFER, 48, 0),
    "sched_getaffinity": (nr.SCHED_GETAFFINITY, 0, 128, BUFFER),
    "getcpu": (nr.GETCPU, BUFFER, BUFFER, 0),
    "getrandom": (nr.GETRANDOM, BUFFER, 16, 0),
    "flock": (nr.FLOCK, FILE, fcntl.LOCK_EX),
    "fadvise64": (nr.FADVISE64, FILE, 0, 0, 0),
    "readahead": (nr.READAHEAD, FILE, 0, 100),
    "sync_file_range": (nr.SYNC_FILE_RANGE, FILE, 0, 0, 0),
    "syncfs": (nr.SYNCFS, FILE),
    "preadv": (nr.PREADV, FILE, byref(VECTOR), 1, 0, 0),
    "pwritev2": (nr.PWRITEV2, FILE, byref(VECTOR), 1, 0, 0, 0),
    "getxattr": (nr.GETXATTR, NAME, b"user.x", BUFFER, 100),
    "flistxattr": (nr.FLISTXATTR, FILE, BUFFER, 100),
    "eventfd2": (nr.EVENTFD2, 0, 0),
    "epoll_create1": (nr.EPOLL_CREATE1, 0),
    "inotify_init1": (nr.INOTIFY_INIT1, 0),
    "timerfd_create": (nr.TIMERFD_CREATE, 1, 0),
    "memfd_create": (nr.MEMFD_CREATE, b"m", 0),
    "socket": (nr.SOCKET, socket.AF_UNIX, socket.SOCK_STREAM, 0),
    "socketpair": (nr.SOCKETPAIR, socket.AF_UNIX, socket.SOCK_STREAM, 0, BUFFER),
}
# Made with --mirror=always alone.
IN_NUMBERS: dict[str, tuple[Any, ...]] = {
    "sendto": (nr.SENDTO, LEFT.fileno(), b"abc", 3, 0, 0, 0),
    "recvfrom": (nr.RECVFROM, RIGHT.fileno(), BUFFER, 3, 0, 0, 0),
    "ioctl": (nr.IOCTL, FILE, termios.TCGETS, BUFFER),
    "poll": (nr.POLL, byref(WATCHED), 1, 0),
    "ppoll": (nr.PPOLL, byref(WATCHED), 1, byref(NO_TIME), 0, 8),
    "select": (nr.SELECT, RIGHT.fileno() + 1, byref(SET), 0, 0, byref(NO_TIME)),
    "pselect6": (nr.PSELECT6, RIGHT.fileno() + 1, byref(SET), 0, 0, byref(NO_TIME), 0),
    "shutdown": (nr.SHUTDOWN, LEFT.fileno(), socket.SHUT_WR),
}
YIELD: dict[str, tuple[Any, ...]] = {"sched_yield": (nr.SCHED_YIELD,)}
SETS = {
    "guest": BOTH | YIELD,
    "watched": BOTH | OF_LINUX,
    "linux": BOTH | OF_LINUX | IN_NUMBERS | YIELD,
}


def switch(value: bytes) -> None:
    fd = os.open(RAW, os.O_WRONLY)
    os.write(fd, value)
    os.close(fd)


def main(times: int, calls: dict[str, tuple[Any, ...]]) -> None:
    makes = LIBC.syscall
    switch(b"1")
    for call in calls.values():
        makes(nr.FSYNC, -1)
        for _ in range(times):
            makes(*call)
    makes(nr.FSYNC, -1)
    switch(b"0")
    entered: list[list[int]] = [[]]
    left: list[list[tuple[int, int]]] = [[]]
    with open(TRACING + "trace", encoding="latin-1") as trace:
        events = [found for line in trace if (found := EVENT.search(line))]
    for pid, kind, number, value, first in (found.groups() for found in events):
        if int(pid) != os.getpid():
            continue
        if kind == "exit":
            left[-1].append((int(number), int(value)))
        elif int(number) == nr.FSYNC and first == NOT_OPEN:
            entered.append([])
            left.append([])
        else:
            entered[-1].append(int(number))
    seen = zip(entered[1:], left[1:], strict=True)
    for (name, call), (begun, ended) in zip(calls.items(), seen, strict=False):
        values = sorted({value for number, value in ended if number == call[0]})
        shown = "a descriptor" if len(values) > 2 else " ".join(map(str, values))
        print(name, begun.count(call[0]), shown)


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), SETS[sys.argv[2]])
    finally:
        os.unlink(PATH)
