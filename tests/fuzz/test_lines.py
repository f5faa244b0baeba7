# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines for tracefs: one that is refused changes nothing."""

import pytest

from kpfs.backends.guest.root.guest_kernel import GuestKernel
from tests.fuzz.lines import KINDS, Fuzzer
from tests.fuzz.mount_lines import DEFINITIONS, MountFuzzer
from tests.harness import WrongError

pytestmark = pytest.mark.guest


@pytest.fixture
def quiet_kernel():
    kernel = GuestKernel(quiet=True)
    yield kernel
    kernel.stop()


@pytest.mark.parametrize(
    ("lines", "seed"), [(600, 1), pytest.param(100_000, 2, marks=pytest.mark.slow)]
)
def test_a_refused_line_changes_nothing(quiet_kernel, lines, seed):
    tally = Fuzzer(quiet_kernel, seed).run(lines)
    for kind in KINDS:
        assert tally[f"{kind} ok"]
        assert tally[f"{kind} EINVAL"]


def test_it_sees_a_refused_line_that_changes_events(quiet_kernel, monkeypatch):
    fuzzer = Fuzzer(quiet_kernel, 1)
    dyn_events = quiet_kernel.trace.dyn_events
    run = dyn_events.run_commands

    def leaving(data, ops=None):
        run(b"p:left vfs_write\n", ops)
        run(data, ops)

    monkeypatch.setattr(dyn_events, "run_commands", leaving)
    with pytest.raises(WrongError, match="left"):
        fuzzer.write("/tracing/kprobe_events", b"p:x nosuch\n")


@pytest.mark.fuse
def test_it_sees_that_through_a_mount_too(kpfs, monkeypatch):
    fuzzer = MountFuzzer(kpfs.mount("--quiet-guest"), 1)
    show = fuzzer.show
    texts = iter(("", "p:kprobes/left vfs_write\n"))
    monkeypatch.setattr(
        fuzzer, "show", lambda name: next(texts) if name == DEFINITIONS else show(name)
    )
    with pytest.raises(WrongError, match="left"):
        fuzzer.write("/tracing/kprobe_events", b"p:x nosuch\n")
