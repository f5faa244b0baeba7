# SPDX-License-Identifier: GPL-2.0-or-later
"""One static program inside a Linux kernel, and in QEMU, which emulates it too."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench import qemu_kernel
from bench.command import Command
from bench.qemu import build
from bench.row import Group, Row
from kpfs.linux.store import store

TIMEOUT = 600  # s
# what bench/raw.c does, and how many times as long as in QEMU it may take
KINDS = {
    "integers": 1.3,
    "branches": 1.3,
    "table": 1.3,
    "getppid": 1.2,
    "memcpy": 1.2,
    "page_faults": None,
    "fork": None,
}


def inside(name: str, repeats: int) -> dict[str, float]:
    """Microseconds of a round by kind, inside a kernel."""
    with tempfile.TemporaryDirectory() as scratch:
        kpfs = Command(Path(scratch))
        build(scratch, "raw")
        words = "run", "--kernel", name, "--inside", "--", "./raw", str(repeats)
        answer = kpfs(*words, timeout=TIMEOUT, cwd=scratch)
    assert answer.returncode == 0, answer.stderr
    lines = (line.split() for line in answer.stdout.splitlines())
    return {kind: float(ns) / 1e3 for kind, ns in lines}


def group(name: str, *, against_qemu: bool = False) -> Group:
    """The rows of one kernel; against_qemu: in how many times of what QEMU takes."""
    store.folder(name)  # says where there is none

    def rows(repeats: int) -> Iterator[Row]:
        ours = inside(name, repeats)
        if not against_qemu:
            for kind in KINDS:
                yield Row(f"kernel_raw_{kind}", ours[kind] * 1e3, "ns")
            return
        script = f"raw {repeats} | sed s/^/{qemu_kernel.BEGIN}/\n"
        theirs = qemu_kernel.run(name, "raw", script)
        for kind, limit in KINDS.items():
            note = f"ns: {ours[kind] * 1e3:.1f}, QEMU: {theirs[kind] * 1e3:.1f}"
            ratio = ours[kind] / theirs[kind]
            yield Row(f"kernel_raw_{kind}_to_qemu", ratio, "", limit, note=note)

    return rows
