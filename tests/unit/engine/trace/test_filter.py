# SPDX-License-Identifier: GPL-2.0-or-later
"""Filters: what is refused, what the file shows, and what gets through in the guest."""

import errno
import re

import pytest

from kpfs.engine.errors import KernelError
from kpfs.engine.trace.text.output import trace_text
from tests.unit.engine.trace.catalogue import FILTERS
from tests.unit.engine.trace.fakes import Trace

COMMAND = r'p:e {} a=\5:s8 b=\"hello" c=$comm d=\-3:s32 e=\7:u64'


def store(trace, event, text):
    """errno's name, or "" """
    try:
        trace.filter_store(event, text.encode("latin-1"))
    except KernelError as error:
        return errno.errorcode[error.errno]
    return ""


@pytest.fixture(scope="module")
def shared():
    trace = Trace()
    trace.write(COMMAND.format("vfs_read"))
    return trace


@pytest.mark.parametrize(("text", "error", "passes", "shown"), FILTERS)
def test_answer_and_text(shared, text, error, passes, shown):
    event = shared.event("e")
    shared.ts.err_log.clear()
    assert store(shared.ts, event, text + "\n") == error
    if shown is None:
        shown = "none" if text.strip() == "0" else text.rstrip()
    assert shared.ts.filter_text(event) == shown + "\n"
    assert bool(shared.ts.err_log.text()) == bool(error)
    filtered = not error and text.strip() != "0"
    file = shared.file("e")
    assert bool(file.filter_prog) == filtered
    shared.on("e")
    assert event.probes[0].guest.filter == (file.filter_prog or 0)
    shared.off("e")


def test_entry_of_the_error_log(shared):
    store(shared.ts, shared.event("e"), "nosuch == 1\n")
    log = shared.ts.err_log.text()
    assert re.sub(r"^\[.*?\]", "[TS]", log.splitlines()[-3]) == (
        "[TS] event filter parse error: error: Field not found"
    )
    assert log.splitlines()[-2:] == [
        "  Command: nosuch == 1",
        " " * (11 + 7) + "^",
    ]


def test_filter_of_a_group(trace):
    trace.write("p:a vfs_read x=%di\np:b vfs_write y=%di")
    trace.ts.group_filter_store("kprobes", b"x > 5\n")
    assert trace.file("a").filter_text() == "x > 5\n"
    assert trace.file("b").filter_text() == (
        "x > 5\n^\nparse_error: Couldn't find or set field in one of a subsystem's "
        "events\n\n"
    )
    trace.ts.group_filter_store("kprobes", b"0\n")
    assert trace.file("b").filter_text() == "none\n"
    with pytest.raises(KernelError) as error:
        trace.ts.group_filter_store("nosuch", b"0")
    assert error.value.errno == errno.ENODEV


def test_too_long(shared):
    event = shared.event("e")
    assert store(shared.ts, event, "e == 7" + " " * 4090) == "EINVAL"
    assert store(shared.ts, event, f'b == "{"x" * 256}"') == "EINVAL"
    assert "Operand too long" in shared.ts.filter_text(event)
    assert store(shared.ts, event, f'b == "{"x" * 255}"') == ""


class Guest:
    def __init__(self, kernel):
        self.kernel = kernel
        self.ts = kernel.trace
        self.syscalls = kernel.guest.syscalls
        self.task = self.syscalls.host_task(1234, 0)
        self.syscalls.set_comm(self.task, "hitn")
        command = COMMAND.format("__x64_sys_getppid").encode()
        self.ts.run_commands(command, kernel.kprobe_events)
        self.event = self.ts.events.find("kprobes", "e")
        self.ts.enable_store(self.event, b"1")

    def hit(self):
        """Lines of the trace of one hit."""
        self.ts.ring.reset()
        self.syscalls.call(self.task, "getppid")
        return trace_text(self.ts).splitlines()[12:]


@pytest.fixture(scope="module")
def guest():
    from kpfs.kernel.root import Kernel

    kernel = Kernel(nr_cpus=1, quiet=True)
    with kernel.lock:
        yield Guest(kernel)
    kernel.stop()


@pytest.mark.guest
@pytest.mark.parametrize(("text", "error", "passes", "shown"), FILTERS)
def test_what_passes(guest, text, error, passes, shown):
    assert store(guest.ts, guest.event, text) == error
    assert len(guest.hit()) == passes


@pytest.mark.guest
def test_filtered_hits_count_and_leave_the_buffer_alone(guest):
    store(guest.ts, guest.event, "e == 7")
    guest.hit()
    before = guest.kernel.kprobe_events.profile()
    store(guest.ts, guest.event, "e == 8")
    rings = guest.ts.ring.cpus
    content = [bytes(ring.pages) for ring in rings]
    guest.syscalls.call(guest.task, "getppid")
    assert guest.kernel.kprobe_events.profile() != before
    assert [bytes(ring.pages) for ring in rings] == content
