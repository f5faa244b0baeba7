# SPDX-License-Identifier: GPL-2.0-or-later
"""The functions of a kernel that lose hits of probes and records, by its own types.

Kernel: pre_handler_kretprobe(), kprobes_inc_nmissed_count(), fprobe_handler(),
trace_call_bpf(), __bpf_prog_enter_recur(), bpf_prog_inc_misses_counter(),
bpf_ringbuf_reserve(), perf_output_begin().
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from kpfs.base import abi
from kpfs.linux.board.losses import LossSite
from kpfs.linux.memory.structures import Structures
from kpfs.linux.memory.symbols import CoreSymbols


class Cause(StrEnum):
    """Why something is lost."""

    INSTANCES = "instances"  # a return probe has none left
    RECURSION = "recursion"  # a probe is hit in the handler of one
    FPROBE = "fprobe"
    GUARD = "guard"  # a BPF program runs already: see LossSite.others
    BUFFER = "buffer"  # BPF's ring buffer is full
    PERF = "perf"
    FTRACE_OFF = "ftrace off"


class LossPlace(NamedTuple):
    """A function, with the reason for which it loses something."""

    cause: Cause
    object: str  # the kind of structure that its object is
    site: LossSite


_Named = tuple[str, Cause, str, LossSite]  # the function's name, as in LossPlace
_RUN = "kprobe_multi_link_prog_run"
_GUARDED = {
    "trace_call_bpf": "trace_event_call",
    _RUN: "bpf_link",  # which the others call, or have inlined
    "kprobe_multi_link_handler": "fprobe",
    "kprobe_multi_link_exit_handler": "fprobe",
}
_ENTER = "__bpf_prog_enter", "__bpf_prog_enter_sleepable"
_RINGS = {
    "bpf_ringbuf_reserve": abi.LOSS_ZERO,
    "bpf_ringbuf_output": abi.LOSS_FAILED,
    "bpf_ringbuf_reserve_dynptr": abi.LOSS_FAILED,
}
_PERF = tuple(f"perf_output_begin{which}" for which in ("", "_forward", "_backward"))
_EVENT = 2  # the number of perf_output_begin()'s argument, since 5.10.3


# what is counted only where these structures and data are known
_NEEDED = {
    "missed returns and skipped hits": ("kretprobe", "nmissed"),
    "records of rings": ("ring_buffer_per_cpu", "overrun"),
    "lines left in trace_pipe": ("trace_iterator", "tr"),
    "runs of BPF programs": ("bpf_prog_aux", "name"),
    "events of perf": ("perf_event", "rb"),
}
_SWITCHES = "ftrace_enabled", "kprobes_all_disarmed"


def uncounted(symbols: CoreSymbols, structures: Structures) -> list[str]:
    """Return which losses are not counted in a kernel that lacks BTF."""
    if symbols.address("__start_BTF"):
        return []
    found = [
        what
        for what, (name, field) in _NEEDED.items()
        if not structures[name].has(field)
    ]
    has_switches = all(structures.data(name)[0] for name in _SWITCHES)
    return found + ["hits while ftrace or all probes are off"] * (not has_switches)


def find(symbols: CoreSymbols, structures: Structures) -> Iterator[LossPlace]:
    """Yield the functions that this kernel has, as far as it describes them."""
    for name, cause, of, site in (
        *_of_probes(structures),
        *_of_programs(symbols, structures),
        *_of_buffers(structures),
    ):
        for symbol in symbols.lookup_name(name)[:1]:
            here = site._replace(addr=symbol.addr, size=symbol.size)
            yield LossPlace(cause, of, here)


def _site(kind: int, **fields: int) -> LossSite:
    return LossSite(0, 0, kind, **fields)


def _of_probes(structures: Structures) -> Iterator[_Named]:
    probe, returns = structures["kprobe"].at, structures["kretprobe"].at
    if "nmissed" in returns:
        place, key = returns["nmissed"] - returns["kp"], probe["addr"]
        site = _site(abi.LOSS_RETURN, place=place, key=key, regs=1)
        yield "pre_handler_kretprobe", Cause.INSTANCES, "kprobe", site
        site = _site(abi.LOSS_ALWAYS, key=key)
        yield "kprobes_inc_nmissed_count", Cause.RECURSION, "kprobe", site
    fprobe = structures["fprobe"].at
    if "ops" in fprobe:
        place = fprobe["nmissed"] - fprobe["ops"]
        site = _site(abi.LOSS_GROWN, argument=2, place=place)
        for name in ("fprobe_handler", "fprobe_kprobe_handler"):
            yield name, Cause.FPROBE, "", site
    yield "fgraph_reserve_data", Cause.FPROBE, "", _site(abi.LOSS_ZERO)


def _of_programs(symbols: CoreSymbols, structures: Structures) -> Iterator[_Named]:
    guard = symbols.address("bpf_prog_active")
    is_inlined = not symbols.address(_RUN)
    for name, of in _GUARDED.items():
        if not guard or (of == "fprobe" and not is_inlined):
            continue
        yield name, Cause.GUARD, of, _site(abi.LOSS_GUARD, place=guard)
    active = structures["bpf_prog"].at.get("active")
    ending = "_recur" if symbols.address(f"{_ENTER[0]}_recur") else ""
    for name in _ENTER if active is not None else ():
        site = _site(abi.LOSS_GUARD_OF, place=active or 0)
        yield f"{name}{ending}", Cause.GUARD, "bpf_prog", site
    site = _site(abi.LOSS_ALWAYS)
    yield "bpf_prog_inc_misses_counter", Cause.GUARD, "bpf_prog", site


def _of_buffers(structures: Structures) -> Iterator[_Named]:
    for name, kind in _RINGS.items():
        yield name, Cause.BUFFER, "bpf_map", _site(kind)
    buffer = structures["perf_event"].at.get("rb")
    for name in _PERF if buffer is not None else ():
        fields = {"argument": _EVENT, "needs": buffer or 0}
        yield name, Cause.PERF, "", _site(abi.LOSS_FAILED, **fields)
