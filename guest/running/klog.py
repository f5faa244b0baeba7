# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's printk ring, struct kpfs_log: read for /dev/kmsg, written for the engine.

Records lie one behind the other; one that does not fit before the end goes to the
start, and a header of length 0, for which there is always room, marks where.  A faulty
guest may have overwritten it: a ring that makes no sense is read as an empty log.
Context: either.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from kpfs.base import abi
from kpfs.base.typed import NamedTuple
from kpfs.guest.emu.memory import Memory

_LOG, _RECORD = abi.KpfsLog.STRUCT, abi.KpfsLogRecord.STRUCT
_STATE_AT = abi.KpfsLog.first_seq
_STATE = struct.Struct("<4Q")  # first_seq, first_idx, next_seq, next_idx
_TEXT_MAX = 1000
_INT, _LEVELS = struct.Struct("<i"), struct.Struct("<4i")
DEFAULT_LEVELS = 7, 4, 1, 7
CONSOLE = 0  # index in levels()
# printed by the guest's oops with %pS, as it has no symbols itself
_TEXT_ADDRESS = (
    b"RIP: 0010:0xffffffff",
    b" 0xffffffff",
    b" ? 0xffffffff",
    b"  ? 0xffffffff",
)


class LogRecord(NamedTuple):
    """One line of the kernel log."""

    seq: int
    ts_nsec: int
    facility: int
    level: int
    text: bytes


class KernelLog:
    """The ring as it stands in the guest's memory."""

    def __init__(
        self,
        memory: Memory,
        addr: int,
        now: Callable[[], int],
        name_of: Callable[[int], str] = hex,
        *,
        console_printk: int = 0,
    ) -> None:
        """``name_of`` gives symbol+offset/size for the addresses of an oops.

        console_printk: the address of that array; 0: the guest has none.
        """
        self._now = now
        self._name_of = name_of
        self._ram = memory.ram
        self._at = memory.translate(addr, _LOG.size)
        buf, size = _LOG.unpack_from(self._ram, self._at)[:2]
        self.size: int = size  # kernel: log_buf_len
        self._seen = 0, 0  # number and index of the last answer's first record
        self._buf = memory.translate(buf, size)
        self._levels_at = (
            memory.translate(console_printk, _LEVELS.size) if console_printk else 0
        )

    def levels(self) -> tuple[int, ...]:
        """Return console_loglevel and the three behind it.  Kernel: console_printk"""
        if not self._levels_at:
            return DEFAULT_LEVELS
        return _LEVELS.unpack_from(self._ram, self._levels_at)

    def set_level(self, index: int, value: int) -> None:
        """Set one of levels()."""
        if self._levels_at:
            _INT.pack_into(self._ram, self._levels_at + index * _INT.size, value)

    def _header(self, index: int) -> tuple[int, ...]:
        """Return the record's header; its length is 0 where the ring wraps."""
        if index > self.size - _RECORD.size:
            return 0, 0, 0, 0, 0, 0
        return _RECORD.unpack_from(self._ram, self._buf + index)

    def _state(self) -> tuple[int, int, int, int]:
        """Return first_seq, first_idx, next_seq, next_idx."""
        state = _STATE.unpack_from(self._ram, self._at + _STATE_AT)
        first_seq, first, next_seq, index = state
        most = self.size // _RECORD.size
        if 0 <= next_seq - first_seq <= most and max(first, index) <= self.size:
            return first_seq, first, next_seq, index
        return 0, 0, 0, 0

    @property
    def next_seq_at(self) -> int:
        """The offset in RAM of the sequence number of the next record."""
        return self._at + abi.KpfsLog.next_seq

    def next_seq(self) -> int:
        """Return the sequence number of the next record."""
        return self._state()[2]

    def records(self, since: int = 0) -> list[LogRecord]:
        """Return the records with a sequence number of since or above, oldest first."""
        first_seq, index, next_seq, _ = self._state()
        seq, at = self._seen
        if first_seq <= seq <= since and self._header(at)[1] == seq:
            first_seq, index = seq, at  # the walk goes on from there
        result: list[LogRecord] = []
        for seq in range(first_seq, next_seq):
            ts, _seq, length, text_len, facility, level = self._header(index)
            if not length:
                index = 0
                ts, _seq, length, text_len, facility, level = self._header(0)
            if seq >= since:
                if not result:
                    self._seen = seq, index
                start = self._buf + index + _RECORD.size
                text_len = min(text_len, _TEXT_MAX)
                text = self._named(self._ram[start : start + text_len])
                result.append(LogRecord(seq, ts, facility, level, text))
            index += length
        return result

    def _named(self, text: bytes) -> bytes:
        if not text.startswith(_TEXT_ADDRESS):
            return text
        head, _, digits = text.partition(b"0x")
        return head + self._name_of(int(digits, 16)).encode()

    def panic_reason(self) -> str:
        """Return the line that says why the kernel is dead."""
        lines = [r.text.decode(errors="replace") for r in self.records()]
        return next((x for x in lines if x.startswith("Kernel panic")), "kernel panic")

    def printk(self, level: int, text: str) -> None:
        """Add a record for each line.  Kernel: vprintk_store()."""
        for line in text.rstrip("\n").split("\n"):
            self.store(0, level, line.encode(errors="replace"))

    def store(self, facility: int, level: int, text: bytes) -> None:
        """Add one record with any text; facility 0 is the kernel's own."""
        text = text[:_TEXT_MAX]
        length = (_RECORD.size + len(text) + 7) & ~7
        first_seq, first, next_seq, index = self._state()
        if first_seq < next_seq and not self._header(first)[2]:
            first = 0
        if index + length + _RECORD.size > self.size:  # the mark must fit behind it
            while first_seq < next_seq and first >= index:
                first_seq, first = self._drop(first_seq, first)
            _RECORD.pack_into(self._ram, self._buf + index, 0, 0, 0, 0, 0, 0)
            index = 0
        while first_seq < next_seq and index <= first < index + length:
            first_seq, first = self._drop(first_seq, first)
        header = self._now(), next_seq, length, len(text), facility, level
        start = self._buf + index
        data = _RECORD.pack(*header) + text
        self._ram[start : start + len(data)] = data
        if first_seq == next_seq:
            first = index
        state = first_seq, first, next_seq + 1, index + length
        _STATE.pack_into(self._ram, self._at + _STATE_AT, *state)

    def _drop(self, seq: int, index: int) -> tuple[int, int]:
        """Return where the log begins without its oldest record: (seq, index)."""
        index += self._header(index)[2]
        return seq + 1, 0 if not self._header(index)[2] else index
