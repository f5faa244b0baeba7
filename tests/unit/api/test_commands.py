# SPDX-License-Identifier: GPL-2.0-or-later
"""The arguments of kpfs.run(), and what it finds of earlier runs."""

from kpfs.api import commands
from kpfs.session.records import without_task


def test_options():
    made = commands._options(1, {"PREEMPT": False, "MODULES": "y"}, "6.1", True)
    assert " ".join(made) == (
        "--cpus 1 --config PREEMPT=n --config MODULES=y --kernel 6.1 --quiet-guest"
    )
    assert commands._options(0, None, "6.1", False) == ["--kernel", "6.1"]


def test_records_of_the_shell_are_left_out():
    ours = "              sh-12      [000] .....     0.1: e: (f)\n"
    theirs = "             cat-123     [001] .....     0.1: e: (f)\n"
    trace = f"# tracer: nop\n{theirs}{ours}{theirs}"
    assert without_task(trace, "12") == f"# tracer: nop\n{theirs}{theirs}"
    assert without_task(trace, "") == trace


def test_the_log_as_dmesg_prints_it():
    text = "6,0,1234567,-;one\n4,1,5,-;two; three\n"
    assert commands.as_dmesg(text) == "[    1.234567] one\n[    0.000005] two; three\n"
