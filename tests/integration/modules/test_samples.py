# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's sample modules and test of kprobes, unchanged, if they are at hand."""

import glob
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.modbox import ROOT

ADDRESS = r"[0-9a-f]{16}"
SEEN = {
    "samples/kprobes/kprobe_example.c": [
        rf"kprobe_init: Planted kprobe at {ADDRESS}",
        rf"handler_pre: <kernel_clone> p->addr = 0x{ADDRESS}, ip = {ADDRESS}, "
        "flags = 0x[0-9a-f]+",
        rf"handler_post: <kernel_clone> p->addr = 0x{ADDRESS}, flags = 0x[0-9a-f]+",
        rf"kprobe_exit: kprobe at {ADDRESS} unregistered",
    ],
    "samples/kprobes/kretprobe_example.c": [
        rf"Planted return probe at kernel_clone: {ADDRESS}",
        r"kernel_clone returned 777123 and took \d+ ns to execute",
        rf"kretprobe at {ADDRESS} unregistered",
        "Missed probing 0 instances of kernel_clone",
    ],
    "samples/trace_events/trace-events-sample.c": [],
    "samples/trace_events/trace_custom_sched.c": [],
    "lib/test_kprobes.c": [
        "    KTAP version 1",
        "    # Subtest: kprobes_test",
        r"    1\.\.6",
        *(rf"    ok {n} test_\w+" for n in range(1, 7)),
        "# kprobes_test: pass:6 fail:0 skip:0 total:6",
        "# Totals: pass:6 fail:0 skip:0 total:6",
        "ok 1 kprobes_test",
    ],
}


def trees():
    """Return possible places of a kernel's source: KPFS_LINUX, and below /usr/src."""
    named = [os.environ.get("KPFS_LINUX", ""), *sorted(glob.glob("/usr/src/linux*"))]
    return [Path(tree) for tree in named if tree]


def source():
    """A kernel's source."""
    found = (t for t in trees() if all((t / name).exists() for name in SEEN))
    return next(found, None)


@pytest.mark.parametrize("name", SEEN)
def test_sample(box, name, tmp_path):
    tree = source()
    if tree is None:
        pytest.skip("no kernel source (KPFS_LINUX, or unpacked below /usr/src)")
    made = tmp_path / Path(name).with_suffix(".ko").name
    tool = [ROOT / "scripts" / "build-module", "--in-tree", "-o", made, tree / name]
    done = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    box.kernel.state  # noqa: B018  (says that it has come up)
    box.log()
    box.insmod(made)
    if "example" in name:
        box.kernel.guest.host_tasks.of_process(777_123, 0, "child", 1)
    box.rmmod(made.stem.replace("-", "_"))
    log = box.log()
    assert len(log) == len(SEEN[name])
    for pattern, line in zip(SEEN[name], log, strict=True):
        assert re.fullmatch(pattern, line)
    assert box.list() == []
