# SPDX-License-Identifier: GPL-2.0-or-later
"""The forms in which what was recorded is written; the e2e test reads them by tools."""

import io
import json

from kpfs.api.records import Record
from kpfs.record import writers
from kpfs.record.writers import Recording


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


def test_what_perfetto_opens():
    recording = Recording(records=[record(ip=1 << 63, n=-5, s="x")])
    whole = json.loads(written(writers.write_chrome, recording))
    *names, event = whole["traceEvents"]
    assert {one["name"] for one in names} == {"process_name", "thread_name"}
    assert all(one["args"] == {"name": "sh"} for one in names)
    assert (event["ph"], event["s"], event["ts"]) == ("i", "t", 1.5)
    assert event["args"] == {"ip": hex(1 << 63), "n": -5, "s": "x", "cpu": 1}


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
