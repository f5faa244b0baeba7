# SPDX-License-Identifier: GPL-2.0-or-later
"""The rings of all CPUs as one buffer.  All functions are for control context."""

from __future__ import annotations

import errno
from collections.abc import Iterable

from kpfs.base.errors import KernelError
from kpfs.engine.runtime.records import KpArray
from kpfs.engine.runtime.runtime import Runtime
from kpfs.engine.trace.ring.cpu_ring import (
    MIN_PAGES,
    TRACE_BUF_SIZE_DEFAULT,
    CpuRing,
    Room,
    pages_for,
)


class RingBuffer:
    """The rings of all CPUs.  Kernel: struct trace_buffer."""

    def __init__(
        self, runtime: Runtime, guest: KpArray | None = None, *, first: bool = True
    ) -> None:
        """Give each CPU a ring; ENOMEM.

        first: they are those of the first trace array, which grow when they are needed.
        """
        self._runtime = runtime
        self._guest = guest or runtime.make(KpArray)
        self._areas = runtime.cpus if first else []
        self.expanded = not first
        self._on = True
        self._paused = 0
        self._quantum: int | None = None
        self._offset = 0
        self.mask = (1 << len(runtime.cpus)) - 1  # CPUs that record
        nr_pages = MIN_PAGES if first else pages_for(TRACE_BUF_SIZE_DEFAULT)
        self.cpus = self._make(nr_pages)
        # the last ring of each CPU, though a snapshot may have swapped other rings
        # in since then.  Kernel: trace_array_cpu.entries
        self.nr_pages = [nr_pages] * len(self.cpus)
        # those of the snapshot, swapped out last.  Kernel: trace_array.max_buffer
        self.spare: list[CpuRing] | None = None
        self._kept: list[CpuRing] = []  # spare rings that could not be freed
        self.idle_readers = 0  # readers of spare rings that are not there
        # time of the last reset: trace hides older records, which a swap may bring back
        self.time_start = 0
        self._attach()

    def _make(self, nr_pages: int) -> list[CpuRing]:
        machine = self._runtime.machine
        near = bool(self._areas)  # only the first array's are written the short way
        rings: list[CpuRing] = []
        try:
            for cpu in range(machine.nr_cpus):
                rings.append(CpuRing(machine, cpu, nr_pages, near=near))
        except KernelError:
            for ring in rings:
                ring.free()
            raise
        return rings

    def _attach(self) -> None:
        """Tell guest code which rings there are.  Context: either."""
        for ring, area in zip(self.cpus, self._areas, strict=False):
            area.ring = ring.addr
        for ring in self.cpus:
            self._guest.set_ring(ring.cpu, ring.addr)
            on = self._on and not self._paused and bool(self.mask >> ring.cpu & 1)
            ring.set_on(on, self._quantum is not None)

    @property
    def on(self) -> bool:
        """True if records are written.  Kernel: tracing_is_on()."""
        return self._on

    @on.setter
    def on(self, value: bool) -> None:
        """Context: either."""
        self._on = value
        self._attach()

    def switch(self, on: bool) -> bool:
        """Write records or stop; return True if that is new.  Context: either."""
        changed = self._on != on
        if changed:
            self.on = on
        return changed

    @property
    def in_ns(self) -> bool:
        """True if times are in ns.  Kernel: trace_clocks[].in_ns"""
        return self._quantum in (None, 1)

    def pause(self, on: bool) -> None:
        """Write no records until every pause has ended.  Kernel: tracing_stop()."""
        self._paused += 1 if on else -1
        self._attach()

    def set_mask(self, mask: int) -> None:
        """Set which CPUs record.  Kernel: tracing_set_cpumask()."""
        self.mask = mask
        self._attach()

    def set_overwrite(self, overwrite: bool) -> None:
        """Set whether a full ring loses its oldest records instead of new ones."""
        for ring in self.cpus + self.spare_rings():
            ring.overwrite = overwrite

    def set_clock(self, quantum: int | None, offset: int = 0) -> None:
        """Set the clock: its unit in ns; 0: it counts records; None: the usual clock.

        offset: how far it is ahead of the usual clock, in its unit.
        What was recorded by another clock is lost.  Kernel: tracing_set_clock()
        """
        self._quantum, self._offset = quantum, offset
        for ring in self.cpus + self.spare_rings():
            ring.reset()
            ring.set_quantum(quantum or 0, offset)
        self.time_start = 0
        self._attach()

    def expand(self) -> None:
        """Give the rings full size, once.  Kernel: tracing_update_buffers()"""
        if not self.expanded:
            self.resize(TRACE_BUF_SIZE_DEFAULT)

    def resize(self, size: int, cpu: int | None = None) -> None:
        """Make room for size bytes on each CPU, or on one.

        EBUSY while somebody reads them without consuming, ENOMEM; nothing is changed
        then.
        """
        self.expanded = True
        chosen = [ring for ring in self.cpus if cpu in (None, ring.cpu)]
        if any(ring.readers for ring in chosen):
            raise KernelError(errno.EBUSY, "somebody is reading")
        nr_pages = pages_for(size)
        self._resize((ring, nr_pages) for ring in chosen)
        for ring in chosen:
            self.nr_pages[ring.cpu] = nr_pages
        self._attach()

    def _resize(self, wanted: Iterable[tuple[CpuRing, int]]) -> None:
        """Give rings as many pages as are wanted; ENOMEM, and nothing is changed."""
        rooms: list[tuple[CpuRing, Room]] = []
        try:
            for ring, nr_pages in wanted:
                if nr_pages != ring.nr_pages:
                    rooms.append((ring, ring.alloc_room(nr_pages)))
        except KernelError:
            for ring, room in rooms:
                ring.free_room(room)
            raise
        for ring, room in rooms:
            ring.resize(room)

    def reset(self) -> None:
        """Forget all entries.  Kernel: tracing_reset_online_cpus()."""
        for ring in self.cpus:
            ring.reset()
        self.time_start = self.cpus[0].now() if self.spare else 0

    def write(self, cpu: int, data: bytes) -> bool:
        """Add a record to a CPU's ring; False: it is off, or full."""
        return self.cpus[cpu].write(data)

    def free(self) -> None:
        for ring in self.cpus + self.spare_rings():
            ring.free()

    # ---- snapshot

    def alloc_spare(self) -> None:
        """Make rings to swap with, or make them as large as is said of the others.

        EBUSY while somebody reads them.  Kernel: tracing_alloc_snapshot_instance().
        """
        spare = self.spare_rings()
        if (self.idle_readers and not spare) or any(
            ring.readers and ring.nr_pages != self.nr_pages[ring.cpu] for ring in spare
        ):
            raise KernelError(errno.EBUSY, "somebody reads the file snapshot")
        self.spare, self._kept = spare or None, []
        if self.spare is None:
            self.spare = self._make(MIN_PAGES)
            for ring, main in zip(self.spare, self.cpus, strict=True):
                ring.overwrite = main.overwrite
                ring.set_quantum(self._quantum or 0, self._offset)
        self._resize((ring, self.nr_pages[ring.cpu]) for ring in self.spare)

    def spare_rings(self) -> list[CpuRing]:
        """Return the rings to swap with, also those kept for their readers alone."""
        return self.spare or self._kept

    def free_spare(self) -> None:
        """Free the spare rings or clear those in use.  Kernel: free_snapshot()"""
        if self.spare is None:
            return
        spare, self.spare = self.spare, None
        if any(ring.readers for ring in spare):
            self._kept = spare
        for ring in spare:
            if self._kept:
                ring.reset()
            else:
                ring.free()

    def swap(self) -> None:
        """Swap the rings with those of the snapshot, into which recording goes on.

        Context: either.  Kernel: update_max_tr()
        """
        if self.spare is None or self._paused:
            return
        self.cpus, self.spare = self.spare, self.cpus
        self._attach()
