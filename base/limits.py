# SPDX-License-Identifier: GPL-2.0-or-later
"""The limits of setrlimit(2) below which no kernel can be served to its end.

A process that meets one of them in the middle gives answers that no kernel gives, or
none. So it is refused before it begins.
"""

from __future__ import annotations

import errno

from kpfs.base.errors import SetupError

DESCRIPTORS = 128  # for its own files, callers that wait, and the caches of /proc
STACK = 512 << 10  # bytes for libunicorn, which translates recursively
FILE_SIZE = 4096  # bytes that a command and its supervisor share
ADDRESS_SPACE = 2 << 30  # bytes for libunicorn's code, threads and their stacks


def limit(name: str) -> int | None:
    """Return the soft limit RLIMIT_name; None if there is none, or none can be had."""
    try:
        import resource

        soft = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[0]
    except (ImportError, OSError):
        return None
    return None if soft == resource.RLIM_INFINITY else soft


def check(memory: int = 0, seconds: int = 0) -> None:
    """Raise SetupError if a limit leaves too little for an emulated kernel.

    memory: bytes of a Linux kernel; seconds: of CPU time.
    """
    space = ADDRESS_SPACE + memory
    for name, least, letter, unit in (
        ("NOFILE", DESCRIPTORS, "n", 1),
        ("AS", space, "v", 1024),
        ("DATA", space, "d", 1024),
        ("STACK", STACK, "s", 1024),
        ("FSIZE", FILE_SIZE, "f", 1024),
        ("CPU", seconds, "t", 1),
    ):
        found = limit(name)
        if found is not None and found < least:
            raise SetupError(
                f"ulimit -{letter} is {found // unit}",
                f"kpfs needs {least // unit} or more here",
            )


def no_room(size: int, error: OSError) -> SetupError:
    """Return the error for a mapping of so many bytes that was refused, with why."""
    if error.errno in (errno.EPERM, errno.EACCES):
        mend = (
            "a sandbox has to allow that (MemoryDenyWriteExecute= of systemd, execmem)"
        )
        return SetupError("no memory may be both writable and executable here", mend)
    return SetupError(f"no room for {size >> 20} MiB more", _bound(size))


def _bound(size: int) -> str:
    """Return what keeps this process from mapping so many bytes more."""
    used = _numbers("/proc/self/status")
    for name, letter, counted in ("AS", "v", "VmSize"), ("DATA", "d", "VmData"):
        most = limit(name)
        if most is not None and (used.get(counted, 0) << 10) + size > most:
            return f"ulimit -{letter} is {most >> 10}, kernels that are open count, too"
    left = _numbers("/proc/meminfo")
    if _number("/proc/sys/vm/overcommit_memory") == 2:
        free = left.get("CommitLimit", 0) - left.get("Committed_AS", 0)
        return f"vm.overcommit_memory is 2, which leaves {max(free, 0) >> 10} MiB"
    most = _number("/proc/sys/vm/max_map_count")
    if most and len(_read("/proc/self/maps").splitlines()) + 2 > most:
        return f"vm.max_map_count is {most}, and this process has as many mappings"
    return f"{left.get('MemAvailable', 0) >> 10} MiB are left on this machine"


def _numbers(path: str) -> dict[str, int]:
    """Return the numbers of a file of /proc with lines like ``VmSize: 1234 kB``."""
    rows = (line.split() for line in _read(path).splitlines())
    return {row[0][:-1]: int(row[1]) for row in rows if row[2:] == ["kB"]}


def _number(path: str) -> int:
    text = _read(path)
    return int(text) if text else 0


def _read(path: str) -> str:
    """Return a file of /proc; "" where there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
