# SPDX-License-Identifier: GPL-2.0-or-later
"""The text that is read from the files trace and trace_pipe."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from operator import itemgetter

from kpfs.engine.trace.array.trace_array import TraceArray
from kpfs.engine.trace.ring.ring_buffer import Rings
from kpfs.engine.trace.text.lines import Entry, Lines

# The most that Linux gives per read(); here, who asks for more gets more whole lines
PIPE_PAGE = 4096
_HEADER = """\
# tracer: {tracer}
#
"""
_ENTRIES = """\
# entries-in-buffer/entries-written: {entries}/{written}   #P:{cpus}
#
"""
_COLUMNS_IRQ = """\
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
"""
_COLUMNS = """\
#           TASK-PID     CPU#     TIMESTAMP  FUNCTION
#              | |         |         |         |
"""


def trace_header(
    tr: TraceArray, rings: Rings | None = None, skipped: Sequence[Entry] = ()
) -> str:
    """The comment lines of trace.  Kernel: trace_default_header()

    skipped: entries that are not shown; losses of the CPUs they are on do not count.
    """
    ring = rings or tr.ring
    text = _HEADER.format(tracer=tr.current_tracer)
    if not tr.options["context-info"]:
        return text
    entries, lost = ring.entries - len(skipped), ring.overruns
    if skipped:
        on = {cpu for _, cpu, *_ in skipped}
        lost = sum(r.overrun for r in ring.cpus if r.cpu not in on)
    text += _ENTRIES.format(
        entries=entries, written=entries + lost, cpus=tr.st.machine.nr_cpus
    )
    return text + (_COLUMNS_IRQ if tr.options["irq-info"] else _COLUMNS)


def trace_text(
    tr: TraceArray, cpu: int | None = None, rings: Rings | None = None
) -> str:
    """The text of trace, of all CPUs or of one; the records stay in the buffer.

    rings: read these (a snapshot) instead of the rings that are recorded to.
    Context: control.  Kernel: s_show()
    """
    from_rings = rings or tr.ring
    batches = Lines(tr).batches
    chunks: Iterable[list[Entry]] = from_rings.chunks(batches, cpu)
    start = 0 if rings else tr.ring.time_start
    skipped: list[Entry] = []
    if start:  # the header is about all CPUs
        entries = list(chain.from_iterable(from_rings.chunks(batches)))
        first = bisect_left(entries, start, key=itemgetter(0))
        skipped = entries[:first]
        chunks = [[e for e in entries[first:] if cpu is None or e[1] == cpu]]
    out = [trace_header(tr, rings, skipped)]
    annotate = from_rings.overruns > 0 and tr.options["annotate"]
    started: set[int] = set()
    for chunk in chunks:
        if annotate and len(started) < len(from_rings.cpus):
            for _, on, text, *_ in chunk:
                if started and on not in started:
                    out.append(f"##### CPU {on} buffer started ####\n")
                started.add(on)
                out.append(text)
        else:
            out += [entry[2] for entry in chunk]
    return "".join(out)


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
        for chunk in tr.ring.chunks(Lines(tr).batches, self._cpu):
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
