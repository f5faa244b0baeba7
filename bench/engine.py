# SPDX-License-Identifier: GPL-2.0-or-later
"""The engine without a mount: hits, unprobed code, many probes at once.

All of it runs in this thread, whose own processor time is taken: others on the machine
disturb it less.
"""

from __future__ import annotations

import contextlib
import gc
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from time import thread_time
from typing import Any, NamedTuple

from bench.guestcode import CALLS, TARGETS, BareEngine, Loop
from bench.row import Functions, Row, least, medians, seconds
from kpfs.backends.guest import tree
from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KAddr
from kpfs.engine.arch.x86.ainsn import ainsn_of
from kpfs.engine.arch.x86.checks.probe import Emulation
from kpfs.engine.arch.x86.opt import Optinsn
from kpfs.engine.kprobe import Kprobe, OptimizedKprobe
from kpfs.engine.kretprobe import Kretprobe, register_kretprobe, unregister_kretprobe
from kpfs.engine.register import register_kprobe, unregister_kprobe, unregister_kprobes
from kpfs.engine.state import State
from kpfs.fs.node import walk
from kpfs.host.process import settle_heap

KINDS = ("python", "event")
COUNTS = (100, 1_000, 10_000)
TURNS = 10  # parts of a measurement of a hit
SETTLE = 20  # ticks, for what the optimizer still has to do


class Bench:
    """A kernel without background work, and its files."""

    def __init__(self) -> None:
        self.kernel = GuestKernel(nr_cpus=2, quiet=True)
        self.root = tree.build(self.kernel)
        self.state = self.kernel.state
        self.machine = self.kernel.guest
        gc.collect()
        settle_heap()  # as a daemon does

    def store(self, path: str, text: str) -> None:
        file: Any = walk(self.root, path)
        with self.kernel.lock:
            file.store(text.encode())

    def show(self, path: str) -> str:
        file: Any = walk(self.root, path)
        with self.kernel.lock:
            return str(file.show())

    def settle(self) -> None:
        """Run the optimizer until its queue is empty."""
        for _ in range(SETTLE):
            self.kernel.guest.tick()


def nothing(_p: Any, _regs: Any) -> int:
    return 0


class Place(NamedTuple):
    """A probe point in one of the functions that may be called in a loop."""

    function: str
    offset: int

    def __str__(self) -> str:
        return f"{self.function}+{self.offset}"


def find(bench: Bench, wanted: Callable[[Kprobe], bool]) -> Place | None:
    """The first place behind an entry whose registered probe is as wanted."""
    for function in TARGETS:
        symbol = bench.machine.kallsyms.lookup_name(function)[0]
        for offset in range(5, symbol.size):
            probe = Kprobe(symbol_name=function, offset=offset, pre_handler=nothing)
            try:
                register_kprobe(bench.state, probe)
            except KernelError:  # no boundary, or refused
                continue
            bench.settle()
            found = wanted(probe)
            unregister_kprobe(bench.state, probe)
            bench.settle()
            if found:
                return Place(function, offset)
    return None


def is_boosted(probe: Kprobe) -> bool:
    return ainsn_of(probe).boostable


def is_jump(bench: Bench) -> bool:
    """Return True if the one probe there is has become a jump."""
    return "[OPTIMIZED]" in bench.show("/kprobes/list")


def is_stepped(probe: Kprobe) -> bool:
    ainsn = ainsn_of(probe)
    return not ainsn.boostable and ainsn.kind is Emulation.NONE


class Setting:
    """A way to probe a function: how to put the probe in, and out again."""

    def __init__(
        self, function: str, put: Callable[[], object], take: Callable[[], object]
    ) -> None:
        self.function = function
        self.put = put
        self.take = take


def with_kprobe(bench: Bench, place: Place, **handlers: Any) -> Setting:
    probes: list[Kprobe] = []

    def put() -> None:
        probe = Kprobe(symbol_name=place.function, offset=place.offset, **handlers)
        register_kprobe(bench.state, probe)
        probes.append(probe)

    def take() -> None:
        unregister_kprobe(bench.state, probes.pop())

    return Setting(place.function, put, take)


def with_return(bench: Bench) -> Setting:
    probes: list[Kretprobe] = []

    def handler(_ri: Any, _regs: Any) -> int:
        return 0

    def put() -> None:
        probes.append(Kretprobe(Kprobe(symbol_name=TARGETS[0]), handler=handler))
        register_kretprobe(bench.state, probes[-1])

    return Setting(
        TARGETS[0], put, lambda: unregister_kretprobe(bench.state, probes.pop())
    )


def with_event(bench: Bench, place: Place, letter: str = "p") -> Setting:
    enable = "/tracing/events/kprobes/bench/enable"

    def put() -> None:
        bench.store("/tracing/kprobe_events", f"{letter}:bench {place}\n")
        bench.store(enable, "1")

    def take() -> None:
        counted = int(bench.show("/tracing/kprobe_profile").split()[1])
        assert counted >= CALLS, f"{place}: {counted} hits"
        bench.store(enable, "0")
        bench.store("/tracing/kprobe_events", "-:bench\n")

    return Setting(place.function, put, take)


def per_hit(bench: Bench, setting: Setting, repeats: int) -> float:
    """Microseconds that a hit adds to a call."""
    loop = Loop(bench.machine, setting.function)
    loop()
    turn = [partial(loop, CALLS // TURNS)]
    bases, probed = [], []
    for _ in range(3):
        bases += least(turn, TURNS * repeats, thread_time)
        setting.put()
        bench.settle()
        loop(100)
        probed += least(turn, TURNS * repeats, thread_time)
        setting.take()
        bench.settle()
    return (min(probed) - min(bases)) / CALLS * TURNS * 1e6


def hits(repeats: int) -> Iterator[Row]:
    """Microseconds per hit over no probe."""
    bench = Bench()

    def row(name: str, place: Place | None) -> Iterator[Row]:
        """Measure a handler in Python that does nothing, and an event."""
        if place is None:
            yield Row(f"hit_{name}_python", None, "us", note="no such place")
            return
        python = with_kprobe(bench, place, pre_handler=nothing)
        event = with_event(bench, place)
        for kind, setting in zip(KINDS, (python, event), strict=True):
            took = per_hit(bench, setting, repeats)
            yield Row(f"hit_{name}_{kind}", took, "us", note=str(place))

    yield from row("optimized", find(bench, lambda _probe: is_jump(bench)))
    bench.store("/sys/debug/kprobes-optimization", "0")
    yield from row("singlestep", find(bench, is_stepped))
    yield from row("boosted", find(bench, is_boosted))
    yield from row("ftrace", Place(TARGETS[0], 0))
    yield Row("hit_return_python", per_hit(bench, with_return(bench), repeats), "us")
    event = with_event(bench, Place(TARGETS[0], 0), "r")
    yield Row("hit_return_event", per_hit(bench, event, repeats), "us")


def unprobed(repeats: int) -> Iterator[Row]:
    """Guest code without probes, against the same code in a bare engine."""
    bench = Bench()
    loop = Loop(bench.machine)
    loop()
    bare = BareEngine(bench.machine)
    bare(loop.at)
    calls = 50 * CALLS
    turns: Functions = [lambda: loop(calls), lambda: bare(loop.at, calls)]
    ours, theirs = medians(turns, repeats, thread_time)
    yield Row("guest_calls", calls / ours / 1e6, "M/s")
    yield Row("bare_calls", calls / theirs / 1e6, "M/s")
    yield Row("guest_over_bare", theirs / ours, "x")
    probes = probe_everywhere(bench, 10_000, but=loop.target)
    armed, theirs = medians(turns, repeats, thread_time)
    note = f"{len(probes)} probes armed elsewhere"
    yield Row("guest_over_bare_armed", theirs / armed, "x", note=note)


def places(bench: Bench, count: int, but: int = 0) -> list[int]:
    """Addresses of the guest's text that take a probe; one function stays without."""
    found: list[int] = []
    for symbol in bench.machine.kallsyms:
        if len(found) >= count:
            break
        if symbol.type not in "tT" or symbol.addr == but or symbol.module:
            continue
        text: Any = getattr(bench.state.arch, "text")  # noqa: B009 (x86 has it)
        function = text.function(symbol.addr)
        for addr in function.index if function else ():
            probe = Kprobe(addr=addr, pre_handler=nothing)
            with contextlib.suppress(KernelError):
                register_kprobe(bench.state, probe)
                unregister_kprobe(bench.state, probe)
                found.append(addr)
    return found[:count]


def probe_everywhere(bench: Bench, count: int, but: int = 0) -> list[Kprobe]:
    """Register probes at count addresses, or as many as there are."""
    found = places(bench, count, but)
    probes = [Kprobe(addr=KAddr(addr), pre_handler=nothing) for addr in found]
    for probe in probes:
        register_kprobe(bench.state, probe)
    return probes


def register_all(state: State, probes: list[Kprobe]) -> None:
    for probe in probes:
        register_kprobe(state, probe)


def many(repeats: int) -> Iterator[Row]:
    """Register, list, disarm and arm many probes at once."""
    bench = Bench()
    found = places(bench, max(COUNTS))
    for count in COUNTS:
        # where there are too few addresses, more than one probe to an address
        chosen = [found[i % len(found)] for i in range(count)]
        probes = [Kprobe(addr=KAddr(addr), pre_handler=nothing) for addr in chosen]

        taking = seconds(partial(register_all, bench.state, probes), thread_time)
        yield Row(f"register_{count}", taking, "s")
        listing, off, on = medians(
            [
                lambda: bench.show("/kprobes/list"),
                lambda: bench.store("/kprobes/enabled", "0"),
                lambda: bench.store("/kprobes/enabled", "1"),
            ],
            repeats,
            thread_time,
        )
        yield Row(f"list_{count}", listing * 1e3, "ms")
        yield Row(f"disarm_{count}", off * 1e3, "ms")
        yield Row(f"arm_{count}", on * 1e3, "ms")
        taking = seconds(partial(unregister_kprobes, bench.state, probes), thread_time)
        yield Row(f"unregister_{count}", taking, "s")
        bench.settle()
    yield from at_one_address(bench, found[len(found) // 2], max(COUNTS))


def at_one_address(bench: Bench, addr: int, count: int) -> Iterator[Row]:
    """Register many probes at one address, and unregister them in one batch."""
    probes = [Kprobe(addr=KAddr(addr), pre_handler=nothing) for _ in range(count)]
    taking = seconds(partial(register_all, bench.state, probes), thread_time)
    yield Row(f"register_{count}_at_one", taking, "s")
    taking = seconds(partial(unregister_kprobes, bench.state, probes), thread_time)
    yield Row(f"unregister_{count}_at_one", taking, "s")
    bench.settle()


def definitions(bench: Bench, count: int) -> list[str]:
    """Return so many lines for kprobe_events, each for another address."""
    symbols = bench.machine.kallsyms
    lines: list[str] = []
    for addr in places(bench, 2 * count):
        symbol = symbols.symbol_at(addr)
        if symbol is None or len(symbols.lookup_name(symbol.name)) != 1:
            continue
        line = f"p:e{len(lines)} {symbol.name}+{addr - symbol.addr}\n"
        with contextlib.suppress(KernelError):  # a function without an ftrace site
            bench.store("/tracing/kprobe_events", line)
            lines.append(line)
        if len(lines) == count:
            break
    bench.store("/tracing/kprobe_events", "-:kprobes/\n")
    bench.settle()
    return lines


def events(_repeats: int) -> Iterator[Row]:
    """Define many events, by a write for each and by one for all; delete them."""
    bench = Bench()
    lines = definitions(bench, max(COUNTS))

    def write(*texts: str) -> None:
        for text in texts:
            bench.store("/tracing/kprobe_events", text)

    note = f"{len(lines)} events"
    for name, texts in (("echo", lines), ("one_write", ["".join(lines)])):
        taking = seconds(partial(write, *texts), thread_time)
        yield Row(f"events_by_{name}", taking, "s", note=note)
        taking = seconds(partial(write, "-:kprobes/\n"), thread_time)
        yield Row(f"events_deleted_after_{name}", taking, "s", note=note)
        bench.settle()


def half_jumps(bench: Bench, count: int) -> list[Kprobe]:
    """Register count probes, of which half become jumps."""
    half = count // 2
    jumps: list[Kprobe] = []
    rest: list[Kprobe] = []
    free = 0  # behind what the last of them covers
    for addr in places(bench, 10 * count):
        if addr < free or len(jumps) + len(rest) == count:
            continue
        probe = Kprobe(addr=KAddr(addr), pre_handler=nothing)
        register_kprobe(bench.state, probe)
        entry = bench.state.kprobe_table[KAddr(addr)]
        optinsn = getattr(entry, "optinsn", None)
        chosen = rest if optinsn is None else jumps
        if len(chosen) == half:
            unregister_kprobe(bench.state, probe)
            continue
        chosen.append(probe)
        if optinsn is not None:
            free = addr + optinsn.size
    return jumps + rest


def jumps(repeats: int) -> Iterator[Row]:
    """Disarm and arm many probes of which half are jumps."""
    bench = Bench()
    probes = half_jumps(bench, max(COUNTS))
    bench.settle()
    note = f"{len(probes)} probes"
    taken: dict[str, list[float]] = {"disarm": [], "arm": []}
    for _ in range(repeats):
        in_text = sum(
            p.optinsn.in_text
            for p in bench.state.kprobe_table.values()
            if isinstance(p, OptimizedKprobe) and isinstance(p.optinsn, Optinsn)
        )
        for (_name, times), switch in zip(taken.items(), "01", strict=True):
            store = partial(bench.store, "/kprobes/enabled", switch)
            times.append(seconds(store, thread_time))
        bench.settle()
    for name, times in taken.items():
        took = statistics.median(times) * 1e3
        note = f"{len(probes)} probes, {in_text} of them jumps"
        yield Row(f"{name}_half_jumps", took, "ms", note=note)


GROUPS = {
    "hits": hits,
    "unprobed": unprobed,
    "many": many,
    "jumps": jumps,
    "events": events,
}
