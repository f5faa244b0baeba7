# SPDX-License-Identifier: GPL-2.0-or-later
"""Filters: what gets through in the guest."""

import pytest

from kpfs.engine.trace.text.trace_iter import trace_text
from tests.unit.engine.trace.catalogue import FILTERED, FILTERS
from tests.unit.engine.trace.fakes import filter_store

pytestmark = pytest.mark.guest


class Guest:
    def __init__(self, kernel):
        self.kernel = kernel
        self.ts = kernel.trace
        self.syscalls = kernel.guest.syscalls
        self.task = self.syscalls.host_task(1234, 0)
        self.syscalls.set_comm(self.task, "hitn")
        command = FILTERED.format("__x64_sys_getppid").encode()
        self.ts.dyn_events.run_commands(command, kernel.kprobe_events)
        self.event = self.ts.events.find("kprobes", "e")
        self.ts.array_events.enable_store(self.event, b"1")

    def hit(self):
        """Lines of the trace of one hit."""
        self.ts.ring.reset()
        self.syscalls.call(self.task, "getppid")
        return trace_text(self.ts).splitlines()[12:]


@pytest.fixture(scope="module")
def guest(one_cpu):
    return Guest(one_cpu)


@pytest.mark.parametrize(("text", "error", "passes", "shown"), FILTERS)
def test_what_passes(guest, text, error, passes, shown):
    assert filter_store(guest.ts, guest.event, text) == error
    assert len(guest.hit()) == passes


def test_filtered_hits_count_and_leave_the_buffer_alone(guest):
    filter_store(guest.ts, guest.event, "e == 7")
    guest.hit()
    before = guest.kernel.kprobe_events.profile()
    filter_store(guest.ts, guest.event, "e == 8")
    rings = guest.ts.ring.cpus
    content = [bytes(ring.pages) for ring in rings]
    guest.syscalls.call(guest.task, "getppid")
    assert guest.kernel.kprobe_events.profile() != before
    assert [bytes(ring.pages) for ring in rings] == content
