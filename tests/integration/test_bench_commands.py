# SPDX-License-Identifier: GPL-2.0-or-later
"""The benchmarks' reading of commands' output, and their bare engine."""

import pytest

from bench.__main__ import show
from bench.commands import unexpected
from bench.guestcode import BareEngine, Loop
from bench.promises import Bound
from bench.row import Row

PRINTED = """=== Ftrace unit tests ===
[1] Kprobe dynamic event - adding and removing\t[PASS]
[2] Register/unregister many kprobe events\t[PASS]
[3] Uprobe event parser error log check\t[UNSUPPORTED]
"""


def test_verdicts():
    assert unexpected(PRINTED, 3) == ""
    assert unexpected(PRINTED, 4) == "3 verdicts of 4"
    assert unexpected("", 4) == "0 verdicts of 4"
    failed = PRINTED.replace("many kprobe events\t[PASS]", "many kprobe events\t[FAIL]")
    assert unexpected(failed, 3) == "Register/unregister many kprobe events: FAIL"
    unsupported = PRINTED.replace("removing\t[PASS]", "removing\t[UNSUPPORTED]")
    assert unexpected(unsupported, 3).endswith("removing: UNSUPPORTED")


def test_a_row_says_whether_it_is_right():
    row = Row("ftracetest", 3.0, "s", note="x: FAIL", wrong=True)
    bound = Bound("ftracetest", "ftracetest", least=False, limit=35, unit="s")
    shown = "ftracetest 3.000 s at most 35 s WRONG x: FAIL"
    assert show(row, bound).split() == shown.split()
    assert "MISSED" in show(row, bound._replace(limit=2))
    assert "WRONG" not in show(row._replace(wrong=False))


@pytest.mark.guest
def test_a_bare_engine_runs_the_guests_loop(kernel):
    loop = Loop(kernel.guest)
    bare = BareEngine(kernel.guest)
    bare(loop.at, 3)
    argument, _ = bare.registers
    assert bare.uc.reg_read(argument) == 0xFFFFFFFF  # in the last call
