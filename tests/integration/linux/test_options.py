# SPDX-License-Identifier: GPL-2.0-or-later
"""linux/package/options.tsv, by what kernels have whose options are off."""

import pytest

from kpfs.base import syscall_numbers as nr
from kpfs.linux.package import options
from kpfs.linux.running import features
from kpfs.linux.running.linux_kernel import LinuxKernel
from kpfs.linux.running.machine import Op
from kpfs.linux.store import image
from tests import harness

TRACING = "/sys/kernel/tracing"
FOLDERS = (
    *(TRACING, f"{TRACING}/osnoise", f"{TRACING}/hwlat_detector"),
    *(f"{TRACING}/events/sched/sched_switch", f"{TRACING}/per_cpu/cpu0"),
    "/sys/kernel/debug/kprobes",
)
GROUPS = {"BPF program": options.PROGRAM, "BPF map": options.MAP}


@pytest.mark.parametrize(
    "name",
    [
        harness.on(harness.KERNEL),
        harness.on(harness.ARM64),
        harness.on(harness.RISCV64),
    ],
)
def test_what_needs_an_option_is_not_there_without_it(monkeypatch, name):
    monkeypatch.setenv("XDG_DATA_HOME", str(harness.kernels()))
    linux = LinuxKernel(name, quiet=True, callers=False)
    try:
        linux.start()
        with linux.lock:
            there = present(linux)
    finally:
        linux.stop()
    config = image.read_config(linux.folder)
    off = {key for key in options.needed() if options.lacking_for(config, *key)}
    assert len(off) > 20
    assert off & there == set()
    assert len(there & set(options.needed())) > 50


def present(linux):
    """Return the kinds and names of features that a kernel has."""
    agent, tasks = linux.tasks.agent, linux.tasks

    def is_there(path):
        return tasks.attempt(agent, [Op(nr.ACCESS, (path.encode() + b"\0", 0))]) == [0]

    asked = [*features._Asked(linux).all()]
    tried = {(GROUPS.get(row.group, row.group), row.name) for row in asked
             if row.value == features.YES}  # fmt: skip
    names = [name for kind, name in options.needed() if kind == options.FILE]
    return tried | {
        (options.FILE, name)
        for name in names
        if any(is_there(f"{folder}/{name}") for folder in FOLDERS)
    }
