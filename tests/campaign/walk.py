# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads, or writes to, files of a kernel that are drawn at random.

    walk.py DEED SEED COUNT PLACE...     below directories
    walk.py DEED SEED COUNT --api NAME   of kpfs.Kernel(kernel=NAME), in this process
    walk.py --run NAME WORD...           runs a command by kpfs.run(kernel=NAME)

Each path is named on stderr before it is used, so that one that hangs is known.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
from typing import Protocol

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATIENCE = 30  # s for one file
DEPTH = 12
MOST = 1 << 26  # bytes of a file that are read
# as long as memory, or each write stops the kernel: see tests.campaign.fuzz
LEFT_OUT = frozenset(
    """
    kcore mem pagemap kpageflags kpagecount kpagecgroup sysrq-trigger scan_size_mb
    zero full random urandom
    """.split()
)
NONSENSE = (b"\xff\xfe nonsense\n", b"-1 -1 -1\n", b"x" * 5000)


class Access(Protocol):
    """The files of a kernel, however they are reached. Methods raise OSError."""

    def names(self, path: str) -> list[str]: ...

    def read(self, path: str) -> object: ...

    def write(self, path: str, data: bytes) -> object: ...


class Directory:
    """Implements Access by system calls of this process."""

    def names(self, path: str) -> list[str]:
        if os.path.islink(path):
            raise NotADirectoryError(path)
        return os.listdir(path)

    def read(self, path: str) -> object:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            size = 0
            while size < MOST and (data := os.read(fd, 1 << 17)):
                size += len(data)
            return size
        finally:
            os.close(fd)

    def write(self, path: str, data: bytes) -> object:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        try:
            return os.write(fd, data)
        finally:
            os.close(fd)


class Api:
    """Implements Access by kpfs.Kernel."""

    def __init__(self, kernel: object) -> None:
        self.names = kernel.listdir  # type: ignore[attr-defined]
        self.read = kernel.read_bytes  # type: ignore[attr-defined]
        self.write = kernel.append  # type: ignore[attr-defined]


def draw(rng: random.Random, access: Access, place: str) -> str:
    """Return the path of a file below a directory, or "" if none is found."""
    path = place
    for _ in range(DEPTH):
        try:
            names = [n for n in access.names(path) if not n.isdigit()]
        except OSError:
            return path
        if not names:
            return ""
        name = rng.choice(sorted(names))
        if name in LEFT_OUT:
            return ""
        path = os.path.join(path, name)
    return ""


def walk(access: Access, deed: str, seed: int, count: int, places: list[str]) -> None:
    """Do a deed to so many files. What is refused is well."""
    rng = random.Random(seed)
    for _ in range(count):
        signal.alarm(PATIENCE)
        path = draw(rng, access, rng.choice(places))
        if not path:
            continue
        print(path, file=sys.stderr, flush=True)
        with contextlib.suppress(OSError):
            if deed == "read":
                access.read(path)
            else:
                access.write(path, rng.choice(NONSENSE))
    signal.alarm(0)


def main(words: list[str]) -> int:
    sys.path[:0] = [ROOT]
    if words[0] == "--run":
        import kpfs

        done = kpfs.run(words[2:], kernel=words[1])
        sys.stdout.write(done.stdout)
        sys.stderr.write(done.stderr)
        return done.returncode
    deed, seed, count, *places = words
    if places[0] == "--api":
        import kpfs

        with kpfs.Kernel(kernel=places[1]) as kernel:
            walk(Api(kernel), deed, int(seed), int(count), [""])
    else:
        walk(Directory(), deed, int(seed), int(count), places)
    print("fine")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
