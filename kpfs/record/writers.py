# SPDX-License-Identifier: GPL-2.0-or-later
"""Writers of a recording: text, JSON lines, Perfetto and trace-cmd."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import BinaryIO

from kpfs.base.data_model import LITTLE_64, DataModel
from kpfs.base.shown import shown
from kpfs.base.units import PAGE_SIZE
from kpfs.record.spans import Span, spans
from kpfs.session.records import Record, Value

MAX_SAFE = 1 << 53  # integers up to there are the same in every reader of JSON
_MAGIC = b"\x17\x08\x44tracing"
_VERSION = b"6"
_ORDERS = "little", "big"


@dataclass
class Recording:
    """The data that was kept of a trace."""

    text: str = ""  # tracing/trace
    records: list[Record] = field(default_factory=list)
    cpus: dict[int, bytes] = field(default_factory=dict)  # pages of trace_pipe_raw
    # texts of formats, by the event's group
    formats: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)  # others, by their names
    model: DataModel = LITTLE_64  # the kernel's


def write_text(recording: Recording, to: BinaryIO) -> None:
    """Write the text of tracing/trace."""
    text = shown(recording.text) if to.isatty() else recording.text
    to.write(text.encode("utf-8", "surrogateescape"))


def write_json_lines(recording: Recording, to: BinaryIO) -> None:
    """Write one JSON object a line, made by Record.as_dict()."""
    for record in recording.records:
        to.write(_json(_plain(record.as_dict())) + b"\n")


def write_chrome(recording: Recording, to: BinaryIO) -> None:
    """Write the trace event format of Chrome, which ui.perfetto.dev opens.

    A call whose entry and return were recorded is a slice of its thread; any other
    record is an instant. Numbers that JSON's readers would round are written in
    hexadecimal. A field whose name is taken, such as cpu, becomes ``EVENT.cpu``.
    """
    events: list[object] = [
        {"name": name, "ph": "M", "pid": pid, "tid": pid, "args": {"name": comm}}
        for pid, comm in sorted({(r.pid, r.comm) for r in recording.records})
        for name in ("process_name", "thread_name")
    ]
    events += map(_chrome_event, spans(recording.records))
    to.write(_json({"traceEvents": events, "displayTimeUnit": "ns"}) + b"\n")


def _chrome_event(span: Span) -> dict[str, object]:
    begin, end = span
    arguments: dict[str, Value] = {"cpu": begin.cpu}
    for record in (begin, end) if end else (begin,):
        for name, value in _plain(record.fields).items():
            if isinstance(value, int) and abs(value) >= MAX_SAFE:
                value = hex(value)
            if arguments.get(name, value) != value or name == "cpu":
                name = f"{record.event}.{name}"
            arguments[name] = value
    event = {
        "name": begin.event,
        "cat": begin.group,
        "ph": "i",
        "s": "t",
        "ts": begin.timestamp / 1000,
        "pid": begin.pid,
        "tid": begin.pid,
        "args": arguments,
    }
    if end:
        event["name"] = begin.event.removeprefix("sys_enter_")
        event["ph"], event["dur"] = "X", (end.timestamp - begin.timestamp) / 1000
        del event["s"]
    return event


def _plain(values: Mapping[str, Value]) -> dict[str, Value]:
    """Return bytes as hexadecimal text, because JSON has no other form for them."""
    return {k: v.hex() if isinstance(v, bytes) else v for k, v in values.items()}


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def write_trace_dat(recording: Recording, to: BinaryIO) -> None:
    """Write a file of trace-cmd, in version 6 of its format: see trace-cmd.dat(5)."""
    files, model, sized = recording.files, recording.model, partial(_sized, recording)
    to.write(_MAGIC + _VERSION + b"\0")
    order = _ORDERS.index(model.order)
    to.write(model.struct("BBI").pack(order, model.long, PAGE_SIZE))
    for name in ("header_page", "header_event"):
        to.write(name.encode() + b"\0" + sized("Q", files[name]))
    own = recording.formats.get("ftrace", [])
    to.write(_formats(recording, own))
    others = {g: texts for g, texts in recording.formats.items() if g != "ftrace"}
    to.write(model.struct("I").pack(len(others)))
    for group, texts in others.items():
        to.write(group.encode() + b"\0" + _formats(recording, texts))
    to.write(sized("I", files["kallsyms"]))
    to.write(sized("I", files["printk_formats"]))
    to.write(sized("Q", files["saved_cmdlines"]))
    to.write(model.struct("I").pack(len(recording.cpus)))
    to.write(b"options  \0" + model.struct("H").pack(0))
    to.write(b"flyrecord\0")
    at = _aligned(to.tell() + 16 * len(recording.cpus))
    for pages in recording.cpus.values():
        to.write(model.struct("QQ").pack(at, len(pages)))
        at = _aligned(at + len(pages))
    for pages in recording.cpus.values():
        to.write(bytes(-to.tell() % PAGE_SIZE))
        to.write(pages)


def _sized(recording: Recording, form: str, data: bytes) -> bytes:
    return recording.model.struct(form).pack(len(data)) + data


def _formats(recording: Recording, texts: Iterable[str]) -> bytes:
    whole = [_sized(recording, "Q", text.encode()) for text in texts]
    return recording.model.struct("I").pack(len(whole)) + b"".join(whole)


def _aligned(at: int) -> int:
    return -(-at // PAGE_SIZE) * PAGE_SIZE


Writer = Callable[[Recording, BinaryIO], None]
# by what --format says, and by how the name of the file ends
WRITERS: dict[str, Writer] = {
    "text": write_text,
    "jsonl": write_json_lines,
    "json": write_chrome,
    "dat": write_trace_dat,
}
