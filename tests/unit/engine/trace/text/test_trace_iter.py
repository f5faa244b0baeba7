# SPDX-License-Identifier: GPL-2.0-or-later
"""The text of trace in pieces, against the text made at once."""

import random
import struct
from contextlib import nullcontext
from functools import partial
from weakref import ref

import pytest

from kpfs.engine.trace.ring.cpu_ring import CpuRing
from kpfs.engine.trace.text import lines as lines_module
from kpfs.engine.trace.text.blocks import SourceRecords
from kpfs.engine.trace.text.lines import Lines, SharedLines
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
        self.numbers = [self.trace.event(name).id for name in ("small", "large")]
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
            data = record(self.numbers[large], self.place, pid=rng.randrange(5))
            data += struct.pack("<QQ", i, 7) if large else b""
            rng.choice(self.writers[: rng.choice((1, 3))]).write(self.now, data)


def pieces(recorder, iterator, *, prepared):
    """Return what readers of different sizes get."""
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
    assert not any(ring.overrun for ring in recorder.trace.ts.ring.cpus)
    begin = "".join(found).index("FUNCTION")
    assert "".join(found)[begin:] == whole[whole.index("FUNCTION") :]


def test_records_that_come_after_the_text_was_prepared_are_in_it():
    recorder = Recorder(1)
    recorder.write(3)
    iterator = TraceIterator(recorder.trace.ts)
    iterator.prepare(nullcontext(), 65536)
    recorder.write(2)
    assert iterator.read(65536) == trace_text(recorder.trace.ts)


def copied_pages(monkeypatch):
    """The pages that are copied from now on."""
    copied, original = [], CpuRing.copy

    def copy(ring, page, *others):
        copied.append((ring.cpu, page))
        return original(ring, page, *others)

    monkeypatch.setattr(CpuRing, "copy", copy)
    return copied


def test_a_small_read_copies_few_pages(monkeypatch):
    recorder = Recorder(1, size=1_000_000)
    recorder.write(20_000)
    copied = copied_pages(monkeypatch)
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
    """The kernel, too, shows a fetched record even if all has been cleared."""
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


class Twins:
    """Two readers at the same place: one shares what it makes with others."""

    def __init__(self, trace, shared):
        self.two = [TraceIterator(trace.ts, shared=s) for s in (shared, None)]

    def read(self, size, *, prepared):
        texts = []
        for iterator in self.two:
            if prepared:
                iterator.prepare(nullcontext(), size)
            texts.append(iterator.read(size))
        assert texts[0] == texts[1]

    def restart(self):
        for iterator in self.two:
            iterator.restart()


def change(recorder):
    """Something that changes the text of what was recorded, or what there is."""
    rng, ts = recorder.rng, recorder.trace.ts
    what = rng.randrange(6)
    if what == 0:
        recorder.trace.runtime.save_cmdline(rng.randrange(5), f"comm{rng.random()}")
    elif what == 1:
        name = rng.choice(("irq-info", "sym-addr", "sym-offset", "context-info"))
        ts.options.set(name, rng.random() < 0.5)
    elif what == 2:
        TracePipe(ts).read(rng.choice((100, 5000)))
    elif what == 3:
        rng.choice([ts.ring, *ts.ring.cpus]).reset()
    elif what == 4:
        recorder.trace.write("-:other")
        recorder.trace.write("p:other vfs_write")
    else:
        ts.events.remove(ts.events.by_id(recorder.numbers[0]))
        ts.events._next_id = recorder.numbers[0]  # as once all were given out
        recorder.trace.write(f"p:small{rng.randrange(1 << 40)} vfs_read")


def do_at_random(recorder, readers, times, limits):
    """Change, write, restart below these limits of a dice from 0 to 1, else read."""
    rng, (changes, writes, restarts) = recorder.rng, limits
    for _ in range(times):
        reader, dice = rng.choice(readers), rng.random()
        if dice < changes:
            change(recorder)
        elif dice < writes:
            recorder.write(rng.choice((1, 10, 300)))
        elif dice < restarts:
            reader.restart()
        else:
            size = rng.choice((10, 1000, 9999, 65536))
            reader.read(size, prepared=rng.random() < 0.5)


@pytest.mark.parametrize("seed", range(4))
def test_a_reader_that_shares_lines_gets_what_one_alone_gets(seed):
    recorder = Recorder(seed)
    shared = SharedLines()
    recorder.write(3000)
    readers = [Twins(recorder.trace, shared) for _ in range(4)]
    do_at_random(recorder, readers, 300, (0.05, 0.3, 0.35))


def test_a_reader_behind_others_copies_hardly_any_page(monkeypatch):
    recorder, shared = Recorder(1, size=400_000), SharedLines()
    recorder.write(9000)
    readers = [TraceIterator(recorder.trace.ts, shared=shared) for _ in range(3)]
    copied = copied_pages(monkeypatch)
    texts, counts = [], []
    for reader in readers:
        copied.clear()
        texts.append("".join(iter(partial(reader.read, 20_000), "")))
        counts.append(len(copied))
    assert len(set(texts)) == 1
    assert counts[0] > len(texts[0]) / (1 << 14)
    # at the begin and at the end they find for themselves what there is
    assert max(counts[1:]) <= 3 * 6


def test_lines_are_kept_for_the_next_reader_if_they_are_few(monkeypatch):
    recorder, shared = Recorder(1, size=400_000), SharedLines()
    recorder.write(500)
    ts = recorder.trace.ts

    def read():
        reader = TraceIterator(ts, shared=shared)
        text = "".join(iter(partial(reader.read, 20_000), ""))
        lines = shared.get(ts, ts.ring.in_ns)
        reader.close()
        return text, ref(lines)

    text, few = read()
    assert few()
    assert read() == (text, few)
    monkeypatch.setattr(lines_module, "FEW_TEXT", 1 << 10)
    assert read() == (text, few)
    assert few() is None


def test_lines_that_are_out_of_date_keep_no_text():
    """Others are made for each new name of a task, and many readers may wait."""
    recorder, shared = Recorder(1, size=400_000), SharedLines()
    recorder.write(9000)
    ts = recorder.trace.ts
    readers = [TraceIterator(ts, shared=shared) for _ in range(3)]
    for reader in readers:
        for _ in range(4):
            assert reader.read(20_000)
        old = shared.get(ts, ts.ring.in_ns)
        assert old.put_in_order() > 60_000
        ts.options.set("sym-addr", not ts.options["sym-addr"])
        assert shared.get(ts, ts.ring.in_ns) is not old
        assert not old.put_in_order()
    assert all(reader.read(20_000) for reader in readers)


def test_an_overtaken_reader_copies_hardly_any_page(monkeypatch):
    """Each at another record, so that they go the same way after a while only."""
    recorder, shared = Recorder(1, nr_cpus=2, size=100_000), SharedLines()
    recorder.write(3000)
    readers = [TraceIterator(recorder.trace.ts, shared=shared) for _ in range(2)]
    for size, reader in zip((5000, 70_000), readers, strict=True):
        reader.read(size)
    # one ring is filled behind the other, so that for a long time both readers stand
    # in the second where they were, each elsewhere
    both = recorder.writers
    for recorder.writers in ([both[0]], [both[1]]):
        recorder.write(4000)
    rings = recorder.trace.ts.ring.cpus
    assert all(ring.overrun > 500 for ring in rings)
    copied = copied_pages(monkeypatch)
    texts, counts = [], []
    for reader in readers:
        copied.clear()
        texts.append("".join(iter(partial(reader.read, 10_000), "")))
        counts.append([sum(cpu == ring.cpu for cpu, _ in copied) for ring in rings])
    assert all(text.count("LOST EVENTS") == 2 for text in texts)
    assert texts[0][-9999:] == texts[1][-9999:]
    assert min(counts[0]) > 20
    assert max(counts[1]) <= 10


@pytest.mark.parametrize("seed", range(3))
def test_a_reader_beside_others_gets_the_same_text(seed):
    """A reader gets the same from text that others have read before."""
    recorder = Recorder(seed, nr_cpus=1 + seed % 3, size=400_000)
    shared = SharedLines()
    recorder.write(5000)
    readers = [Twins(recorder.trace, shared) for _ in range(4)]
    do_at_random(recorder, readers, 150, (0.005, 0.2, 0.21))


def made_lines(monkeypatch):
    """The records whose lines are made from now on."""
    made: list[tuple[int, int]] = []
    make = Lines.lines

    def lines(self, cpu, part):
        made.extend((cpu, time) for time in part.records.times[part.first : part.last])
        return make(self, cpu, part)

    monkeypatch.setattr(Lines, "lines", lines)
    return made


def test_text_is_made_once(monkeypatch):
    recorder, shared = Recorder(1, size=200_000), SharedLines()
    recorder.write(5000)
    made = made_lines(monkeypatch)
    iterators = [TraceIterator(recorder.trace.ts, shared=shared) for _ in range(5)]
    iterators[0].read(1)  # and it has the file open
    texts = [pieces(recorder, iterator, prepared=True) for iterator in iterators[1:]]
    assert len(set(texts)) == 1
    assert len(made) == 5000
    # a new event is no reason to make it again, but a name that is shown is one
    recorder.trace.write("p:other vfs_write")
    again = TraceIterator(recorder.trace.ts, shared=shared)
    assert pieces(recorder, again, prepared=True) == texts[0]
    assert len(made) == 5000
    recorder.trace.runtime.save_cmdline(3, "cat")
    again.restart()
    assert " cat-3 " in pieces(recorder, again, prepared=True)
    assert len(made) == 10000


def test_reading_on_makes_no_line_again(monkeypatch):
    recorder, shared = Recorder(1, size=200_000), SharedLines()
    recorder.write(3000)
    other = TraceIterator(recorder.trace.ts, shared=shared)
    other.read(1 << 20)
    recorder.write(300)  # on pages that have been read in part
    made = made_lines(monkeypatch)
    iterator = TraceIterator(recorder.trace.ts, shared=shared)
    text = iterator.read(1 << 20)
    assert len(made) < 300 + 3 * 170
    made.clear()
    one = TraceIterator(recorder.trace.ts)
    assert "".join(iter(lambda: one.read(700), "")) == text
    assert len(made) == 3300


def test_it_is_forgotten_when_nobody_reads():
    recorder, shared = Recorder(1), SharedLines()
    recorder.write(3)
    iterator = TraceIterator(recorder.trace.ts, shared=shared)
    iterator.read(4096)
    lines = ref(iterator._lines)
    assert lines() is shared.get(recorder.trace.ts, in_ns=True)
    del iterator
    assert lines() is None


def test_the_kept_text_is_limited():
    recorder = Recorder(1, size=400_000)
    recorder.write(9000)
    lines = Lines(recorder.trace.ts, kept=50_000)
    for ring in recorder.trace.ts.ring.cpus:
        for page in ring.unread():
            records = lines.records(ring.cpu, page)
            lines.block([ring.cpu], [SourceRecords(0, records, 0, len(records.times))])
            assert lines.current()
            assert lines._size == sum(b.size for b in lines._blocks.values())
            assert lines._size <= 50_000
            assert len(lines._pages) < 20
    assert lines._size > 25_000


def test_a_name_that_changes_while_a_line_is_made(monkeypatch):
    """Another reader looks, before it is noted, whether all is as it was."""
    recorder = Recorder(1, nr_cpus=1)
    recorder.write(1)
    lines, ts = Lines(recorder.trace.ts), recorder.trace.ts
    find = ts.find_cmdline

    def found(pid):
        comm = find(pid)
        if comm == "<...>":
            recorder.trace.runtime.save_cmdline(pid, "late")
            assert lines.current()
        return comm

    monkeypatch.setattr(ts, "find_cmdline", found)
    recorder.now += 1
    place = struct.pack("<Q", recorder.place)
    assert "late-77 " in lines.alone(5, 0, struct.pack("<HHi", 0, 0, 77) + place)
    assert lines.current()


@pytest.mark.parametrize("pid", [1, 2])
def test_a_page_that_was_written_anew(pid):
    """The page has as many records: the same with other times, or others."""
    recorder, shared = Recorder(1, nr_cpus=1), SharedLines()
    ts, (writer,) = recorder.trace.ts, recorder.writers
    readers = [TraceIterator(ts, shared=shared) for _ in range(2)]
    for start, who in ((1_000_000, 1), (2_000_000, pid)):
        ts.ring.reset()
        for i in range(5):
            data = record(recorder.numbers[0], recorder.place, pid=who)
            writer.write(start + 700 * i, data)
        for reader in readers:
            reader.restart()
            assert reader.read(1 << 20) == trace_text(ts)
