# SPDX-License-Identifier: GPL-2.0-or-later
"""Records of trace_pipe_raw: pages of a ring, decoded by the formats of events."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kpfs.base.data_model import DataModel
from kpfs.base.units import PAGE_SIZE
from kpfs.session.records import FieldFormat, Record, decode, field_format

_PAGE = "qL"  # its time, and how many bytes follow
_SIZE_MASK = (1 << 20) - 1  # the size in it; above are flags of what was missed
HEAD = "HBBi"  # kernel: struct trace_entry
_PADDING, _TIME_EXTEND, _TIME_STAMP = 29, 30, 31
_DELTA_BITS = 27
_COMMIT = re.compile(r"local_t commit;\toffset:8;\tsize:(\d+);")
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


def model_of(header: str, *rings: bytes) -> DataModel:
    """Return the data model of the kernel that has filled pages of rings.

    header: the text of events/header_page, which tells the size of a long.  The byte
    order is the one in which the first pages are younger: nanoseconds since the kernel
    was started leave the highest bytes 0.
    """
    found = _COMMIT.search(header)
    if found is None:
        raise ValueError(f"no header of pages: {header[:40]!r}")
    models = (DataModel(order, int(found[1])) for order in ("little", "big"))
    return min(models, key=lambda model: sum(model.number(p[:8]) for p in rings))


def entries(pages: bytes, model: DataModel) -> Iterator[tuple[int, bytes]]:
    """Yield the entries of a CPU's pages: (time, record), in order."""
    for start in range(0, len(pages), PAGE_SIZE):
        yield from page_entries(pages[start : start + PAGE_SIZE], model)


def page_entries(
    page: bytes, model: DataModel, begin: int = 0
) -> Iterator[tuple[int, bytes]]:
    """Yield the entries of one page.  begin: bytes of its records that are left out."""
    number, head = model.struct("I").unpack_from, model.struct(_PAGE)
    ts, size = head.unpack_from(page)
    at = head.size
    end = at + (size & _SIZE_MASK)
    while at < end:
        wanted = at >= head.size + begin
        (word,) = number(page, at)
        if model.order == "little":
            kind, delta = word & 31, word >> 5
        else:  # the first bits of a structure are the high ones
            kind, delta = word >> _DELTA_BITS, word & (1 << _DELTA_BITS) - 1
        at += 4
        if kind == _PADDING:
            if not delta:
                break  # the rest of the page
            at += number(page, at)[0]
            continue
        if kind in (_TIME_EXTEND, _TIME_STAMP):
            (high,) = number(page, at)
            whole = (high << _DELTA_BITS) + delta
            ts = ts + whole if kind == _TIME_EXTEND else whole
            at += 4
            continue
        ts += delta
        length = 4 * kind
        if not kind:
            (length,) = number(page, at)
            length -= 4
            at += 4
        if wanted:
            yield ts, page[at : at + length]
        at += length


def records(
    found: Iterable[tuple[int, int, bytes]],
    formats: Mapping[int, Format],
    comms: Mapping[int, str],
    model: DataModel,
) -> list[Record]:
    """Return the records of entries, oldest first, without the text that trace has.

    found: time, CPU and record of each.  formats: by the events' numbers.  comms: the
    tasks' names.  model: the kernel's.
    """
    ordered = sorted(found, key=lambda entry: entry[:2])
    return [record(ts, cpu, data, formats, comms, model) for ts, cpu, data in ordered]


def record(
    ts: int,
    cpu: int,
    data: bytes,
    formats: Mapping[int, Format],
    comms: Mapping[int, str],
    model: DataModel,
    text: str = "",
) -> Record:
    """Make a Record of one record as it lies in the ring."""
    from kpfs.engine.trace.text.lines import lat_fmt

    number, flags, preempt_count, pid = model.struct(HEAD).unpack_from(data)
    made = formats.get(number) or Format("", str(number), number)
    return Record(
        timestamp=ts,
        cpu=cpu,
        pid=pid,
        comm=comms.get(pid, "<...>" if pid else "<idle>"),
        flags=lat_fmt(flags, preempt_count),
        group=made.group,
        event=made.name,
        fields=decode(made.fields, data, model, binary=made.name == "raw_data"),
        text=text,
    )
