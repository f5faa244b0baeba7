# SPDX-License-Identifier: GPL-2.0-or-later
"""oops: which lines of a kernel's log tell why a command ended."""

from types import SimpleNamespace
from typing import Any

import pytest

from kpfs.linux.inside.oops import Oopses

CUT = "------------[ cut here ]------------"
SAID = "Failed to disarm kprobe-ftrace at vfs_read+0x0/0x310 (error -2)"
WARNING = "WARNING: CPU: 0 PID: 90 at kernel/kprobes.c:1126 disarm+0x7e/0xa0"
BUG = "BUG: unable to handle page fault for address: ffffffffc0001000"
NUMBER = "Oops: 0010 [#1] PREEMPT SMP PTI"
PLACE = "RIP: 0010:0xffffffffc0001000"
OOPS = f"{BUG} at 0xffffffffc0001000"


def oopses(*log):
    """Return the oopses of a kernel that has said this since its start."""
    ram = bytearray(8)
    model = SimpleNamespace(number=lambda raw: int.from_bytes(raw, "little"))
    board = SimpleNamespace(ram=ram, arch=SimpleNamespace(model=model))
    rows = [SimpleNamespace(text=line) for line in log]
    kernel: Any = SimpleNamespace(
        machine=SimpleNamespace(board=board), dmesg=lambda: rows
    )
    made = Oopses(kernel, 0)
    if log:
        ram[:] = (1 << 7 | 1 << 9).to_bytes(8, "little")
    return made


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ((), []),
        ((CUT, SAID, WARNING), [f"{WARNING}: {SAID}"]),
        ((BUG, NUMBER, PLACE), [OOPS]),
        ((CUT, SAID, WARNING, BUG, NUMBER, PLACE), [OOPS, f"{WARNING}: {SAID}"]),
        ((BUG, NUMBER, PLACE, CUT, SAID, WARNING), [OOPS]),
    ],
    ids=["neither", "warning", "oops", "warning-oops", "oops-warning"],
)
def test_a_warning_hides_no_oops_that_follows(log, told):
    assert oopses(*log).first() == told
