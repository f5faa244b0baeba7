# SPDX-License-Identifier: GPL-2.0-or-later
"""tracing/: kprobe_events, dynamic_events, kprobe_profile, error_log."""

from __future__ import annotations

from kpfs.backends.guest.files.array_file import ArrayFile
from kpfs.backends.guest.files.guest_file import GuestFile
from kpfs.base.typed import TYPE_CHECKING
from kpfs.fs.seqfile import SeqFile, whole_lines

if TYPE_CHECKING:
    from kpfs.engine.trace.array.dynevent import DynEventOps


class DynamicEvents(GuestFile, SeqFile):
    """Dynamic events of all kinds.  Kernel: dynamic_events_ops."""

    write_moves = 0
    grows = True

    def ops(self) -> DynEventOps | None:
        """Return the kind of event that this file is about; None for all kinds."""
        return None

    def emptied(self) -> None:
        """Delete the events; EBUSY: one is in use, all stay."""
        self.kernel.dynamic_events.release_all(self.ops())

    def show(self) -> str:
        return self.kernel.dynamic_events.show(self.ops())

    def store(self, data: bytes) -> int:
        data = whole_lines(data)
        self.kernel.dynamic_events.run_commands(data, self.ops())
        return len(data)


class KprobeEvents(DynamicEvents):
    """Kprobe events.  Kernel: kprobe_events_ops."""

    def ops(self) -> DynEventOps | None:
        return self.kernel.kprobe_events


class SyntheticEvents(DynamicEvents):
    """Synthetic events.  Kernel: synth_events_fops."""

    def ops(self) -> DynEventOps | None:
        return self.kernel.synthetic_events

    def show(self) -> str:
        return self.kernel.synthetic_events.own_show()


class KprobeProfile(GuestFile, SeqFile):
    """Hits and misses of each kprobe event.  Kernel: probes_profile_seq_show()."""

    grows = True

    def show(self) -> str:
        return self.kernel.kprobe_events.profile()


class ErrorLogFile(ArrayFile, SeqFile):
    """The last parse errors; writes are taken and ignored.

    Kernel: tracing_err_log_fops
    """

    seq_for_writers = False
    tracing_lseek = True
    write_moves = 0

    def emptied(self) -> None:
        self.tr.err_log.clear()

    def show(self) -> str:
        return self.tr.err_log.text()

    def store(self, data: bytes) -> None:
        """Ignored."""
