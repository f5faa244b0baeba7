# SPDX-License-Identifier: GPL-2.0-or-later
"""The files of tracing/ that hand what they get to engine.trace."""

import errno
import os
from types import SimpleNamespace

import pytest

from kpfs.backends.guest.files import buffers, dynevents, tracers, tracing
from kpfs.base.errors import KernelError
from kpfs.fs.seqfile import MAX_WRITE
from tests.there import code, stand_in
from tests.unit.fakes import FakeKernel

TRUNCATE = os.O_WRONLY | os.O_TRUNC


class FakeTrace:
    """Keeps what it is asked."""

    def __init__(self, log):
        self.log = log
        self.busy = False
        self.current_tracer = "nop"
        self.options = {"pause-on-trace": False}
        self.ring = SimpleNamespace(on=True, reset=lambda: log.append("reset"))
        self.err_log = SimpleNamespace(
            text=lambda: "errors\n", clear=lambda: log.append("clear")
        )

    def set_tracer(self, name):
        if name not in ("nop", "function"):
            raise KernelError(errno.EINVAL, name)
        self.current_tracer = name

    def release_all(self, ops=None):
        if self.busy:
            raise KernelError(errno.EBUSY, "")
        self.log.append(("release_all", ops))

    def run_commands(self, data, ops=None):
        self.log.append((data, ops))

    def show(self, ops=None):
        return f"p:\xff {ops}\n"


class TraceKernel(FakeKernel):
    """With what the files of tracing/ ask."""

    kprobe_events = "ops"

    def __init__(self):
        super().__init__()
        self.trace = FakeTrace(self.calls)


@pytest.fixture
def kernel():
    return TraceKernel()


def test_kprobe_events_and_dynamic_events(kernel):
    file = dynevents.KprobeEvents(kernel)
    handle = file.open(os.O_RDWR | os.O_APPEND)
    assert handle.write(b"p vfs_read\n", 0) == 11
    assert handle.read(100, 0) == b"p:\xff ops\n"
    file.open(TRUNCATE)
    dynevents.DynamicEvents(kernel).open(TRUNCATE)
    file.open(os.O_RDONLY | os.O_TRUNC)
    assert kernel.calls == [
        (b"p vfs_read\n", "ops"),
        ("release_all", "ops"),
        ("release_all", None),
    ]


def test_busy_events_refuse_the_open(kernel):
    kernel.trace.busy = True
    assert code(dynevents.KprobeEvents(kernel).open, TRUNCATE) == "EBUSY"


def test_a_write_cut_by_fuse_is_taken_up_to_a_line(kernel):
    data = b"p vfs_read\n" * (MAX_WRITE // 11 + 1)
    taken = dynevents.KprobeEvents(kernel).open(os.O_WRONLY).write(data[:MAX_WRITE], 0)
    assert taken == MAX_WRITE // 11 * 11
    assert kernel.calls == [(data[:taken], "ops")]


def test_error_log(kernel):
    file = dynevents.ErrorLogFile(kernel)
    assert file.open(os.O_WRONLY).write(b"anything", 0) == 8
    assert kernel.calls == []
    file.open(TRUNCATE)
    assert kernel.calls == ["clear"]
    assert file.show() == "errors\n"


def test_profile_cannot_be_written(kernel):
    profile = dynevents.KprobeProfile(kernel).open(os.O_RDWR)
    assert code(profile.write, b"x", 0) == "EINVAL"


def test_trace_is_cleared_by_truncation_alone(kernel):
    file = tracing.Trace(kernel)
    assert file.open(os.O_WRONLY).write(b"anything", 0) == 8
    file.truncate(0)
    assert kernel.calls == []
    file.open(TRUNCATE)
    assert kernel.calls == ["reset"]


def test_tracing_on_takes_any_number(kernel):
    file = tracing.TracingOn(kernel)
    for data, shown in ((b"0", "0\n"), (b"2\n", "1\n"), (b"00", "0\n")):
        file.store(data)
        assert file.show() == shown
    for data in (b"-1", b"on", b"", b"0x0"):
        assert code(file.store, data) == "EINVAL"


def test_current_tracer(kernel):
    file = tracers.CurrentTracer(kernel)
    file.store(b" nop\n")
    assert file.show() == "nop\n"
    file.store(b"function")
    assert file.show() == "function\n"
    assert code(file.store, b"blk") == "EINVAL"


def test_trace_pipe(kernel):
    lines = ["one\n", "two\n"]
    pipe = SimpleNamespace(
        ready=lambda: bool(lines), read=lambda _count: lines.pop(0) if lines else ""
    )
    pipe.at_end = lambda: not lines and not kernel.trace.ring.on
    handle = tracing.TracePipeHandle(tracing.TracePipeFile(kernel), 0, 1)
    handle.pipe = stand_in(pipe)
    assert [handle.read(100, 0), handle.read(100, 4)] == [b"one\n", b"two\n"]
    assert not handle.ready()
    assert code(handle.read, 100, 8) == "EAGAIN"
    kernel.trace.ring.on = False
    assert handle.ready()
    assert handle.read(100, 8) == b""


@pytest.mark.parametrize(
    ("text", "cpus", "mask"),
    [
        (b"3\n", 2, 3),
        (b"\n", 2, 0),
        (b" 1,\n", 2, 1),
        (b"1\0x", 2, 1),
        (b"00000001,00000002", 40, 1 << 32 | 2),
        (b"1 2", 40, 1 << 32 | 2),
        (b"4", 2, "EOVERFLOW"),
        (b"0,1", 2, "EOVERFLOW"),
        (b"000000001", 2, "EOVERFLOW"),
        (b"0x1", 2, "EINVAL"),
        (b"x00000001", 2, "EINVAL"),
    ],
)
def test_masks_are_read_from_their_end(text, cpus, mask):
    if isinstance(mask, str):
        assert code(buffers.cpumask_parse, text, cpus) == mask
    else:
        assert buffers.cpumask_parse(text, cpus) == mask
