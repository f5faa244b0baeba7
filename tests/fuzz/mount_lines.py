# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the lines of tests.fuzz.lines through a mount: its daemon must outlive them.

The state is what the files show.  To read all of them around each line would take
hours: it is the files that such a line is for, and one other.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import re
from collections.abc import Iterable
from pathlib import Path

from tests.fuzz.fuzz import BUGS
from tests.fuzz.lines import APPEND, OURS, TRACING, Lines
from tests.harness import WrongError

DEFINITIONS = "tracing/kprobe_events"
ALL_DEFINITIONS = "tracing/dynamic_events"
DEFINING = ("kprobe_events", "synthetic_events", "dynamic_events")
PROBES = "kprobes/list"
LISTS = (ALL_DEFINITIONS, PROBES, "tracing/set_event", "tracing/set_ftrace_filter")
EVENT_FILES = ("enable", "filter", "trigger")
GROUPS = (*OURS, "sched")
# what changes by itself: the count when there are hits, and what that switches; jumps
RESTLESS = re.compile(r"count=-?\d+|\[OPTIMIZED\]|^[01](?=\*)")
SIZE = 1 << 16
NO_TRIGGER = "#"


class MountFuzzer(Lines):
    """One mount, quiet and nobody else's."""

    def __init__(self, mount: Path, seed: int) -> None:
        super().__init__(seed)
        self.mount = mount
        self.look = random.Random(seed)
        # what the files show, until a line is taken
        self.seen: dict[str, str] = {}
        self.known: list[tuple[str, str]] = []

    def path(self, name: str) -> str:
        return f"{self.mount}/{name.lstrip('/')}"

    def events(self) -> list[tuple[str, str]]:
        if not self.known:
            for group in GROUPS:
                # a group comes and goes with its events
                with contextlib.suppress(FileNotFoundError):
                    with os.scandir(self.path(f"{TRACING}/events/{group}")) as found:
                        names = [entry.name for entry in found if entry.is_dir()]
                    self.known += [(group, name) for name in sorted(names)]
        return self.known

    def show(self, name: str) -> str:
        """Return the text of a file, without the parts that change by themselves."""
        fd = os.open(self.path(name), os.O_RDONLY)
        try:
            text = b""
            while piece := os.read(fd, SIZE):
                text += piece
                if len(piece) < SIZE:
                    break
        finally:
            os.close(fd)
        return RESTLESS.sub("", text.decode("latin-1"))

    def watched(self, path: str) -> Iterable[str]:
        """Return the files to look at around a write to path."""
        folder, name = os.path.split(path.lstrip("/"))
        names = [f"{folder}/{name}"]
        if name in DEFINING:
            names += [PROBES, ALL_DEFINITIONS]
        elif name in EVENT_FILES:
            names = [f"{folder}/{each}" for each in EVENT_FILES]
        group, event = self.look.choice(self.events())
        others = [f"tracing/events/{group}/{event}/{each}" for each in EVENT_FILES]
        return dict.fromkeys((*names, self.look.choice((*LISTS, *others))))

    def send(self, fd: int, data: bytes) -> int:
        """One write(2), which may take only the first word."""
        return os.write(fd, data)

    def write(self, path: str, data: bytes) -> int | None:
        watched = self.watched(path)
        for name in watched:
            if name not in self.seen:
                self.seen[name] = self.show(name)
        taken = 0
        try:
            fd = os.open(self.path(path), APPEND)
            try:
                while taken < len(data):
                    taken += self.send(fd, data[taken:])
            finally:
                os.close(fd)
        except OSError as error:
            number = error.errno or errno.EIO
        else:
            number = 0
        if number in BUGS:
            raise WrongError(errno.errorcode[number])
        # Linux: of several definitions those before the wrong one are made, of several
        # events of a name those before the busy one deleted; a wrong filter takes the
        # old one away, and its file says what was wrong
        several = path.endswith(DEFINING) and b"\n" in data[:-1]
        if not number or taken or several or number == errno.EBUSY:
            self.seen.clear()
            self.known = []
            return number or None
        mine = path.lstrip("/")
        self.compare([n for n in watched if n != mine or not mine.endswith("/filter")])
        self.seen.pop(mine, None)
        return number

    def compare(self, names: list[str]) -> None:
        """Raise WrongError if a file shows another text than before."""
        for name in names:
            now = self.show(name)
            if now != self.seen[name]:
                raise WrongError(f"{name}: {self.seen[name]!r:.1000} -> {now!r:.1000}")

    def clear(self) -> None:
        """Take away all that the lines have made."""
        folders = [f"{TRACING}/events/{g}/{n}" for g, n in self.events()]
        for folder in folders:
            Path(self.path(f"{folder}/filter")).write_text("0\n")
            trigger = Path(self.path(f"{folder}/trigger"))
            for line in trigger.read_text().splitlines():
                if not line.startswith(NO_TRIGGER):
                    words = line.partition(" if ")[0].split(":")[:-1]
                    trigger.write_text(f"!{':'.join(words)}\n")
        for name in ("set_event", "set_ftrace_filter", "dynamic_events"):
            Path(self.path(f"{TRACING}/{name}")).write_text("")  # O_TRUNC
        Path(self.path(f"{TRACING}/tracing_on")).write_text("1")
        self.seen.clear()
        self.known = []
