# SPDX-License-Identifier: GPL-2.0-or-later
"""Fuzz for a while: ``python -m tests.fuzz [--mount DIR] [WHAT [NUMBER [SEED]]]``.

Prints how often each answer came.  The exit status is 1 if something was wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.guest.machine import Guest
from tests import harness
from tests.fuzz import fuzz, lines, mount_lines, syscalls


def _lines(number: int, seed: int) -> Mapping[str, int]:
    kernel = GuestKernel(quiet=True)
    try:
        return lines.Fuzzer(kernel, seed).run(number)
    finally:
        kernel.stop()


def _syscalls(number: int, seed: int) -> Mapping[str, int]:
    fuzzer = syscalls.Fuzzer(seed, Guest(2, quiet=True))
    fuzzer.run(number)
    return fuzzer.counts


ON_A_MOUNT: dict[str, Callable[[Path, int, int], Mapping[str, int]]] = {
    "bytes": fuzz.fuzz,
    "mount-lines": lambda top, n, seed: mount_lines.MountFuzzer(top, seed).run(n),
}
WITHOUT = {"lines": _lines, "syscalls": _syscalls}


def tally(arguments: argparse.Namespace) -> Mapping[str, int]:
    number, seed = arguments.number, arguments.seed
    if arguments.what in WITHOUT:
        return WITHOUT[arguments.what](number, seed)
    with tempfile.TemporaryDirectory() as scratch:
        kpfs = harness.Kpfs(Path(scratch))
        top = arguments.mount or kpfs.mount("--quiet-guest")
        try:
            return ON_A_MOUNT[arguments.what](top, number, seed)
        finally:
            kpfs.finish()


def main() -> int:
    parser = argparse.ArgumentParser("fuzz")
    parser.add_argument("--mount", type=Path, help="one that is there, else a new one")
    parser.add_argument("what", nargs="?", default="bytes", help="default: %(default)s",
                        choices=(*ON_A_MOUNT, *WITHOUT))  # fmt: skip
    parser.add_argument("number", nargs="?", type=int, default=100_000)
    parser.add_argument("seed", nargs="?", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    begin = time.monotonic()
    try:
        counts = tally(arguments)
    except harness.WrongError as error:
        print(f"BUG: {error}")
        return 1
    for word, number in sorted(counts.items()):
        print(f"{number:8} {word}")
    print(f"{arguments.number} {arguments.what} in {time.monotonic() - begin:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
