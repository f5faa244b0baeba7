# SPDX-License-Identifier: GPL-2.0-or-later
"""The forms in which what was recorded is written; the e2e test reads them by tools."""

import io
import json
from dataclasses import replace

from kpfs.record import writers
from kpfs.record.writers import Recording
from kpfs.session.records import Record


def record(**fields):
    return Record(1500, 1, 7, "sh", ".....", "kprobes", "e", fields, "")


def written(writer, recording):
    to = io.BytesIO()
    writer(recording, to)
    return to.getvalue()


def test_text():
    recording = Recording(text="line \udcff\n")
    assert written(writers.write_text, recording) == b"line \xff\n"


def test_json_lines():
    recording = Recording(records=[record(n=1), record(b=b"\1\2", s="x")])
    one, two = written(writers.write_json_lines, recording).splitlines()
    assert json.loads(one)["n"] == 1
    assert json.loads(two)["b"] == "0102"


def test_chrome_trace():
    recording = Recording(records=[record(ip=1 << 63, n=-5, s="x")])
    whole = json.loads(written(writers.write_chrome, recording))
    *names, event = whole["traceEvents"]
    assert {one["name"] for one in names} == {"process_name", "thread_name"}
    assert all(one["args"] == {"name": "sh"} for one in names)
    assert (event["ph"], event["s"], event["ts"]) == ("i", "t", 1.5)
    assert event["args"] == {"ip": hex(1 << 63), "n": -5, "s": "x", "cpu": 1}


def test_calls_are_slices():
    """Arguments of entry and return are in one event, each under a name of its own."""
    enter = replace(record(nr=0, fd=3, cpu=2), group="syscalls", event="sys_enter_read")
    leave = replace(
        enter, event="sys_exit_read", timestamp=2750, fields={"nr": 0, "fd": 4}
    )
    recording = Recording(records=[enter, leave])
    event = json.loads(written(writers.write_chrome, recording))["traceEvents"][-1]
    assert (event["name"], event["ph"]) == ("read", "X")
    assert (event["ts"], event["dur"]) == (1.5, 1.25)
    own = {"cpu": 1, "nr": 0, "fd": 3}
    assert event["args"] == {**own, "sys_enter_read.cpu": 2, "sys_exit_read.fd": 4}


def test_pages_of_trace_dat_are_aligned():
    files = dict.fromkeys(
        ("header_page", "header_event", "kallsyms", "printk_formats", "saved_cmdlines"),
        b"text",
    )
    pages = {0: b"A" * 4096, 1: b"B" * 8192}
    made = written(writers.write_trace_dat, Recording(cpus=pages, files=files))
    assert made.startswith(b"\x17\x08\x44tracing6\0")
    assert (made.index(b"A" * 4096), made.index(b"B" * 8192)) == (4096, 8192)
    assert len(made) == 16384
