# SPDX-License-Identifier: GPL-2.0-or-later
"""The records of the trace, read from the kernel's memory without consuming any.

Kernel: ftrace_trace_arrays, struct ring_buffer_per_cpu, rb_set_head_page().
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import NamedTuple

from kpfs.base.errors import KernelError
from kpfs.linux.memory.kprobes import NAME_MAX, Kprobes
from kpfs.linux.memory.structures import Reader, View

TRACING = "/sys/kernel/tracing"
MAX_PAGES = 1 << 20
_FLAGS, _IS_HEAD = 3, 1  # in a pointer to the next page
_TIME = 8  # bytes of a page's time, behind which is the number of bytes that follow
_SIZE_MASK = (1 << 20) - 1


class RingPage(NamedTuple):
    """A page of a ring."""

    data: bytes
    read: int  # bytes of its records that were consumed


class Rings(Reader):
    """The ring buffers of all trace arrays."""

    needs = "ring_buffer_per_cpu", "reader_page"
    most = 256 << 20

    def pages(self, instance: str = "") -> dict[int, list[RingPage]]:
        """Return by CPU the pages that have records, oldest first.

        instance: "" for the first array. Raises KernelError(ENOENT) if there is none of
        that name.
        """
        for name, buffer in self.buffers():
            if name == instance:
                rings = self._rings(buffer)
                return {n: [*map(self._page, self._chain(ring))] for n, ring in rings}
        raise KernelError(errno.ENOENT, f"no instance {instance}")

    def buffers(self) -> Iterator[tuple[str, int]]:
        """Yield the name of each array and the address of its buffer."""
        arrays = self._structures.data("ftrace_trace_arrays")[0]
        for array in self._listed("trace_array", arrays):
            name = array.word("name")
            shown = self._memory.string(name, NAME_MAX) if name else ""
            yield shown, array.word("array_buffer.buffer")

    def lost(self, buffer: int) -> tuple[int, int]:
        """Return how many of a buffer's records were overwritten, and how many came
        when it was full.
        """
        rings = [ring for _, ring in self._rings(buffer)]
        overwritten = sum(ring.word("overrun") for ring in rings)
        return overwritten, sum(ring.word("dropped_events") for ring in rings)

    def _rings(self, buffer: int) -> Iterator[tuple[int, View]]:
        """Yield each CPU's part of a buffer."""
        rings = self._view("trace_buffer", buffer).word("buffers")
        probes = Kprobes(self._memory, self._symbols, self._structures)
        for cpu, _ in enumerate(probes.cpu_offsets):
            ring = self._memory.word(rings + self._memory.model.long * cpu)
            if ring:
                yield cpu, self._view("ring_buffer_per_cpu", ring)

    def newest(self, buffer: int) -> int:
        """Return the time of a buffer's last record, by the buffer's clock."""
        rings = self._rings(buffer)
        return max((ring.word("write_stamp") for _, ring in rings), default=0)

    def _chain(self, ring: View) -> Iterator[View]:
        """Yield the reader's page, then the pages from the head to the commit page."""
        memory, layout = self._memory, self._structures["buffer_page"]
        reader, last = ring.word("reader_page"), ring.word("commit_page")
        yield View(memory, layout, reader)
        if reader == last:
            return
        at, left = self._head(ring.word("head_page")), MAX_PAGES
        while left:
            page = View(memory, layout, at)
            yield page
            if at == last:
                return
            at, left = page.word("list") & ~_FLAGS, left - 1

    def _head(self, at: int) -> int:
        """Return the oldest page: the pointer to it is marked."""
        for _ in range(MAX_PAGES):
            after = self._memory.word(at)
            if after & _FLAGS == _IS_HEAD:
                return after & ~_FLAGS
            at = after & ~_FLAGS
        return at

    def _page(self, page: View) -> RingPage:
        at = page.word("page")
        size = self._memory.word(at + _TIME) & _SIZE_MASK
        size += _TIME + self._memory.model.long
        return RingPage(self._memory.read(at, size), page.number("read", 4))

    def events(self, numbers: frozenset[int]) -> dict[int, tuple[str, str]]:
        """Return group and name of events by the numbers in their records."""
        found = {}
        memory, values = self._memory, self._structures.values
        tracepoint = values.get("TRACE_EVENT_FL_TRACEPOINT", 0)
        custom = values.get("TRACE_EVENT_FL_CUSTOM", 0)
        head = self._structures.data("ftrace_events")[0]
        for call in self._listed("trace_event_call", head):
            number = call.number("event.type", 4)
            if number in numbers:
                group = memory.string(memory.word(call.word("class")), NAME_MAX)
                name, flags = call.word("name"), call.number("flags", 4)
                if flags & tracepoint and not flags & custom:
                    name = memory.word(name)  # struct tracepoint begins with it
                found[number] = group, memory.string(name, NAME_MAX)
        return found
