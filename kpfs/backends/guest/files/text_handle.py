# SPDX-License-Identifier: GPL-2.0-or-later
"""Readers of trace and snapshot, whose text is made piece by piece."""

from __future__ import annotations

import errno
import os

from kpfs.backends.guest.files.array_file import CpuFile
from kpfs.base.errors import KernelError
from kpfs.base.typed import TYPE_CHECKING
from kpfs.fs.seqfile import SeqFile, SeqHandle

if TYPE_CHECKING:
    from kpfs.engine.trace.text.lines import SharedLines
    from kpfs.engine.trace.text.trace_iter import TraceIterator

PIECE = 1 << 16  # characters that are passed over at a time
# A reader that comes to the end so often in a row, as others go on recording, is told
# that it is the end: where many share the mount, each read waits for its turn, and the
# reader would run after them for ever.
ENDS_MAX = 2


class TextFile(CpuFile, SeqFile):
    """A file whose text is that of records."""

    seq_for_writers = False
    tracing_lseek = True
    is_snapshot = False
    _shared: SharedLines | None = None

    def help(self) -> str:
        """Return the text of a snapshot that has no record."""
        raise NotImplementedError

    def show(self) -> str:
        from kpfs.engine.trace.text.trace_iter import trace_text

        return trace_text(self.tr, self.cpu, self.help if self.is_snapshot else None)

    def shared(self) -> SharedLines:
        """Return the lines that its readers share."""
        from kpfs.engine.trace.text.lines import SharedLines

        self._shared = self._shared or SharedLines()
        return self._shared


class TextHandle(SeqHandle):
    """A reader; its text is made as far as it is read, mostly without the lock.

    Kernel: __tracing_open()
    """

    file: TextFile

    def __init__(self, file: TextFile, flags: int, pid: int) -> None:
        super().__init__(file, flags, pid)
        self.iterator: TraceIterator | None = None
        # How many reads in a row came to the end and found something.  If reading is
        # probed, each read adds records itself; these do not keep the next read from
        # saying that it is the end, else a reader would never come there.
        self.ended = 0
        # an iterator that has gone on from there: (from which one, to where, it)
        self.prepared: tuple[TraceIterator, int, TraceIterator] | None = None
        if flags & os.O_ACCMODE != os.O_WRONLY:
            from kpfs.engine.trace.text.trace_iter import TraceIterator

            snapshot = file.help if file.is_snapshot else None
            self.iterator = TraceIterator(file.tr, file.cpu, snapshot, file.shared())

    def prepare(self, size: int, offset: int) -> None:
        iterator = self.iterator
        if iterator is None:
            return
        lock = self.file.kernel.lock
        with lock:
            offset = self.tell(offset)
            following = self._at(iterator, offset)
            if offset == self.pos and self._is_end(self.ended, following):
                return
        if offset and offset != self.pos:
            self._pass(following, offset)
        following.prepare(lock, size)
        self.prepared = iterator, offset, following

    def read(self, size: int, offset: int) -> bytes:
        """Kernel: seq_read()"""
        offset = self.tell(offset)
        iterator, prepared, self.prepared = self.iterator, self.prepared, None
        if iterator is None:
            raise KernelError(errno.EBADF, "not open for reading")
        if prepared and prepared[:2] == (iterator, offset) and prepared[2].fits():
            following = prepared[2]
        else:
            following = self._at(iterator, offset)
            if offset and offset != self.pos:
                self._pass(following, offset)
        ended, self.ended = self.ended if offset == self.pos else 0, 0
        if self._is_end(ended, following):
            return b""
        self.iterator = following
        data = following.read_bytes(size, ready=ended > 0)
        self.pos = offset + len(data)
        if 0 < len(data) < size:
            self.ended = ended + 1
        return data

    def _is_end(self, ended: int, iterator: TraceIterator) -> bool:
        """Return True if a reader that came to the end so often in a row is told so."""
        return ended >= ENDS_MAX or (ended > 0 and iterator.left_by(self.pid))

    def _at(self, iterator: TraceIterator, offset: int) -> TraceIterator:
        """Return an iterator that goes on there, or after a seek from the beginning."""
        following = iterator.copy()
        if not offset or offset != self.pos:
            following.restart()
        return following

    def _pass(self, iterator: TraceIterator, count: int) -> None:
        """Skip count characters.  Kernel: traverse()"""
        lock = self.file.kernel.lock
        while count:
            size = min(count, PIECE)
            iterator.prepare(lock, size)
            with lock:
                passed = len(iterator.read(size))
            if not passed:
                return
            count -= passed

    def release(self) -> None:
        if self.iterator is not None:
            self.iterator.close()
        super().release()
