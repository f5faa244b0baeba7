# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds the structures of trace arrays and their rings in a kernel on trial.

An instance is made, written to, overwritten, and read.  Its files tell how many records
it has lost, and the records are known.
"""

from __future__ import annotations

import os
import re

from kpfs.base import syscall_numbers as nr
from kpfs.base.units import PAGE_SIZE
from kpfs.linux.memory.btf import StructLayout
from kpfs.linux.memory.rings import TRACING
from kpfs.linux.memory.structures import Tables
from kpfs.linux.running.machine import Op, Out
from kpfs.linux.running.trial import Trial, UnseenError, first

_NAME, _TEXT = "kpfs_trial", "kpfs_trial_of_rings"
_INSTANCE = f"{TRACING}/instances/{_NAME}"
_STATS = f"{_INSTANCE}/per_cpu/cpu0/stats"
# functions that get an array, and the buffer whose counts are asked for
_GETS_ARRAY = "tracing_check_open_get_tr", "trace_array_get", "trace_array_put"
_GETS_BUFFER = "ring_buffer_entries_cpu"
_SIZE, _ARRAY_SIZE = 1024, 16 << 10  # bytes that are looked at
_BEGIN = 64  # bytes of a ring in which it names its buffer
_ROUNDS = 37  # writes of a page at once
_PIECE, _READS = 200, 6  # bytes of text at once: some records, and not a page


def find_rings(trial: Trial, tables: Tables) -> None:
    """Add trace arrays, buffers, rings and pages.  Raises UnseenError."""
    long, mask = trial.long, trial.model.raw(1, trial.long)
    trial.run(Op(nr.SCHED_SETAFFINITY, (0, len(mask), mask)))  # whose ring is looked at
    made = Op(nr.MKDIR, (_INSTANCE.encode() + b"\0", 0o700))
    seen = trial.calls(_GETS_ARRAY, lambda: _begin(trial, made))
    arrays = [call.arguments[0] for calls in seen.values() for call in calls]
    array, name = first(
        (each, at)
        for each in arrays
        for at in range(0, _BEGIN, long)
        if trial.string(trial.there(each + at)) == _NAME
    )
    (asked, *_) = trial.calls((_GETS_BUFFER,), lambda: trial.text(_STATS))[_GETS_BUFFER]
    buffer = asked.arguments[0]
    found = {
        "list": 0,
        "name": name,
        "array_buffer.buffer": trial.equal([trial.raw(array, _ARRAY_SIZE)], [buffer]),
    }
    _add(tables, "trace_array", found, long)
    head = trial.memory.word(array + long)  # the newest comes first
    if trial.memory.word(head) != array:
        raise UnseenError
    tables.data["ftrace_trace_arrays"] = head, 2 * long
    rings = trial.offset(
        [trial.raw(buffer, _SIZE)],
        lambda _, word: buffer in trial.words(trial.there(word), _BEGIN),
    )
    _add(tables, "trace_buffer", {"buffers": rings}, long)
    _find_ring(trial, tables, trial.memory.word(trial.memory.word(buffer + rings)))


def _add(tables: Tables, name: str, at: dict[str, int], size: int) -> None:
    """Add a structure whose last field has so many bytes."""
    tables.layouts[name] = StructLayout(max(at.values()) + size, at, {})


def _begin(trial: Trial, made: Op) -> None:
    trial.run(made)
    trial.write(f"{_INSTANCE}/buffer_size_kb", "8")
    trial.write(f"{_INSTANCE}/tracing_on", "1")


def _find_ring(trial: Trial, tables: Tables, ring: int) -> None:
    long, raws, told = trial.long, [trial.raw(ring, _SIZE)], list[dict[str, int]]()
    # three pages are one in an empty ring, the reader has another
    places = trial.offset(
        raws,
        lambda _, *pages: 0 != pages[0] == pages[1] == pages[2] != pages[3] != 0,
        count=4,
    )
    raws.clear()
    for overwrites in ("1", "0"):
        trial.write(f"{_INSTANCE}/options/overwrite", overwrites)
        for _ in range(2):
            _fill(trial)
            raws.append(trial.raw(ring, _SIZE))
            rows = re.findall(r"^(.*): (\d+)$", trial.text(_STATS), re.M)
            told.append({name: int(value) for name, value in rows})
    found = {
        "head_page": places,
        "commit_page": places + 2 * long,
        "reader_page": places + 3 * long,
    }
    for field, name in (("overrun", "overrun"), ("dropped_events", "dropped events")):
        found[field] = trial.offset(
            raws, lambda n, word, name=name: word == told[n][name]
        )
    _add(tables, "ring_buffer_per_cpu", found, long)
    _find_page(trial, tables, ring + found["reader_page"])


def _fill(trial: Trial) -> None:
    """Write more records than the ring has room for, each time another number."""
    words = f"{_TEXT}{'.' * 400}\n".encode()
    path = f"{_INSTANCE}/trace_marker".encode() + b"\0"
    (fd,) = trial.run(Op(nr.OPENAT, (nr.AT_FDCWD, path, os.O_WRONLY, 0))).results
    for _ in range(_ROUNDS):
        trial.run(Op(nr.WRITE, (fd, words, len(words))))
    trial.run(Op(nr.CLOSE, (fd,)))


def _find_page(trial: Trial, tables: Tables, reader: int) -> None:
    """Find struct buffer_page by reading some records, and some more."""
    path = f"{_INSTANCE}/trace_pipe".encode() + b"\0"
    opening = Op(nr.OPENAT, (nr.AT_FDCWD, path, os.O_RDONLY | os.O_NONBLOCK, 0))
    (fd,) = trial.run(opening).results
    raws = list[bytes]()
    for _ in range(_READS):
        trial.run(Op(nr.READ, (fd, Out(_PIECE), _PIECE)))
        raws.append(trial.raw(trial.memory.word(reader), _SIZE))
    found = {
        "list": 0,
        "page": trial.offset(
            raws[:1], lambda _, word: _TEXT.encode() in trial.raw(word, PAGE_SIZE)
        ),
        "read": first(
            at
            for at in range(0, _BEGIN, 4)
            if 0 < trial.number(raws[0], at, 4) < trial.number(raws[-1], at, 4)
        ),
    }
    _add(tables, "buffer_page", found, trial.long)
