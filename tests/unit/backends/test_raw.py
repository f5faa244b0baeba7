# SPDX-License-Identifier: GPL-2.0-or-later
"""Pages of a ring and formats of events, as files have them."""

import struct

import pytest

from kpfs.backends.raw import entries, model_of, parse_cmdlines, parse_format, records
from kpfs.base.data_model import BIG_64, LITTLE_32, LITTLE_64, DataModel
from kpfs.base.units import PAGE_SIZE

BIG_32 = DataModel("big", 4)
FORMAT = """\
name: e
ID: 1500
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;
\tfield:s32 n;\toffset:16;\tsize:4;\tsigned:1;
\tfield:char comm[4];\toffset:20;\tsize:4;\tsigned:1;

print fmt: "(%lx)", REC->__probe_ip
"""


def record(pid, n):
    return struct.pack("<HBBiQi4s", 1500, 0, 0, pid, 0xFFFF, n, b"sh")


def entry(delta, data):
    return struct.pack("<I", delta << 5 | len(data) // 4) + data


def page(ts, *found):
    body = b"".join(found)
    return (struct.pack("<QQ", ts, len(body)) + body).ljust(PAGE_SIZE, b"\0")


def test_times():
    extend = struct.pack("<II", 5 << 5 | 30, 1)  # 1 << 27, and 5
    stamp = struct.pack("<II", 7 << 5 | 31, 0)
    large = struct.pack("<II", 3 << 5, 8) + b"data"
    pages = page(100, entry(2, b"abcd"), extend, entry(1, b"efgh"))
    pages += page(1 << 40, stamp, large, struct.pack("<I", 29))
    far = 102 + (1 << 27) + 5 + 1
    assert list(entries(pages, LITTLE_64)) == [
        (102, b"abcd"),
        (far, b"efgh"),
        (10, b"data"),
    ]


HEADER = """\
\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:{};\tsigned:1;
"""


@pytest.mark.parametrize("missed", [0, -(1 << 31), -(1 << 31) + (1 << 30)])
@pytest.mark.parametrize("size", [20, 192, PAGE_SIZE - 16])
@pytest.mark.parametrize("model", [LITTLE_64, BIG_64, LITTLE_32, BIG_32])
def test_the_kernel_s_data_model(model, size, missed):
    """The flags of what was missed are added as an int, below 0."""
    first = model.struct("ql").pack(9 << 30, size + missed)
    assert model_of(HEADER.format(model.long), b"", first) == model


def test_a_kernel_that_recorded_nothing():
    assert model_of(HEADER.format(8), b"") == LITTLE_64
    with pytest.raises(ValueError, match="no header of pages: 'x'"):
        model_of("x")


def test_flags_of_what_was_missed_are_no_size():
    raw = bytearray(page(1, entry(0, b"abcd")))
    raw[11] |= 0xC0
    assert [data for _, data in entries(bytes(raw), LITTLE_64)] == [b"abcd"]


def test_records_of_several_cpus():
    made = parse_format("kprobes", FORMAT)
    assert (made.group, made.name, made.number) == ("kprobes", "e", 1500)
    entries = [(12, 1, record(8, 3)), (10, 0, record(7, -1)), (19, 0, record(0, 2))]
    found = records(entries, {1500: made}, parse_cmdlines("7 seven\n"), LITTLE_64)
    assert [(r.timestamp, r.cpu, r.comm, r["n"]) for r in found] == [
        (10, 0, "seven", -1),
        (12, 1, "<...>", 3),
        (19, 0, "<idle>", 2),
    ]
    assert found[0].fields == {"__probe_ip": 0xFFFF, "n": -1, "comm": "sh"}
    assert found[0].flags == "....."
    assert records(entries, {}, {}, LITTLE_64)[0].event == "1500"


def test_what_is_no_format():
    with pytest.raises(ValueError, match="no format"):
        parse_format("g", "nothing")
