# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds single variables of a kernel on trial, which kallsyms may lack.

A switch is found by switching it: the number that follows is the switch.  The head of a
list is found by its first node, which leads back to it.

Kernel: ftrace_enable_sysctl(), write_enabled_file_bool(), lockdown_write(),
__get_insn_slot(), bpf_ksym_add()
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

from kpfs.base import syscall_numbers as nr
from kpfs.linux.memory.lockdown import MAX_REASONS
from kpfs.linux.memory.rings import TRACING
from kpfs.linux.memory.structures import Tables
from kpfs.linux.running.machine import AGENT, Op, SlotOffset
from kpfs.linux.running.trial import Trial, UnseenError, first

_FTRACE, _NUMBERS = "/proc/sys/kernel/ftrace_enabled", (0x5EED0001, 0x5EED0002)
_PROBES, _TURNS = "/sys/kernel/debug/kprobes/enabled", (0, 1, 0, 1, 1, 0)
_LOCKDOWN, _NO_LEVEL = "/sys/kernel/security/lockdown", "none"
_LEVELS = "integrity", "confidentiality"
_EVENTS, _GET_SLOT = f"{TRACING}/kprobe_events", "__get_insn_slot"
_CACHES = {
    "kprobe_insn_page": "kprobe_insn_slots",
    "kprobe_optinsn_page": "kprobe_optinsn_slots",
}
_OFFSETS = range(16, 48)  # where a function is probed; some are refused
_JIT, _PROGRAM = "/proc/sys/net/core/bpf_jit_enable", b"bpf_prog_"
_LOAD, _ATTR_SIZE, _SOCKET_FILTER = 5, 144, 1  # numbers of bpf(2)
_RETURN_0 = "BxhiBxhi", (0xB7, 0, 0, 0x95, 0, 0)
_SIZE = 128  # bytes that are looked at
_NAMED = 544  # bytes before a node of struct bpf_ksym that have its name


def find_ftrace_switch(trial: Trial, tables: Tables) -> None:
    """Add the number of kernel.ftrace_enabled.  Raises UnseenError."""
    places = list[set[int]]()
    for number in _NUMBERS:
        trial.write(_FTRACE, str(number))
        places.append(set(_holding(trial, trial.model.raw(number, 4))))
    tables.data["ftrace_enabled"] = first(set.intersection(*places)), 4


def find_probes_switch(trial: Trial, tables: Tables) -> None:
    """Add the byte that says that all probes are switched off.  Raises UnseenError."""
    pages = list[dict[int, bytes]]()
    for turn in _TURNS:
        trial.write(_PROBES, str(turn))
        pages.append(dict(trial.pages()))
    wanted = tuple(1 - turn for turn in _TURNS)
    for start, page in pages[0].items():
        raws = [each[start] for each in pages]
        if page != raws[1]:
            for at, row in enumerate(zip(*raws, strict=True)):
                if row == wanted:
                    tables.data["kprobes_all_disarmed"] = start + at, 1
                    return
    raise UnseenError


def find_lockdown(trial: Trial, tables: Tables) -> None:
    """Add the level of lockdown, and the kernel's words for levels.  UnseenError."""
    reasons = first(_reasons(trial))
    words = [*map(trial.string, trial.words(reasons, MAX_REASONS * trial.long))]
    others = {*_holding(trial, trial.model.raw(words.index(_LEVELS[0]), 4))}
    try:
        trial.write(_LOCKDOWN, _LEVELS[0])
    except UnseenError:  # it is locked down already
        others = set()
    level = first(each for each in _LEVELS if f"[{each}]" in trial.text(_LOCKDOWN))
    raw = trial.model.raw(words.index(level), 4)
    for place in {*_holding(trial, raw)} - others:
        trial.memory.write(place, bytes(4))
        if f"[{_NO_LEVEL}]" in trial.text(_LOCKDOWN):
            tables.data["kernel_locked_down"] = place, 4
            size = (words.index(_LEVELS[1]) + 1) * trial.long  # the last one
            tables.data["lockdown_reasons"] = reasons, size
            return
        trial.memory.write(place, raw)
    raise UnseenError


def _reasons(trial: Trial) -> Iterator[int]:
    """Yield where a table of words begins that has the names of all levels."""
    long, name = trial.long, f"{_LEVELS[0]}\0".encode()
    for at in _holding(trial, name, 1):  # it may be the end of a longer text
        for place in _holding(trial, trial.model.raw(at, long)):
            for start in range(place, place - MAX_REASONS * long, -long):
                if trial.string(trial.there(start)) == _NO_LEVEL:
                    yield start


def find_slots(trial: Trial, tables: Tables) -> None:
    """Add where the kernel keeps copies of probed instructions.  UnseenError."""

    def probe() -> None:
        function = f"{trial.arch.syscall_prefix}getppid"
        for number in _OFFSETS:
            with suppress(UnseenError):
                words = f"p:kpfs_trial/slot{number} {function}+{number}"
                trial.write(_EVENTS, words, os.O_APPEND)

    for call in trial.calls((_GET_SLOT,), probe)[_GET_SLOT]:
        cache = call.arguments[0]
        for at, word in enumerate(trial.words(cache, _SIZE)):
            # a list of pages follows, whose head is all that is looked for
            if name := _CACHES.get(trial.string(word)):
                tables.data[name] = cache, (at + 3) * trial.long
                break


def find_programs(trial: Trial, tables: Tables) -> None:
    """Add the list of BPF programs that have symbols.  Raises UnseenError."""
    with suppress(UnseenError):  # a kernel that always compiles has no such file
        trial.write(_JIT, "1")
    before = dict(trial.pages())
    _load_program(trial)
    long = trial.long
    for start, page in trial.pages():
        if page == before[start]:
            continue
        words = trial.model.array(trial.model.letter, page)
        for place, (node, other) in enumerate(pairwise(words)):
            head = start + place * long
            if node != other or trial.there(node) != head != node:
                continue
            if _PROGRAM in trial.raw(node - _NAMED, _NAMED):
                tables.data["bpf_kallsyms"] = head, 2 * long
                return
    raise UnseenError


def _load_program(trial: Trial) -> None:
    """Load a program that the kernel compiles."""
    model = trial.model
    code = model.struct(_RETURN_0[0]).pack(*_RETURN_0[1])
    places = [
        trial.machine.address(AGENT, _ATTR_SIZE + each) for each in (0, len(code))
    ]
    attr = model.struct("IIQQ").pack(_SOCKET_FILTER, len(code) // 8, *places)
    memory = attr.ljust(_ATTR_SIZE, b"\0") + code + b"GPL\0"
    op = Op(nr.BPF, (_LOAD, SlotOffset(0), _ATTR_SIZE))
    if min(trial.run(op, memory=memory).results) < 0:
        raise UnseenError


def _holding(trial: Trial, raw: bytes, align: int = 0) -> Iterator[int]:
    """Yield the addresses in the kernel's data, aligned, at which these bytes are."""
    align = align or len(raw)
    for start, page in trial.pages():
        at = page.find(raw)
        while at >= 0:
            if not at % align:
                yield start + at
            at = page.find(raw, at + 1)
