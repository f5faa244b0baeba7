# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.web.trace, and kpfs.session.paths below it."""

import os

import pytest

from kpfs.session.paths import MountedPath
from kpfs.web.trace import TraceTail, parsed, rows

ENTRY = "    a-b 1-7     [001] d..1.   2.000001: e: (vfs_read+0x0/0xf0) count=0x1"
RETURN = "    a-b 1-7     [000] .....   2.000031: g: (ksys_read+0x3c/0x70 <- vfs_read)"
OTHER = "         cat-12    (     12) [000] .....     1.5: sched_wakeup: comm=x pid=1"


def test_records_are_read_back():
    record = parsed(ENTRY)
    assert record is not None
    assert (record.comm, record.pid, record.cpu) == ("a-b 1", 7, 1)
    assert (record.timestamp, record.event) == (2_000_001_000, "e")
    assert record.text == "e: (vfs_read+0x0/0xf0) count=0x1"
    other = parsed(OTHER)
    assert other is not None
    assert (other.comm, other.pid, other.event) == ("cat", 12, "sched_wakeup")
    assert parsed("# tracer: nop") is parsed("CPU:0 [LOST 3 EVENTS]") is None


def test_a_return_gives_its_entry_a_length():
    found = [record for line in (ENTRY, RETURN, OTHER) if (record := parsed(line))]
    assert [row[4:] for row in rows(found)] == [
        ["e", "e: (vfs_read+0x0/0xf0) count=0x1", 30_000],
        ["sched_wakeup", "sched_wakeup: comm=x pid=1", None],
    ]


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "tracing/per_cpu/cpu0").mkdir(parents=True)
    return tmp_path


def write(tree, entries, text):
    stats = f"entries: {entries}\noldest event ts: 1.0\nnow ts: {os.urandom(2).hex()}\n"
    (tree / "tracing/per_cpu/cpu0/stats").write_text(stats)
    (tree / "tracing/trace").write_text(text)


def read(tail, most=10):
    records, left_out = tail.read(most)
    return [record.pid for record in records], left_out


def line(pid):
    return f"cat-{pid} [000] ..... {pid}.0: e: (a+0x0/0x1)\n"


def test_the_file_is_closed_while_nothing_comes(tree):
    tail = TraceTail(MountedPath(tree))
    write(tree, 0, "# nothing\n")
    assert read(tail) == ([], 0)
    assert tail._file is None  # the first event may be enabled
    write(tree, 3, "# tracer\n" + line(1) + line(2) + line(os.getpid()))
    assert read(tail) == ([1, 2], 0)
    assert tail._file is not None
    assert read(tail) == ([], 0)
    assert tail._file is None
    write(tree, 5, "# tracer\n" + line(1) + line(2) + line(os.getpid()) + line(3))
    assert read(tail) == ([3], 0)
    tail.close()


def test_what_comes_while_it_is_open_may_be_cut_anywhere(tree):
    tail = TraceTail(MountedPath(tree))
    first, second = line(5), line(6)
    write(tree, 1, first + second[:7])
    assert read(tail) == ([5], 0)
    write(tree, 2, first + second)
    assert read(tail) == ([6], 0)
    write(tree, 4, first + second + line(7) + line(8) + line(9))
    records, left_out = read(tail, 2)
    assert (records, left_out) == ([8, 9], 1)
    tail.close()
