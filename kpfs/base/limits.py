# SPDX-License-Identifier: GPL-2.0-or-later
"""The limits of setrlimit(2) below which no kernel can be served to its end.

A process that meets one of them in the middle gives answers that no kernel gives, or
none. So it is refused before it begins.
"""

from __future__ import annotations

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
