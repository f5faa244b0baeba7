# SPDX-License-Identifier: GPL-2.0-or-later
"""Output of ``kpfs trace`` for Perfetto, read by Perfetto's own trace processor."""

import io
import json

import pytest

from kpfs.record.writers import Recording, write_chrome
from kpfs.session.records import Record, Value
from tests import perfetto

pytestmark = pytest.mark.skipif(
    perfetto.missing() != "", reason=f"missing: {perfetto.missing()}"
)
SLICES = """
    select slice.ts, slice.dur, slice.name, slice.category, slice.arg_set_id as args,
        thread.name as comm, thread.tid as tid
    from slice join thread_track on slice.track_id = thread_track.id
        join thread using (utid)
    order by slice.ts, slice.id
"""
ARGUMENTS = """
    select arg_set_id as args, key, coalesce(int_value, string_value) as value from args
    where key glob 'args.*'
"""
WRONG = "select name, value from stats where severity != 'info' and value > 0"


def read(trace):
    """Return the slices with their arguments; the trace must have no errors."""
    wrong, slices, arguments = perfetto.ask(trace, WRONG, SLICES, ARGUMENTS)
    assert wrong == []
    for row in slices:
        of_it = [one for one in arguments if one["args"] == row["args"]]
        row["args"] = {x["key"].removeprefix("args."): x["value"] for x in of_it}
    return slices


def test_a_command(kpfs, tmp_path):
    """Each record is there, to the nanosecond, in its thread and with its fields."""
    out = tmp_path / "out.json"
    mine = tmp_path / "mine"  # the guest's own programs open files like /etc/passwd
    mine.touch()
    opened = "p:opened do_sys_openat2 file=+0(%si):ustring"
    events = "-e", opened, "-e", "sched:sched_switch"
    done = kpfs("trace", *events, "-o", out, "--", "sh", "-c", f"cat {mine}; true")
    assert done.returncode == 0, done.stderr
    trace = out.read_bytes()
    written = [e for e in json.loads(trace)["traceEvents"] if e["ph"] != "M"]
    slices = read(trace)
    assert len(slices) == len(written) > 10
    assert [row["ts"] for row in slices] == [round(e["ts"] * 1000) for e in written]
    assert {row["dur"] for row in slices} == {0}
    (row,) = [row for row in slices if row["args"].get("file") == str(mine)]
    assert (row["comm"], row["category"], row["name"]) == ("cat", "kprobes", "opened")
    switches = [row for row in slices if row["name"] == "sched_switch"]
    assert {row["args"]["prev_pid"] for row in switches} >= {row["tid"]}


def test_calls(kpfs, tmp_path):
    """System calls, and functions with a probed return, are slices that nest."""
    out = tmp_path / "out.json"
    probes = "-e", "p:f do_sys_openat2", "-e", "r:r do_sys_openat2 ret=$retval:s64"
    done = kpfs(
        "trace", *probes, "-e", "syscalls:", "-o", out, "--", "cat", "/dev/null"
    )
    assert done.returncode == 0, done.stderr
    slices = [row for row in read(out.read_bytes()) if row["comm"] == "cat"]
    functions = [row for row in slices if row["name"] == "f"]
    calls = [row for row in slices if row["name"] == "openat"]
    assert len(functions) >= len(calls) >= 1
    for call in calls:
        (function,) = (
            row for row in functions if 0 < row["ts"] - call["ts"] < call["dur"]
        )
        assert 0 < function["ts"] + function["dur"] < call["ts"] + call["dur"]
        assert function["args"]["ret"] == call["args"]["ret"]


def test_fields_of_all_kinds():
    """A number that a double does not hold, text that is no UTF-8, bytes, arrays."""
    fields: dict[str, Value] = {
        "ip": (1 << 64) - 1,
        "n": -5,
        "text": 'a "b" \\ \n\u00e4',
        "odd": "\udcff",
        "fault": None,
        "raw": b"\1\2",
        "many": [1, 2],
        "cpu": 7,
    }
    times = 1_234_567_891, (1 << 53) + 1  # ns; the latter is after 104 days
    rest = 1, 9, "sh", ".....", "kprobes", "e", fields, ""
    to = io.BytesIO()
    write_chrome(Recording(records=[Record(time, *rest) for time in times]), to)
    row, late = read(to.getvalue())
    assert row["ts"] == times[0]
    assert abs(late["ts"] - times[1]) < 1000
    assert (row["tid"], row["comm"]) == (9, "sh")
    args = row["args"]
    assert args["ip"] == hex((1 << 64) - 1)
    assert (args["n"], args["raw"]) == (-5, "0102")
    assert args["text"] == fields["text"]
    assert (args["many[0]"], args["many[1]"]) == (1, 2)
    assert (args["cpu"], args["e.cpu"]) == (1, 7)
    assert "odd" in args
