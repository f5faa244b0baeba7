# SPDX-License-Identifier: GPL-2.0-or-later
"""Notes what the guest's log gets, once the guest has run.

An oops leaves its whole text in kpfs's own log: programs that would read the guest's
may be what oopses.
"""

from __future__ import annotations

from itertools import pairwise

from kpfs.base.log import Log
from kpfs.base.typed import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kpfs.guest.running.klog import LogRecord

log = Log(__name__)

HEADER = rb": [0-9a-f]{4} \[#\d+\]"  # kernel: __die_header()
LOGLEVEL_CRIT = 2  # a record at least as grave may come before the header


class Records(Protocol):
    """The guest's log: see kpfs.guest.running.klog.KernelLog."""

    def next_seq(self) -> int: ...

    def records(self, since: int) -> Sequence[LogRecord]: ...


class LogFollower:
    """The reader of the guest's log.  Context: the kernel's lock is held."""

    def __init__(
        self,
        records: Records,
        console: Callable[[Sequence[LogRecord]], None] | None = None,
    ) -> None:
        """console: shows new records."""
        self._log = records
        self._next = records.next_seq()
        self._console = console

    def look(self) -> None:
        """Note the records that have come since the last look.  Context: control."""
        following = self._log.next_seq()
        if following == self._next:
            return
        new = self._log.records(self._next)
        self._next = following
        if self._console is not None:
            self._console(new)
        for text in oopses(new):
            log.info("the emulated kernel has oopsed:\n%s", text)


def oopses(records: Sequence[LogRecord]) -> list[str]:
    """Return the text of each oops in consecutive records.

    What comes behind the last one, up to the end, is taken for a part of it.
    """
    import re

    begins: list[int] = []
    grave = -1  # index of the first of the grave records that lead to here
    for index, record in enumerate(records):
        if re.search(HEADER, record.text):
            begins.append(grave if grave >= 0 else index)
        if record.level > LOGLEVEL_CRIT:
            grave = -1
        elif grave < 0:
            grave = index
    return [
        b"\n".join([bytes(record.text) for record in records[begin:end]]).decode(
            errors="replace"
        )
        for begin, end in pairwise([*begins, len(records)])
    ]
