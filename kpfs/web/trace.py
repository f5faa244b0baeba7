# SPDX-License-Identifier: GPL-2.0-or-later
"""The end of a trace as it grows: its text, read back into records."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from kpfs.base.units import NSEC
from kpfs.record.spans import spans
from kpfs.session.paths import KernelPath, KernelReader
from kpfs.session.records import Record, Value

ALL = 1 << 30  # records
MOST, READ = 1 << 20, 1 << 16  # bytes of one look, and of a read
_LINE = re.compile(
    r"\s*(?P<comm>.*)-(?P<pid>\d+) +(?:\([-\d ]+\) +)?\[(?P<cpu>\d+)\] (?P<flags>\S+) +"
    r"(?P<time>[\d.]+): (?P<text>(?P<event>[\w.]+).*)"
)
_RETURN = re.compile(r": \(\S+ <- (\w[\w.]*)")
_ENTRY = re.compile(r": \((\w[\w.]*)\+0x[0-9a-f]+/")


class TraceTail:
    """A reader of tracing/trace, which takes nothing out of it.

    A read behind the end goes on with what has come since then.  The file is open while
    records come and no longer: Linux resizes no ring that is read so, and does so when
    the first event is enabled.
    """

    def __init__(self, tree: KernelPath) -> None:
        self._tree, self._path = tree, tree / "tracing/trace"
        self._file: KernelReader | None = None
        self._counts, self._rest, self._last = "", "", ""
        self._own = set[int]()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None

    def read(self, most: int) -> tuple[list[Record], int]:
        """Return the newest records, and how many more there were.

        Those of this process's own threads are left out.
        """
        processors = (self._tree / "tracing/per_cpu").iterdir()
        counts = "".join((each / "stats").read_text() for each in processors)
        counts = re.sub(r"ts: .*", "", counts)  # all but the times
        if counts == self._counts or not re.search("[1-9]", counts):
            self.close()
            return [], 0
        self._counts, again = counts, self._file is None
        self._file = self._file or self._path.reader()
        data = b""
        while len(data) < MOST and (piece := self._file.read(READ)):
            data += piece
            if len(piece) < READ // 32:  # each read may add a record of itself
                break
        text = ("" if again else self._rest) + data.decode(errors="replace")
        if again and self._last:
            text = text.rpartition(self._last)[2]
        whole, _, self._rest = text.rpartition("\n")
        lines, found = whole.split("\n"), list[Record]()
        self._last = f"{lines[-1]}\n" if whole else self._last
        self._own |= self._tree.own_tasks()
        while lines and len(found) < most:
            record = parsed(lines.pop())
            if record is not None and record.pid not in self._own:
                found.append(record)
        return found[::-1], len(lines)


def parsed(line: str) -> Record | None:
    """Return the record of a line of the trace; what was called is a field of it."""
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    text, fields = found["text"], dict[str, Value]()
    if name := _RETURN.search(text):
        fields["__probe_func"] = name[1]
    elif name := _ENTRY.search(text):
        fields["__probe_ip"] = name[1]
    return Record(
        round(float(found["time"]) * NSEC),
        *(int(found["cpu"]), int(found["pid"]), found["comm"], found["flags"]),
        *("kprobes", found["event"], fields, text),
    )


def rows(found: Iterable[Record]) -> list[list[Any]]:
    """Return records as the page reads them; with its duration, if it is a call."""
    return [
        [
            *(begin.timestamp, begin.cpu, begin.pid, begin.comm, begin.event),
            *(begin.text, end.timestamp - begin.timestamp if end else None),
        ]
        for begin, end in spans(found)
    ]
