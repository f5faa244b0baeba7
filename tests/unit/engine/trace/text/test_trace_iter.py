# SPDX-License-Identifier: GPL-2.0-or-later
"""The text of trace in pieces, against the text made at once."""

import random
import struct
from contextlib import nullcontext

import pytest

from kpfs.engine.trace.ring.cpu_ring import CpuRing
from kpfs.engine.trace.text.output import TracePipe
from kpfs.engine.trace.text.trace_iter import TraceIterator, trace_text
from tests.unit.engine.trace.fakes import Trace, Writer, record


class Recorder:
    """Writes records of several kinds on all CPUs."""

    def __init__(self, seed, nr_cpus=3, size=60_000):
        self.rng = random.Random(seed)
        self.trace = Trace(nr_cpus)
        self.trace.write("p:small vfs_read")
        self.trace.write("p:large vfs_read a=%di b=%si")
        self.trace.ts.ring.resize(size)
        self.writers = [Writer(self.trace, cpu) for cpu in range(nr_cpus)]
        self.place = self.trace.machine.kallsyms.lookup_name("vfs_read")[0].addr
        self.now = 0

    def write(self, count):
        rng = self.rng
        self.now += 1
        for i in range(count):
            self.now += rng.choice((0, 1, 700, 700, 999_999_000))
            large = rng.random() < 0.3
            number = self.trace.event("large" if large else "small").id
            data = record(number, self.place, pid=rng.randrange(5))
            data += struct.pack("<QQ", i, 7) if large else b""
            rng.choice(self.writers[: rng.choice((1, 3))]).write(self.now, data)


def pieces(recorder, iterator, *, prepared):
    """What readers get who ask for different amounts."""
    found = []
    while True:
        size = recorder.rng.choice((1, 10, 100, 1000, 4096, 9999))
        following = iterator.copy()
        if prepared:
            following.prepare(nullcontext(), size)
            assert following.fits()
        text = following.read(size)
        assert len(text) <= size
        found.append(text)
        iterator = following
        if not text:
            return "".join(found)


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_pieces_are_the_whole(seed, prepared):
    recorder = Recorder(seed)
    recorder.write(recorder.rng.choice((0, 1, 500, 3000)))
    whole = trace_text(recorder.trace.ts)
    iterator = TraceIterator(recorder.trace.ts)
    assert pieces(recorder, iterator, prepared=prepared) == whole
    for cpu in range(3):
        one = TraceIterator(recorder.trace.ts, cpu)
        whole = trace_text(recorder.trace.ts, cpu)
        assert pieces(recorder, one, prepared=prepared) == whole


@pytest.mark.parametrize("seed", range(8))
def test_records_that_come_meanwhile_follow(seed):
    recorder = Recorder(seed, size=400_000)
    recorder.write(300)
    iterator, found = TraceIterator(recorder.trace.ts), []
    for _ in range(100):
        size = recorder.rng.choice((10, 500, 3000))
        if recorder.rng.random() < 0.5:
            iterator.prepare(nullcontext(), size)
        if recorder.rng.random() < 0.7:
            recorder.write(recorder.rng.randrange(20))
        found.append(iterator.read(size))
    found.append(iterator.read(1 << 30))
    whole = trace_text(recorder.trace.ts)
    assert recorder.trace.ts.ring.overruns == 0
    begin = "".join(found).index("FUNCTION")
    assert "".join(found)[begin:] == whole[whole.index("FUNCTION") :]


def test_records_that_come_after_the_text_was_prepared_are_in_it():
    recorder = Recorder(1)
    recorder.write(3)
    iterator = TraceIterator(recorder.trace.ts)
    iterator.prepare(nullcontext(), 65536)
    recorder.write(2)
    assert iterator.read(65536) == trace_text(recorder.trace.ts)


def test_who_reads_little_pays_for_little(monkeypatch):
    recorder = Recorder(1, size=1_000_000)
    recorder.write(20_000)
    copied, original = [], CpuRing.copy

    def copy(*args):
        copied.append(args)
        return original(*args)

    monkeypatch.setattr(CpuRing, "copy", copy)
    iterator = TraceIterator(recorder.trace.ts)
    for _ in range(10):
        copied.clear()
        assert len(iterator.read(4096)) == 4096
        assert len(copied) <= 2 * 3


def test_lost_and_begun_buffers_are_told_once():
    recorder = Recorder(1, size=9000)
    recorder.write(2000)
    iterator = TraceIterator(recorder.trace.ts)
    text = iterator.read(1000)
    recorder.write(3000)
    text += iterator.read(1 << 30)
    assert text.count("buffer started") <= 3
    assert text.count("LOST EVENTS") in (1, 2, 3)
    for line in text.splitlines():
        if "LOST" in line:
            assert line in {f"CPU:{cpu} [LOST EVENTS]" for cpu in range(3)}
    again = iterator.copy()
    again.restart()
    assert "started" not in again.read(1 << 30)


def test_it_does_not_fit_once_something_was_cleared_or_consumed():
    recorder = Recorder(1)
    ring = recorder.trace.ts.ring
    for change in (ring.reset, lambda: TracePipe(recorder.trace.ts).read(100)):
        recorder.write(100)
        iterator = TraceIterator(recorder.trace.ts)
        iterator.prepare(nullcontext(), 4096)
        assert iterator.fits()
        recorder.write(100)
        assert iterator.fits()
        change()
        assert not iterator.fits()


def test_the_next_record_is_taken_ahead():
    """As the kernel has it: what was fetched is shown, even if all has been cleared."""
    recorder = Recorder(1, nr_cpus=1)
    recorder.write(9)
    lines = trace_text(recorder.trace.ts).splitlines(True)
    begin = "".join(lines[:14])
    iterator = TraceIterator(recorder.trace.ts)
    assert iterator.read(len(begin) - 5) == begin[:-5]
    recorder.trace.ts.ring.reset()
    assert iterator.read(1 << 20) == begin[-5:] + lines[14]
    assert iterator.read(1 << 20) == ""


def test_readers_are_counted():
    recorder = Recorder(1)
    iterator = TraceIterator(recorder.trace.ts)
    with pytest.raises(Exception, match="EBUSY"):
        recorder.trace.ts.ring.resize(9000)
    iterator.close()
    recorder.trace.ts.ring.resize(9000)


def test_names_are_those_of_the_time_of_reading():
    recorder = Recorder(1, nr_cpus=1)
    recorder.write(60)
    ts, iterator = recorder.trace.ts, TraceIterator(recorder.trace.ts)
    iterator.read(2000)
    for pid in range(1, 5):
        recorder.trace.runtime.save_cmdline(pid, "newcomm")
    iterator.read(160)  # the rest of a line, which was made before
    assert "<...>" not in iterator.read(500)
    ts.options.set("irq-info", False)
    iterator.read(160)
    assert " ..... " not in iterator.read(500)
    recorder.trace.write("-:small")
    recorder.trace.write("-:large")
    assert "Unknown type" in iterator.read(500)


def test_going_back_in_time():
    """Seconds are told right although the text of others is remembered."""
    recorder = Recorder(3, nr_cpus=1, size=400_000)
    recorder.write(2000)
    whole = trace_text(recorder.trace.ts)
    iterator = TraceIterator(recorder.trace.ts)
    iterator.read(len(whole) // 2)
    iterator.restart()
    assert iterator.read(1 << 30) == whole
