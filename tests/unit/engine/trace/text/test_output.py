# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines of trace and trace_pipe.

This also tests kpfs.engine.trace.text.lines.
"""

import random
import struct
from contextlib import nullcontext

import pytest

from kpfs.engine.trace.symbols import ip_sym, pointer_id
from kpfs.engine.trace.text.lines import lat_fmt
from kpfs.engine.trace.text.output import TracePipe
from kpfs.engine.trace.text.trace_iter import trace_header, trace_text
from tests.unit.engine.trace.fakes import RUNTIME_BASE, Trace, Writer, record

HEADER_LINES = 12


def body(trace, cpu=None):
    return "".join(trace_text(trace.ts, cpu).splitlines(True)[HEADER_LINES:])


def name_task(trace, pid, comm):
    place = pid % trace.runtime.nr_cmdlines * 24
    struct.pack_into("<Q16s", trace.runtime._cmdlines, place, pid, comm)


def addr(trace, name):
    return trace.machine.kallsyms.lookup_name(name)[0].addr


def test_header(trace):
    lines = trace_text(trace.ts).splitlines()
    assert len(lines) == HEADER_LINES
    assert lines[0] == "# tracer: nop"
    assert lines[2] == "# entries-in-buffer/entries-written: 0/0   #P:2"
    assert lines[10] == "#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION"


def test_line_of_a_probe(trace):
    trace.write("p:e vfs_read")
    name_task(trace, 7, b"cat")
    number = trace.event("e").id
    Writer(trace, 1).write(
        1_234_567_999, record(number, addr(trace, "vfs_read") + 5, flags=0xC1, pc=0x21)
    )
    assert body(trace) == (
        "             cat-7       [001] D.z12     1.234568: e: (vfs_read+0x5/0x20)\n"
    )


def test_line_of_a_return_probe(trace):
    trace.write("r:e vfs_read")
    number = trace.event("e").id
    read, caller = addr(trace, "vfs_read"), addr(trace, "ksys_read") + 9
    writer = Writer(trace)
    writer.write(0, record(number, read, caller, pid=0))
    writer.write(1, record(number, read, RUNTIME_BASE + 3 * 256, pid=99))
    lines = body(trace).splitlines()
    assert lines[0].endswith("e: (ksys_read+0x9/0x20 <- vfs_read)")
    assert lines[0].lstrip().startswith("<idle>-0 ")
    assert lines[1].endswith("e: ([unknown/kretprobe'd] <- vfs_read)")
    assert lines[1].lstrip().startswith("<...>-99 ")


def test_addresses_outside_of_symbols(trace):
    machine = trace.machine
    assert ip_sym(machine.kallsyms, 0, True) == "0"
    assert ip_sym(machine.kallsyms, 0x1234, True) == "0x1234"
    assert ip_sym(machine.kallsyms, 0x1234, False) == "0x00001234"
    machine.add_function("setup", module="mod")
    assert (
        ip_sym(machine.kallsyms, addr(trace, "setup"), True) == "setup+0x0/0x20 [mod]"
    )
    assert ip_sym(machine.kallsyms, addr(trace, "setup"), False) == "setup"


@pytest.mark.parametrize(
    ("flags", "count", "text"),
    [
        (0, 0, "....."),
        (0x48, 0xFF, "..Zff"),
        (0x01, 1, "d..1."),
        (0x80, 0, "b...."),
        (0x24, 0, ".N..."),
        (0x04, 0, ".n..."),
        (0x20, 0, ".p..."),
        (0x08, 0, "..h.."),
        (0x18, 0, "..H.."),
        (0x10, 0, "..s.."),
        (0x40, 0, "..z.."),
    ],
)
def test_flags(flags, count, text):
    assert lat_fmt(flags, count) == text


def test_arguments(trace):
    trace.write(
        "p:e vfs_read a=%di b=%di:u8 c=%di:s8 d=%di:x16 e=%di:symbol "
        "f=+0(%di):s16[2] g=+0(%si):string h=$comm i=%di:b4@0/8"
    )
    event = trace.event("e")
    read = addr(trace, "vfs_read")
    fixed = bytearray(
        struct.pack("<QBbHQhhIIB", 1 << 63, 200, -56, 0x1F, read + 1, -1, 2, 0, 0, 9)
    )
    start = 16 + len(fixed)
    struct.pack_into("<I", fixed, 8 + 1 + 1 + 2 + 8 + 4, 4 << 16 | start)
    Writer(trace).write(0, record(event.id, read) + bytes(fixed) + b"abc\0zz")
    assert body(trace).partition(") ")[2] == (
        "a=0x8000000000000000 b=200 c=-56 d=0x1f e=vfs_read+0x1/0x20 "
        'f={-1,2} g="abc" h=(fault) i=9\n'
    )


def test_event_that_is_gone(trace):
    Writer(trace).write(0, record(4000, 1))
    assert body(trace).endswith(": Unknown type 4000\n")


def fill(trace, count):
    trace.write("p:e vfs_read")
    number, at = trace.event("e").id, addr(trace, "vfs_read")
    writer = Writer(trace)
    for i in range(count):
        writer.write(1000 * i, record(number, at))
    return writer


def test_counts_in_the_header(trace):
    fill(trace, 5)
    assert "written: 5/5 " in trace_header(trace.ts)
    pipe = TracePipe(trace.ts)
    pipe.read(1)
    assert "written: 4/4 " in trace_header(trace.ts)


def test_annotation_where_a_buffer_begins(trace):
    fill(trace, 1000)
    number, at = trace.event("e").id, addr(trace, "vfs_read")
    Writer(trace, 1).write(999_500, record(number, at))
    lines = body(trace).splitlines()
    assert lines[-2] == "##### CPU 1 buffer started ####"
    assert sum(line.startswith("#") for line in lines) == 1


def test_pipe_takes_records_out(trace):
    fill(trace, 3)
    whole = body(trace)
    pipe = TracePipe(trace.ts)
    assert pipe.ready()
    assert pipe.read(4096) == whole
    assert body(trace) == ""
    assert pipe.read(4096) == ""
    assert not pipe.ready()


def test_short_read_of_a_pipe(trace):
    fill(trace, 3)
    whole = body(trace)
    first, second, third = whole.splitlines(True)
    pipe = TracePipe(trace.ts)
    assert pipe.read(10) == first[:10]
    assert body(trace) == second + third
    # the rest of the line, and no more
    assert pipe.read(4096) == first[10:]
    assert pipe.read(len(second)) == second
    assert pipe.read(len(third) + 1) == third


def test_long_read_of_a_pipe(trace):
    trace.ts.ring.expand()
    fill(trace, 2000)
    whole = body(trace)
    pipe = TracePipe(trace.ts)
    parts = []
    while pipe.ready():
        parts.append(pipe.read(50000))
        assert 0 < len(parts[-1]) <= 50000
        assert parts[-1].endswith("\n")
    assert "".join(parts) == whole


@pytest.mark.parametrize("size", [100, 4096, 30000])
def test_reads_of_any_size_see_all(trace, size):
    """A read may end with the last record of a page."""
    trace.ts.ring.expand()
    fill(trace, 2000)
    whole = body(trace)
    pipe = TracePipe(trace.ts)
    text = ""
    while piece := pipe.read(size):
        text += piece
    assert text == whole


ORDERS = {
    "the first CPU first": [0] * 20 + [1] * 400,
    "the second CPU first": [1] * 20 + [0] * 400,
    "in turns, then one": [0, 1] * 100 + [1] * 300,
    "in turns": [0, 1] * 200,
}


def fill_in(trace, order):
    """Write records of CPUs, one microsecond apart; return their lines."""
    trace.ts.ring.expand()
    trace.write("p:e vfs_read")
    one = record(trace.event("e").id, addr(trace, "vfs_read"))
    writers = [Writer(trace, cpu) for cpu in range(2)]
    for i, cpu in enumerate(ORDERS[order]):
        writers[cpu].write(1000 * i, one)
    return body(trace)


@pytest.mark.parametrize("size", [100, 4096, 30000])
@pytest.mark.parametrize("order", ORDERS)
def test_records_of_a_cpu_end_between_two_reads(trace, order, size):
    whole, pipe, text = fill_in(trace, order), TracePipe(trace.ts), ""
    while piece := pipe.read(size):
        text += piece
    assert text == whole


@pytest.mark.parametrize("cpu", [0, 1])
@pytest.mark.parametrize("order", ORDERS)
def test_records_of_a_cpu_go_between_two_reads(trace, order, cpu):
    whole, pipe = fill_in(trace, order), TracePipe(trace.ts)
    rest = whole.removeprefix(pipe.read(4096))
    trace.ts.ring.cpus[cpu].reset()
    left = [line for line in rest.splitlines(True) if f"[00{cpu}]" not in line]
    assert pipe.read(1 << 20) == "".join(left)


def test_prepared_text_is_read(trace):
    trace.ts.ring.expand()
    fill(trace, 500)
    whole = body(trace)
    pipe = TracePipe(trace.ts)
    pipe.prepare(nullcontext(), 5000)
    assert body(trace) == whole  # nothing has been taken out
    text = pipe.read(5000)
    assert whole.startswith(text)
    assert len(text) > 4900
    assert body(trace) == whole[len(text) :]


def test_prepared_text_of_lost_records_is_dropped(trace):
    writer = fill(trace, 3)
    ring = trace.ts.ring
    number, at = trace.event("e").id, addr(trace, "vfs_read")

    def flood():
        for i in range(5000):
            writer.write(10**10 + i, record(number, at))

    for change in (ring.reset, lambda: TracePipe(trace.ts).read(100), flood):
        writer.write(9 * 10**9, record(number, at))
        pipe = TracePipe(trace.ts)
        pipe.prepare(nullcontext(), 4096)
        change()
        writer.write(2 * 10**10, record(number, at))
        text = pipe.read(1 << 20)
        assert "     9.000000" not in text
        assert "20.000000" in text
        ring.reset()


def test_nor_once_it_was_swapped_out(trace):
    fill(trace, 3)
    trace.ts.ring.alloc_spare()
    pipe = TracePipe(trace.ts)
    pipe.prepare(nullcontext(), 4096)
    trace.ts.ring.swap()
    assert pipe.read(4096) == ""


def test_pipe_says_what_was_lost(trace):
    fill(trace, 1000)
    lost = sum(ring.overrun for ring in trace.ts.ring.cpus)
    text = TracePipe(trace.ts).read(4096)
    assert text.startswith(f"CPU:0 [LOST {lost} EVENTS]\n")
    assert text.count("LOST") == 1


def test_pipe_ends_only_after_having_read_and_while_off(trace):
    fill(trace, 1)
    pipe = TracePipe(trace.ts)
    trace.ts.ring.on = False
    assert not pipe.at_end()
    pipe.read(4096)
    assert pipe.at_end()
    trace.ts.ring.on = True
    assert not pipe.at_end()


def test_pipe_of_one_cpu():
    trace = Trace()
    fill(trace, 2)
    assert TracePipe(trace.ts, 1).read(4096) == ""
    assert TracePipe(trace.ts, 0).read(4096).count("\n") == 2


def test_hashed_pointers():
    assert pointer_id(0) == "0" * 16
    assert pointer_id(0xFFFFFFFFFFFFFFFF) == "f" * 16
    ids = {pointer_id(0xFFFFFFFF81000000 + i) for i in range(1000)}
    assert len(ids) == 1000
    assert all(len(i) == 16 and i.startswith("0" * 8) for i in ids)


@pytest.mark.parametrize("seed", range(6))
def test_each_record_has_its_own_time(trace, seed):
    """The neighbours may be as large or not, of the same second or not."""
    rng = random.Random(seed)
    trace.write("p:small vfs_read")
    trace.write("p:large vfs_read a=%di b=%si")
    trace.ts.ring.expand()
    writers = [Writer(trace, cpu) for cpu in range(2)]
    place = addr(trace, "vfs_read")
    now, expected = 0, []
    for i in range(3000):
        if i % 300 < 9:
            now += rng.choice((0, 499, 500, 1000, 999_999_500, 1 << 30))
        elif i % 300 == 9:  # soon another second begins
            now = (now // 10**9 + 1) * 10**9 - 50_000
        else:
            now += 700
        cpu, large = rng.random() < 0.3, i % 1000 < 200 and rng.random() < 0.5
        number = trace.event("large" if large else "small").id
        args = struct.pack("<QQ", i, 7) if large else b""
        writers[cpu].write(now, record(number, place) + args)
        us = (now + 500) // 1000
        tail = (
            f"large: (vfs_read+0x0/0x20) a={i:#x} b=0x7"
            if large
            else ("small: (vfs_read+0x0/0x20)")
        )
        expected.append((now, cpu, f"{us // 1000000:5d}.{us % 1000000:06d}: {tail}"))
    lines = [line.split(" ..... ")[1] for line in body(trace).splitlines()]
    assert lines == [text for _, _, text in sorted(expected, key=lambda e: e[:2])]
