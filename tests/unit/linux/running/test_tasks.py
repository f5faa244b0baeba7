# SPDX-License-Identifier: GPL-2.0-or-later
"""The name of a task's process; the rest is tested with kernels."""

import os
from pathlib import Path
from typing import cast

from kpfs.linux.running.machine import LinuxMachine
from kpfs.linux.running.tasks import AgentTask


def test_name_of_a_process():
    hold, release = os.pipe()
    named, write = os.pipe()
    pid = os.fork()
    if not pid:
        for name in ("one", "an other"):
            Path("/proc/self/comm").write_text(name)
            os.write(write, b"n")
            os.read(hold, 1)
        os._exit(0)
    task = AgentTask(cast("LinuxMachine", None), 1, 2, pid, "")
    for name in ("one", "an other"):
        os.read(named, 1)
        assert task.read_comm() == name
        os.write(release, b"g")
    os.waitpid(pid, 0)
    assert task.read_comm() == ""
    for fd in (hold, release, named, write):
        os.close(fd)
