# SPDX-License-Identifier: GPL-2.0-or-later
"""Filters: what is refused, what the file shows, and what gets through."""

import pytest

from kpfs.engine.trace.text.trace_iter import trace_text
from tests.harness import ROOT
from tests.unit.engine.trace.fakes import filter_store

pytestmark = pytest.mark.guest
# the event that is filtered, on a function
FILTERED = r'p:e {} a=\5:s8 b=\"hello" c=$comm d=\-3:s32 e=\7:u64'


def recorded_filters():
    """Yield what Linux 6.1 made of filters of a call by hitn on CPU 0.

    Text, errno, whether a record was written, what the file showed (None: the text).
    """
    yield "!(" * 1301 + "e == 7" + ")" * 1301, "", False, None
    for line in (ROOT / "tests/data/filters-6.1.tsv").read_text().splitlines()[1:]:
        text, error, recorded, shown = line.split("\t")
        yield text, error, recorded == "yes", shown.replace("\\n", "\n") or None


class Guest:
    def __init__(self, kernel):
        self.kernel = kernel
        self.ts = kernel.trace
        self.syscalls = kernel.guest.syscalls
        tasks = kernel.guest.host_tasks
        self.task = tasks.of_process(1234, 0)
        tasks.set_comm(self.task, "hitn")
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


def test_what_is_shown_and_what_passes(guest):
    for text, error, passes, shown in recorded_filters():
        guest.ts.err_log.clear()
        assert filter_store(guest.ts, guest.event, text + "\n") == error, text
        assert bool(guest.ts.err_log.text()) == bool(error), text
        if shown is None:
            shown = "none" if text.strip() == "0" else text.rstrip()
        file = guest.ts.array_events.file(guest.event)
        assert file.filter_text() == shown + "\n", text
        assert len(guest.hit()) == passes, text


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
