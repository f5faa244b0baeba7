# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds the table of system calls in a kernel on trial, by functions that it has."""

from __future__ import annotations

from kpfs.base import syscall_numbers as nr
from kpfs.base.ktypes import FUNCTION_TYPES
from kpfs.linux.memory.calls import ABSENT
from kpfs.linux.memory.structures import Tables
from kpfs.linux.running.trial import Trial, UnseenError

_CALLS = {"getppid": nr.GETPPID, "getuid": nr.GETUID, "close": nr.CLOSE}
_TABLE, _ABSENT = "sys_call_table", f"sys_{ABSENT}"
_MOST = 512  # rows


def find_calls(trial: Trial, tables: Tables) -> None:
    """Add where sys_call_table is, if it is data.  Raises UnseenError."""
    arch, long, symbols = trial.arch, trial.long, trial.symbols
    if any(row.type in FUNCTION_TYPES for row in symbols.lookup_name(_TABLE)):
        return
    rows = {}
    for name, number in _CALLS.items():
        function = trial.function(f"{arch.syscall_prefix}{name}")
        rows[arch.native(number, ())[0] - arch.first_call] = function
    (number, function), *others = rows.items()
    for page, words in trial.data():
        for place, word in enumerate(words):
            start = page + (place - number) * long
            if word == function and all(
                trial.there(start + other * long) == at for other, at in others
            ):
                tables.data[_TABLE] = start, _rows(trial, start) * long
                return
    raise UnseenError


def _rows(trial: Trial, start: int) -> int:
    """Return how many rows a table has.  Another one may follow, and begin alike."""
    prefix = trial.arch.syscall_prefix
    known = dict(trial.symbols.beginning_with(prefix))
    known.update(dict.fromkeys(trial.functions(_ABSENT), _ABSENT))
    words = trial.words(start, _MOST * trial.long)
    for number, word in enumerate(words):
        is_first = word == words[0] and not known.get(word, "").endswith(ABSENT)
        if word not in known or (number and is_first):
            return number
    return len(words)
