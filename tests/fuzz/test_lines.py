# SPDX-License-Identifier: GPL-2.0-or-later
"""A short share of what ``python -m tests.fuzz.lines`` does."""

import pytest

from kpfs.kernel import Kernel
from tests.fuzz.lines import Fuzzer, WrongError

pytestmark = pytest.mark.guest


@pytest.fixture
def quiet_kernel():
    kernel = Kernel(quiet=True)
    yield kernel
    kernel.stop()


@pytest.mark.parametrize(
    ("lines", "seed"), [(600, 1), pytest.param(100_000, 2, marks=pytest.mark.slow)]
)
def test_a_refused_line_changes_nothing(quiet_kernel, lines, seed):
    tally = Fuzzer(quiet_kernel, seed).run(lines)
    for kind in (
        "kprobe_events",
        "synthetic_events",
        "dynamic_events",
        "filter",
        "trigger",
        "set_event",
        "set_ftrace_filter",
    ):
        assert tally[f"{kind} ok"]
        assert tally[f"{kind} EINVAL"]


def test_it_sees_what_a_refused_line_leaves_behind(quiet_kernel, monkeypatch):
    fuzzer = Fuzzer(quiet_kernel, 1)
    trace = quiet_kernel.trace
    run = trace.run_commands

    def leaving(data, ops=None):
        run(b"p:left vfs_write\n", ops)
        run(data, ops)

    monkeypatch.setattr(trace, "run_commands", leaving)
    with pytest.raises(WrongError, match="left"):
        fuzzer.write("/tracing/kprobe_events", b"p:x nosuch\n")
