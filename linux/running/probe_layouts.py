# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds the structures of kprobes and of their events in a kernel on trial.

A probe and a return probe are made as events, whose names and places are known.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.units import PAGE_SIZE
from kpfs.linux.memory.btf import StructLayout
from kpfs.linux.memory.kprobes import FLAG_DISABLED, cpu_offset
from kpfs.linux.memory.rings import TRACING
from kpfs.linux.memory.structures import MAX_LISTED, Tables
from kpfs.linux.running.machine import Op
from kpfs.linux.running.trial import Trial, UnseenError, first

_GROUP, _NAME, _RETURN = "kpfs_trial", "kpfs_one", "kpfs_two"
_EVENTS, _LIST = f"{TRACING}/kprobe_events", "/sys/kernel/debug/kprobes/list"
_EVENT = f"{TRACING}/events/{_GROUP}/{_NAME}"
_REGISTER, _REGISTER_RETURN = "register_kprobe", "register_kretprobe"
_AVAILABLE, _TRACEPOINT = f"{TRACING}/available_events", "TRACE_EVENT_FL_TRACEPOINT"
_FLAGS, _MANY = 1 << 12, 400  # events that are looked at; their flags are below this
_ADD_EVENT = "trace_add_event_call"
_OTHERS = "vfs_read", "vfs_write", "do_sys_openat2"  # some place there takes a jump
_WITHIN = 64  # bytes of a function in which places are tried for an event
_MARK = 16  # bytes of what a function may begin with before its probe
_INSTANCES = 77  # a return probe is to have
_HITS = 5
_SIZE = 512  # bytes that are looked at
_TABLE_BITS, _GOLDEN = 6, {8: 0x61C8864680B583EB, 4: 0x61C88647}  # hash_ptr()


class _MadeEvent(NamedTuple):
    """An event of a probe."""

    function: str
    offset: int
    place: int
    code: bytes  # what was there
    probe: int  # its struct kprobe
    call: int  # its struct trace_event_call


def find_probes(trial: Trial, tables: Tables) -> None:
    """Add kprobes, their events, and where the kernel has them.  UnseenError."""
    made = _make(trial, f"{trial.arch.syscall_prefix}getppid")
    probe = _kprobe(trial, made)
    entry = _entry(trial, made.probe, probe["list"])
    # the first in its row of kprobe_table leads back to this
    node = first(
        at
        for at in range(0, _SIZE, trial.long)
        if trial.there(trial.there(entry + at + trial.long)) == entry + at
        if at != probe["list"]
    )
    row = trial.memory.word(entry + node + trial.long)
    tables.data["kprobe_table"] = _table(trial, row, made.place)
    bits = {}
    if trial.arch.boosts and "ainsn.insn" in probe:
        probe["ainsn.boostable"] = probe["ainsn.insn"] + trial.long
        bits["ainsn.boostable"] = 0, 1
    size = probe["flags"] + 4  # its last field
    size += -size % trial.long
    tables.layouts["kprobe"] = StructLayout(size, {"hlist": node, **probe}, bits)
    _add_event(trial, tables, made, probe)


def _add(tables: Tables, name: str, at: dict[str, int], size: int = 8) -> None:
    """Add a structure that reaches beyond its last field, which has so many bytes."""
    tables.layouts[name] = StructLayout(max(at.values()) + size, at, {})


def _offsets(trial: Trial) -> range:
    """Return the offsets at which instructions may begin, but for a function's first.

    Not all kernels refuse others: mips64el's would spoil two instructions there.
    """
    return range(trial.arch.breakpoint_size, _WITHIN, trial.arch.breakpoint_size)


def _make(
    trial: Trial, function: str, name: str = _NAME, offsets: Iterable[int] = ()
) -> _MadeEvent:
    """Make an event at the first place of a function that takes a plain probe."""
    start = trial.function(function)
    code = trial.memory.read(start, _WITHIN + _MARK)
    for offset in offsets or _offsets(trial):
        words = f"p:{_GROUP}/{name} {function}+{offset}"

        def define(words: str = words) -> None:
            trial.write(_EVENTS, words, os.O_APPEND)

        try:
            seen = trial.calls((_REGISTER, _ADD_EVENT), define)
        except UnseenError:  # no probe goes there
            continue
        if "[FTRACE]" in trial.text(_LIST):
            trial.write(_EVENTS, f"-:{_GROUP}/{name}", os.O_APPEND)
            continue
        probe, call = (first(calls).arguments[0] for calls in seen.values())
        place = function, offset, start + offset, code[offset:]
        return _MadeEvent(*place, probe, call)
    raise UnseenError


def _kprobe(trial: Trial, made: _MadeEvent) -> dict[str, int]:
    """Return the fields of struct kprobe but for ``hlist``."""
    long, own, size = trial.long, made.probe, trial.arch.breakpoint_size
    disabled = trial.raw(own, _SIZE)

    def is_node(at: int) -> bool:
        after, before = trial.number(disabled, at), trial.number(disabled, at + long)
        return after == before != 0 and trial.there(after) == own + at

    handler = trial.function("kprobe_dispatcher")
    found = {
        "list": first(at for at in range(0, _SIZE, long) if is_node(at)),
        "addr": trial.equal([disabled], [made.place]),
        "pre_handler": trial.equal([disabled], [handler]),
        "symbol_name": trial.offset(
            [disabled], lambda _, word: trial.string(word) == made.function
        ),
    }
    # these follow in all versions
    found["offset"] = found["symbol_name"] + long
    found["post_handler"] = found["pre_handler"] + long
    behind = found["post_handler"] + long
    found["opcode"] = behind + disabled[behind:].index(
        trial.model.raw(trial.model.number(made.code[:size]), size)
    )
    copy = found["opcode"] + long
    if trial.there(trial.number(disabled, copy)):
        found["ainsn.insn"] = copy
    trial.call("kprobes_inc_nmissed_count", own)
    counted = trial.raw(own, _SIZE)
    found["nmissed"] = trial.offset(
        [disabled, counted], lambda n, word: word == n, count=1
    )
    trial.write(f"{_EVENT}/enable", "1")
    enabled = trial.raw(own, _SIZE)
    found["flags"] = first(
        at
        for at in range(0, _SIZE, 4)
        if trial.number(disabled, at, 4) ^ trial.number(enabled, at, 4) == FLAG_DISABLED
    )
    return found


def _entry(trial: Trial, probe: int, node: int) -> int:
    """Return the kprobe in kprobe_table that a probe is, or that stands for it."""
    return trial.memory.word(probe + node) - node


def _table(trial: Trial, row: int, place: int) -> tuple[int, int]:
    """Return kprobe_table and its size.  row: where an address stands."""
    bits = 8 * trial.long
    number = place * _GOLDEN[trial.long] % (1 << bits) >> bits - _TABLE_BITS
    return row - number * trial.long, trial.long << _TABLE_BITS


def _add_event(
    trial: Trial, tables: Tables, made: _MadeEvent, probe: dict[str, int]
) -> None:
    long, own, call = trial.long, made.probe, made.call

    def is_linked(addr: int) -> bool:
        after, before = trial.words(addr, 2 * long)
        back = trial.there(after + long), trial.there(before)
        return after != addr and back == (addr, addr)

    event = first(at for at in range(own - long, own - _SIZE, -long) if is_linked(at))
    raw = trial.raw(event, _SIZE)
    name = trial.memory.word(own + probe["symbol_name"])
    *_, symbol = trial.offsets([raw], lambda _, word: word == name)
    # the name is behind its counts
    found = {"rp.kp": own - event, "nhit": symbol - long}
    places = trial.offsets([raw], lambda _, word: call - _SIZE < word < call)
    found["tp.event"] = first(at for at in places if at > symbol)
    shared = trial.number(raw, found["tp.event"])
    words = [*map(trial.string, trial.words(shared, _SIZE))]
    both = {
        "class.system": words.index(_GROUP) * long,
        "call.name": words.index(_NAME) * long,
    }
    _add(tables, "trace_kprobe", found)
    _add(tables, "trace_probe_event", both)
    head = trial.memory.word(event)  # there is no other one
    tables.data["dyn_event_list"] = head, 2 * long
    _add_call(trial, tables, call, shared + both["class.system"])
    counts = trial.number(raw, found["nhit"])
    for number, offset in enumerate(_per_cpu(trial, counts)):
        tables.values[cpu_offset(number)] = offset


def _add_call(trial: Trial, tables: Tables, call: int, class_: int) -> None:
    """Add struct trace_event_call, and the list of all.  class_: its class."""
    long, raw = trial.long, trial.raw(call, _SIZE)
    number = int(trial.text(f"{_EVENT}/id"))
    found = {
        "list": 0,
        "class": trial.equal([raw], [class_]),
        "name": trial.offset([raw], lambda _, word: trial.string(word) == _NAME),
        "event.type": trial.equal([raw], [number], 4),
    }
    head = trial.memory.word(call + long)  # the newest comes first
    if trial.memory.word(head) != call:
        raise UnseenError
    tables.data["ftrace_events"] = head, 2 * long
    found["flags"], tables.values[_TRACEPOINT] = _flags(trial, call, found["name"])
    _add(tables, "trace_event_call", found)


def _flags(trial: Trial, call: int, name: int) -> tuple[int, int]:
    """Return where an event has its flags, and the one of tracepoints.

    All of these have it, and no event of a probe has.
    """
    known = {row.partition(":")[2] for row in trial.text(_AVAILABLE).splitlines()}
    others = [
        trial.raw(node, _SIZE)
        for node in islice(trial.memory.nodes(call, MAX_LISTED), _MANY)
        if trial.string(trial.there(trial.there(node + name))) in known
    ]
    own = trial.raw(call, _SIZE)
    for at in trial.offsets([own], lambda _, flags: 0 < flags < _FLAGS, 4):
        common = ~trial.number(own, at, 4)
        for each in others:
            common &= trial.number(each, at, 4)
        if others and 0 < common < _FLAGS:
            return at, 1 << common.bit_length() - 1
    raise UnseenError


def _per_cpu(trial: Trial, counts: int) -> Sequence[int]:
    """Return the offset of each processor's data, by the counts of a probe.

    The kernel has a table of them: numbers of pages, by which the counts are right.
    """
    cpus, found = trial.board.get(abi.Board.nr_cpus), set[tuple[int, ...]]()
    for _, words in trial.data():
        for place, word in enumerate(words):
            if word and not word % PAGE_SIZE:
                found.add(tuple(words[place : place + cpus]))
    for hits in range(1, _HITS):
        trial.run(Op(nr.GETPPID))
        found = {
            row for row in found if sum(trial.there(counts + at) for at in row) == hits
        }
    return first(found)


def find_return_probes(trial: Trial, tables: Tables) -> None:
    """Add struct kretprobe.  Raises UnseenError."""
    function = f"{trial.arch.syscall_prefix}getppid"
    words = f"r{_INSTANCES}:{_GROUP}/{_RETURN} {function}"
    seen = trial.calls(
        (_REGISTER_RETURN,), lambda: trial.write(_EVENTS, words, os.O_APPEND)
    )
    probe, start = first(seen[_REGISTER_RETURN]).arguments[0], trial.function(function)
    raw, handler = trial.raw(probe, _SIZE), trial.function("kretprobe_dispatcher")
    at = tables.layouts["kprobe"].at["addr"]
    if not start <= trial.number(raw, at) < start + _MARK:
        raise UnseenError
    found = {"kp": 0, "handler": trial.equal([raw], [handler])}
    found["entry_handler"] = found["handler"] + trial.long
    found["maxactive"] = trial.equal([raw], [_INSTANCES], 4)
    found["nmissed"] = found["maxactive"] + 4  # an int, as the one before
    event = tables.layouts["trace_kprobe"].at  # has a field between the two
    size = event["nhit"] - event["rp.kp"]
    tables.layouts["kretprobe"] = StructLayout(size, found, {})


def find_jumps(trial: Trial, tables: Tables) -> None:
    """Add struct optimized_kprobe, of a probe that can become a jump.  UnseenError."""
    at, long = tables.layouts["kprobe"].at, trial.long
    trial.function("optimized_callback")  # else nothing becomes a jump
    for number, function in enumerate(_OTHERS):
        for offset in _offsets(trial):
            with suppress(UnseenError):
                made = _make(trial, function, f"jump{number}", (offset,))
                entry = _entry(trial, made.probe, at["list"])
                if entry != made.probe:
                    break
        else:
            continue
        raw = trial.raw(entry, _SIZE)
        # a list follows, the code that the jump replaces, and the address of the detour
        node = first(
            place
            for place in range(at["flags"] + 4 & -long, _SIZE, long)
            if trial.there(trial.number(raw, place)) == entry + place
        )
        found = {"kp": 0, "optinsn.copied_insn": node + 2 * long}
        found["optinsn.insn"] = node + 3 * long
        if trial.there(trial.number(raw, found["optinsn.insn"])):
            _add(tables, "optimized_kprobe", found, long)
            return
    raise UnseenError
