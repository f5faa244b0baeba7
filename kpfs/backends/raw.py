# SPDX-License-Identifier: GPL-2.0-or-later
"""Records of trace_pipe_raw: pages of a ring, decoded by the formats of events."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kpfs.base.units import PAGE_SIZE
from kpfs.session.records import FieldFormat, Record, decode, field_format

_PAGE = struct.Struct("<QQ")  # its time, and how many bytes follow
_SIZE_MASK = (1 << 20) - 1  # the size in it; above are flags of what was missed
HEAD = struct.Struct("<HBBi")  # kernel: struct trace_entry
_PADDING, _TIME_EXTEND, _TIME_STAMP = 29, 30, 31
_DELTA_BITS = 27
_ID = re.compile(r"^ID: (\d+)$", re.MULTILINE)
_NAME = re.compile(r"^name: (\S+)$", re.MULTILINE)
_FIELD = re.compile(
    r"^\tfield:(?P<declared>[^;]+);\toffset:(?P<offset>\d+);\tsize:(?P<size>\d+);"
    r"\tsigned:(?P<signed>\d);$",
    re.MULTILINE,
)


class Format(NamedTuple):
    """The contents of events/GROUP/EVENT/format."""

    group: str
    name: str
    number: int
    fields: Sequence[FieldFormat] = ()


def parse_format(group: str, text: str) -> Format:
    """Return the format of an event by the text of its file; ValueError: it is none."""
    name, number = _NAME.search(text), _ID.search(text)
    if name is None or number is None:
        raise ValueError(f"no format of an event: {text[:40]!r}")
    fields = []
    for found in _FIELD.finditer(text):
        kind, _, bare = found["declared"].rpartition(" ")
        if bare.startswith("common_"):
            continue
        place = int(found["offset"]), int(found["size"])
        fields.append(field_format(kind, bare, *place, found["signed"] == "1"))
    return Format(group, name[1], int(number[1]), fields)


def parse_cmdlines(text: str) -> dict[int, str]:
    """Return the names of tasks by pid, from the text of saved_cmdlines."""
    rows = (line.partition(" ") for line in text.splitlines())
    return {int(pid): comm for pid, _, comm in rows}


def entries(pages: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the entries of a CPU's pages: (time, record), in order."""
    for start in range(0, len(pages), PAGE_SIZE):
        yield from page_entries(pages[start : start + PAGE_SIZE])


def page_entries(page: bytes, begin: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield the entries of one page.  begin: bytes of its records that are left out."""
    ts, size = _PAGE.unpack_from(page)
    at = _PAGE.size
    end = at + (size & _SIZE_MASK)
    while at < end:
        wanted = at >= _PAGE.size + begin
        (word,) = struct.unpack_from("<I", page, at)
        kind, delta = word & 31, word >> 5
        at += 4
        if kind == _PADDING:
            if not delta:
                break  # the rest of the page
            at += struct.unpack_from("<I", page, at)[0]
            continue
        if kind in (_TIME_EXTEND, _TIME_STAMP):
            (high,) = struct.unpack_from("<I", page, at)
            whole = (high << _DELTA_BITS) + delta
            ts = ts + whole if kind == _TIME_EXTEND else whole
            at += 4
            continue
        ts += delta
        length = 4 * kind
        if not kind:
            (length,) = struct.unpack_from("<I", page, at)
            length -= 4
            at += 4
        if wanted:
            yield ts, page[at : at + length]
        at += length


def records(
    found: Iterable[tuple[int, int, bytes]],
    formats: Mapping[int, Format],
    comms: Mapping[int, str],
) -> list[Record]:
    """Return the records of entries, oldest first, without the text that trace has.

    found: time, CPU and record of each.  formats: by the events' numbers.  comms: the
    tasks' names.
    """
    ordered = sorted(found, key=lambda entry: entry[:2])
    return [record(ts, cpu, data, formats, comms) for ts, cpu, data in ordered]


def record(
    ts: int,
    cpu: int,
    data: bytes,
    formats: Mapping[int, Format],
    comms: Mapping[int, str],
    text: str = "",
) -> Record:
    """Make a Record of one record as it lies in the ring."""
    from kpfs.engine.trace.text.lines import lat_fmt

    number, flags, preempt_count, pid = HEAD.unpack_from(data)
    made = formats.get(number) or Format("", str(number), number)
    return Record(
        timestamp=ts,
        cpu=cpu,
        pid=pid,
        comm=comms.get(pid, "<...>" if pid else "<idle>"),
        flags=lat_fmt(flags, preempt_count),
        group=made.group,
        event=made.name,
        fields=decode(made.fields, data, binary=made.name == "raw_data"),
        text=text,
    )
