# SPDX-License-Identifier: GPL-2.0-or-later
"""One static program inside a Linux kernel, and in QEMU, which emulates it too."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from bench import qemu_kernel
from bench.command import Command
from bench.qemu_kernel import build
from bench.row import Group, Row
from kpfs.linux.store import image, store

# what bench/raw.c does
KINDS = (
    *("integers", "branches", "table", "getppid", "memcpy"),
    *("page_faults", "fork"),
)


def inside(name: str, repeats: int) -> dict[str, float]:
    """Microseconds of a round by kind, inside a kernel.

    By this process's clock, as lines come: the kernel's own goes by what is executed.
    """
    least: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as scratch:
        kpfs = Command(Path(scratch))
        build(scratch, "raw", image.read_meta(store.folder(name)).arch)
        words = "run", "--kernel", name, "--inside", "--", "./raw", str(repeats)
        with subprocess.Popen(
            kpfs.command(*words), stdout=subprocess.PIPE, text=True, cwd=scratch
        ) as process:
            assert process.stdout
            before = perf_counter()
            for line in process.stdout:
                kind, rounds, _ = line.split()
                now = perf_counter()
                took = (now - before) / int(rounds) * 1e6
                least[kind] = min(took, least.get(kind, took))
                before = now
    assert process.returncode == 0
    return least


def group(name: str, *, against_qemu: bool = False) -> Group:
    """The rows of one kernel; against_qemu: in how many times of what QEMU takes."""
    store.folder(name)  # says where there is none

    def rows(repeats: int) -> Iterator[Row]:
        ours = inside(name, repeats)
        if not against_qemu:
            for kind in KINDS:
                yield Row(f"kernel_raw_{kind}", ours[kind] * 1e3, "ns")
            return
        script = f"raw {repeats} | sed 's/ [0-9]* / /; s/^/{qemu_kernel.BEGIN}/'\n"
        theirs = qemu_kernel.run(name, "raw", script)
        for kind in KINDS:
            note = f"ns: {ours[kind] * 1e3:.1f}, QEMU: {theirs[kind] * 1e3:.1f}"
            ratio = ours[kind] / theirs[kind]
            yield Row(f"kernel_raw_{kind}_to_qemu", ratio, "x", note=note)

    return rows
