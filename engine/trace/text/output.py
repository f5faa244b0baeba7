# SPDX-License-Identifier: GPL-2.0-or-later
"""The text that is read from the file trace_pipe."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from kpfs.engine.trace.array.trace_array import TraceArray
from kpfs.engine.trace.ring.ring_buffer import merged
from kpfs.engine.trace.text.lines import Entry, Lines

# The most that Linux gives per read(); here, who asks for more gets more whole lines
PIPE_PAGE = 4096


class TracePipe:
    """An open file trace_pipe.  Kernel: struct trace_iterator"""

    def __init__(self, ts: TraceArray, cpu: int | None = None) -> None:
        """cpu: the only CPU whose records are read; None: all are."""
        self._ts = ts
        self._cpu = cpu
        self._pending = ""
        self._was_read = False
        self._told: set[int] = set()  # CPUs whose losses this read() has reported

    def ready(self) -> bool:
        """Whether read() would give something."""
        rings = self._ts.ring.cpus
        if self._cpu is not None:
            rings = [rings[self._cpu]]
        return bool(self._pending) or any(ring.entries for ring in rings)

    def at_end(self) -> bool:
        """Whether a reader that finds nothing gets end of file instead of waiting."""
        return self._was_read and not self._ts.ring.on

    def read(self, count: int) -> str:
        """Up to count characters of whole lines, or of the rest of a line begun before.

        The records are taken out of the buffer.  "" means that there are none.
        Context: control.  Kernel: tracing_read_pipe()
        """
        if not self._pending:
            self._pending = self._fill(count)
        text, self._pending = self._pending[:count], self._pending[count:]
        if text:
            self._was_read = True
        return text

    def _fill(self, count: int) -> str:
        """Take records out of the buffer, for lines of about count characters."""
        tr = self._ts
        entries: list[Entry] = []
        texts: list[str] = []
        used = 0
        lines_of = Lines(tr).batches
        rings = [r for r in tr.ring.cpus if self._cpu in (None, r.cpu)]
        for chunk in merged([lines_of(r.cpu, r.unread()) for r in rings if r.entries]):
            lines = [entry[2] for entry in chunk]
            self._tell_of_losses(chunk, lines)
            size = sum(map(len, lines))
            if used + size >= count:
                ends = list(accumulate(map(len, lines), initial=used))
                fit = bisect_left(ends, count)
                if ends[fit] > max(count, PIPE_PAGE) and (texts or fit > 1):
                    fit -= 1
                entries += chunk[:fit]
                texts += lines[:fit]
                break
            entries += chunk
            texts += lines
            used += size
        for ring in tr.ring.cpus:
            mine = [e for e in entries if e[1] == ring.cpu]
            if mine:
                time, cpu, _, start, end = mine[-1]
                ring.overrun_seen = ring.overrun
                ring.consume(len(mine), (time, cpu, start, end))
        self._told.clear()
        return "".join(texts)

    def _tell_of_losses(self, chunk: list[Entry], lines: list[str]) -> None:
        """Say in front of a CPU's first line how many records were lost before it."""
        for ring in self._ts.ring.cpus:
            lost = ring.overrun - ring.overrun_seen
            if not lost or ring.cpu in self._told:
                continue
            for i, entry in enumerate(chunk):
                if entry[1] == ring.cpu:
                    note = f"CPU:{ring.cpu} [LOST {lost} EVENTS]\n"
                    lines[i] = note + lines[i]
                    self._told.add(ring.cpu)
                    break
