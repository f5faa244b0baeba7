# SPDX-License-Identifier: GPL-2.0-or-later
"""Records of the trace, with their fields by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kpfs.base.data_model import LITTLE_64, DataModel
from kpfs.base.units import NSEC

_ARRAY = re.compile(r"(?P<of>.*?)\s*\[(?P<count>\d*)\]$")
_LETTER = {1: "b", 2: "h", 4: "i", 8: "q"}

Scalar = int | str | None  # None: a string that could not be read, "(fault)"
Value = Scalar | bytes | list[int] | list[Scalar]


class FieldFormat(NamedTuple):
    """A field's row in events/GROUP/EVENT/format."""

    type: str
    name: str
    offset: int
    size: int  # bytes; 0: the rest of the record
    signed: bool


@dataclass(frozen=True)
class Record:
    """One record of the trace.

    timestamp: ns since boot.  flags: the column of trace that says what was off or
    pending, as ``.....``.  fields: those of the event by name, numbers as ints, text as
    str (None where the kernel prints ``(fault)``), arrays as lists; of a kprobe
    event the first is where it was hit.  text: the line of trace behind the time.
    """

    timestamp: int
    cpu: int
    pid: int
    comm: str
    flags: str
    group: str
    event: str
    fields: Mapping[str, Value]
    text: str

    @property
    def time(self) -> float:
        """Seconds since boot."""
        return self.timestamp / NSEC

    def __getitem__(self, name: str) -> Value:
        """Return a field by its name; KeyError."""
        return self.fields[name]

    def __str__(self) -> str:
        """Return the line as trace has it, in µs."""
        us = (self.timestamp + 500) // 1000
        task = f"{self.comm:>16}-{self.pid:<7d} [{self.cpu:03d}] {self.flags}"
        return f"{task} {us // 10**6:5d}.{us % 10**6:06d}: {self.text}"

    def as_dict(self) -> dict[str, Value]:
        """Return all of it in one dictionary, as a row of a table for pandas.

        A field that has the name of an attribute becomes ``EVENT.NAME``.
        """
        names = "timestamp", "cpu", "pid", "comm", "flags", "group", "event"
        row: dict[str, Value] = {name: getattr(self, name) for name in names}
        for name, value in self.fields.items():
            row[f"{self.event}.{name}" if name in row else name] = value
        return row


def without_task(trace: str, pid: str) -> str:
    """Return the text of a trace without the records of a task; "" is none."""
    mark = re.compile(rf"-{pid} +\[[0-9]{{3}}\] ")
    lines = trace.splitlines(keepends=True)
    return "".join(line for line in lines if not (pid and mark.search(line)))


def field_format(
    kind: str, name: str, offset: int, size: int, signed: bool
) -> FieldFormat:
    """Make a field; its array bounds may stand behind the name, as in C."""
    bare, bracket, bounds = name.partition("[")
    return FieldFormat(kind + bracket + bounds, bare, offset, size, signed)


def decode(
    fields: Iterable[FieldFormat],
    data: bytes,
    model: DataModel = LITTLE_64,
    *,
    binary: bool = False,
) -> dict[str, Value]:
    """Return the values of a record's fields: integers, strings and arrays.

    data: the record from its common fields on. binary: a field without a size is no
    text.
    """
    values: dict[str, Value] = {}
    for field in fields:
        if field.size:
            values[field.name] = _value(field, data, model)
        else:
            rest = data[field.offset :]
            values[field.name] = rest if binary else _text(rest)
    return values


def _value(field: FieldFormat, data: bytes, model: DataModel) -> Value:
    kind = field.type
    raw = data[field.offset : field.offset + field.size]
    if kind.startswith(("__data_loc", "__rel_loc")):
        words = model.struct(f"{len(raw) // 4}I").unpack(raw)
        base = field.offset + field.size if kind.startswith("__rel_loc") else 0
        texts: list[Scalar] = [_dynamic(base + word, data) for word in words]
        return texts if kind.count("[") > 1 else texts[0]
    array = _ARRAY.match(kind)
    if array is None:
        return model.number(raw, signed=field.signed)
    if array["of"].endswith("char"):
        return _text(raw)
    if array["count"]:
        size = field.size // int(array["count"])
    else:  # arrays of probes, whose types are u8 to s64
        size = int(array["of"].lstrip("usx")) // 8
    letter = _LETTER[size] if field.signed else _LETTER[size].upper()
    count = len(raw) // size  # a record may end before its array does
    return list(model.struct(f"{count}{letter}").unpack_from(raw))


def _dynamic(word: int, data: bytes) -> str | None:
    """Return the string whose place and length a word has, None with length 0."""
    start, length = word & 0xFFFF, word >> 16
    return _text(data[start : start + length]) if length else None


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode("utf-8", "surrogateescape")
