# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the row of the table of differences that explains a failed operation.

A user of the guest kernel gets an errno for what it lacks, as for a slip of the pen.
So the row's words go into error_log, and to the user when ``kpfs run`` ends.

A row is met when somebody looks for one of its absent files, or by what its field
``met`` lists: ``FILE`` is looked for, a text that matches WRITE in ``FILE=WRITE`` is
refused, both with wildcards. EVENTS stands for the static events in
events.tsv. All paths are those in tracefs or below an instance.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from kpfs.manual.differs import Difference, differences

EVENTS_TABLE = Path(__file__).with_name("events.tsv")
EVENTS = "EVENTS"
ALL = "*"
NEW_LINE = "\n"
INSTANCE = re.compile(r"instances/[^/]*/")


class Hint(NamedTuple):
    """One line for the user: what the guest kernel lacks, and what has it."""

    key: str  # hints about the same row have the same
    text: str


def absent_events() -> list[str]:
    """Return the static events that the guest kernel has not, as SYSTEM:EVENT."""
    return [f"{system}:{name}" for system, names in _event_table() for name in names]


def _event_table() -> Iterator[tuple[str, list[str]]]:
    for line in EVENTS_TABLE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            system, _, names = line.partition("\t")
            yield system, names.split()


class Lacks:
    """The rows of the table, which are read when they are first needed."""

    def __init__(self, groups: Callable[[], Container[str]]) -> None:
        """groups: returns the groups of events that the kernel has."""
        self._groups = groups

    @cached_property
    def _rows(self) -> list[Difference]:
        return [row for row in differences() if row.lacked]

    @cached_property
    def _events(self) -> dict[str, list[str]]:
        """Return the absent events of each system."""
        return dict(_event_table())

    def looked_for(self, path: str) -> Hint | None:
        """Return the hint for a path of tracefs that is not there.

        None: Linux has none there, either.
        """
        path = INSTANCE.sub("", path, count=1)
        folder, _, rest = path.partition("/")
        system, _, event = rest.partition("/")
        if folder == "events" and (hint := self._event(system, event.split("/")[0])):
            return hint
        for row in self._rows:
            if path in row.files or any(fnmatchcase(path, name) for name in row.met):
                return _hint(row, path.rpartition("/")[2])
        return None

    def refused(self, path: str, data: bytes) -> Hint | None:
        """Return the hint for a write that a file of tracefs has refused."""
        path = INSTANCE.sub("", path, count=1)
        words = data.partition(b"\0")[0].decode("latin-1").strip()
        if path == "set_event":
            return next(filter(None, map(self._event_named, words.split())), None)
        if path == "trace_options":
            found = self.looked_for(f"options/{words}")
            return found or self.looked_for(f"options/{words.removeprefix('no')}")
        written = f"{path}={words.partition(NEW_LINE)[0]}"
        for row in self._rows:
            if any("=" in met and fnmatchcase(written, met) for met in row.met):
                return _hint(row, words)
        return None

    def _event_named(self, word: str) -> Hint | None:
        """Return the hint for a word of set_event: SYSTEM:EVENT, SYSTEM: or EVENT."""
        word = word.removeprefix("!")
        system, colon, event = word.partition(":")
        if not colon:
            of = (name for name, events in self._events.items() if word in events)
            system, event = next(((name, word) for name in of), (word, ""))
        event = event.partition(":")[0]  # a module's may follow
        return self._event(system, "" if "*" in event else event)

    def _event(self, system: str, event: str) -> Hint | None:
        """Return the hint for an event; without one, for a whole system."""
        events = self._events.get(system, [])
        if event not in events and (event or not events or system in self._groups()):
            return None
        row = next(row for row in self._rows if EVENTS in row.met)
        return _hint(row, f"{system}:{event or ALL}")


def _hint(row: Difference, name: str) -> Hint:
    what, way = row.lacked.format(name), row.out.strip("`")
    return Hint(row.linux, f"the guest kernel has no {what}; {way} has")
