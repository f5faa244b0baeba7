# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls of a function on many CPUs at once: unprobed, with RCU, and with one lock.

Figure 4 of "Probing the guts of Kprobes" (OLS 2006) shows that probes did not scale
under the lock that kprobes had at first, and do with RCU.  Here the CPUs run in turn.
So each has a clock of its own, which counts the instructions that it executes; who
comes to the lock while another has it goes on at the time of its release.  It is always
the turn of the CPU whose clock is behind, so that they take the lock in the order of
these times.  Nothing else is modelled: neither what the trap itself takes, nor caches.

The locked runtime is the same code compiled with KP_GLOBAL_LOCK.
"""

from __future__ import annotations

import ctypes
import heapq
import math
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.command import ROOT, NotHereError
from bench.row import Row
from kpfs.backends.guest.box import Box
from kpfs.base.x86 import X86_EFLAGS_FIXED
from kpfs.emulator.libunicorn import check
from kpfs.guest.emu.cpu_registers import REG_DI, REG_FLAGS, REG_IP, REG_SP

MAX_CPUS = 16
HITS = 25  # on each CPU
LOCK, UNLOCK = "lock_kprobes", "unlock_kprobes"
_HOOK_CODE = 4
_STACK = 0x4000
MARKS = {"rcu": "o", "lock": "x", "none": "."}


class Result(NamedTuple):
    """The figures of a number of CPUs."""

    cpus: int
    hits: int  # or, where no probe is, calls
    instructions: int  # executed by all CPUs
    waited: int  # for the lock, all of them
    time: int  # until the last one was done; an instruction takes 1

    @property
    def throughput(self) -> float:
        """Hits in the time of 1000 instructions."""
        return 1000 * self.hits / self.time


Curves = dict[str, list[Result]]  # by keys of MARKS


class Clocks:
    """Runs a loop on each CPU of a guest, in virtual time."""

    def __init__(self, box: Box) -> None:
        self._guest = guest = box.kernel.guest
        self._cpu = cpu = guest.cpus
        symbols = guest.runtime_image.symbols()
        self._lock, self._unlock = symbols.get(LOCK), symbols.get(UNLOCK)
        self._loop = box.address("cost_loop")
        self._end = guest.area.alloc_text(4096)  # where the loop returns to
        self._counted = 0
        self._at = 0  # where the CPU has stopped
        self._free_at = 0  # time of the lock's last release
        self._started_at = 0  # the clock when this turn began
        self._granted = False  # the lock may be taken
        word, half = ctypes.c_size_t, ctypes.c_uint32
        self._hook = ctypes.CFUNCTYPE(None, word, ctypes.c_uint64, half)(self._step)
        handle, addr = ctypes.c_void_p(), ctypes.cast(self._hook, ctypes.c_void_p)
        everywhere = ctypes.c_uint64(1), ctypes.c_uint64(0)
        to = ctypes.byref(handle)
        check(cpu._py.uc_hook_add(cpu._uc, to, _HOOK_CODE, addr, None, *everywhere))
        cpu.drop_all()

    def _step(self, _uc: int, ip: int, _size: int) -> None:
        """Before each instruction."""
        if ip == self._end or (ip == self._lock and not self._granted):
            self._at = ip
            self._cpu.stop()
            return
        self._granted = False
        self._counted += 1
        if ip == self._unlock:
            self._free_at = self._started_at + self._counted

    def run(self, cpus: int, hits: int = HITS) -> Result:
        """Run the loop of so many calls on the first CPUs, all at once."""
        saved = [self._prepare(number, hits) for number in range(cpus)]
        turns = [
            (0, number, False) for number in range(cpus)
        ]  # clock, CPU, at the lock
        self._free_at = instructions = waited = last = 0
        while turns:
            clock, number, locking = heapq.heappop(turns)
            if locking:
                waited += max(self._free_at - clock, 0)
                clock = max(clock, self._free_at)
            self._started_at, self._granted, self._counted = clock, locking, 0
            self._cpu.switch(number)
            self._cpu.run()
            instructions += self._counted
            clock += self._counted
            if self._at == self._end:
                last = max(last, clock)
            else:
                heapq.heappush(turns, (clock, number, True))
        for number, registers in enumerate(saved):
            self._cpu.switch(number)
            self._cpu.write_regs(registers)
        return Result(cpus, cpus * hits, instructions, waited, last)

    def _prepare(self, number: int, hits: int) -> tuple[int, ...]:
        """Make a CPU begin the loop; return the registers that it had before."""
        cpu, guest = self._cpu, self._guest
        cpu.switch(number)
        saved = cpu.read_regs()
        stack = guest.area.alloc_data(_STACK) + _STACK - 8
        guest.write_u64(stack, self._end)
        cpu.write_reg(REG_IP, self._loop)
        cpu.write_reg(REG_SP, stack)
        cpu.write_reg(REG_DI, hits)
        cpu.write_reg(REG_FLAGS, X86_EFLAGS_FIXED)
        return saved


def build_locked(folder: Path) -> Path:
    """The runtime with the lock."""
    made = folder.resolve() / "locked.o"
    tool = ROOT / "scripts" / "build-guest"
    command: list[str | Path] = [tool, "--runtime", made, "-DKP_GLOBAL_LOCK"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise NotHereError("scripts/build-guest cannot compile: is there a gcc?")
    return made


def measure(
    runtime: Path | None,
    counts: Sequence[int],
    hits: int = HITS,
    module: Path | str = "hit_cost",
    probes: str = "k",
) -> list[Result]:
    """A kprobe by a breakpoint, hit on so many CPUs.

    runtime: None for the real one. probes: "" for none.
    """
    box = Box(max(counts))
    try:
        if runtime is not None:
            box.kernel.guest.runtime_image.read = runtime.read_bytes
        box.write("/sys/debug/kprobes-optimization", "0\n")
        box.insmod(module, f"probes={probes}")
        clocks = Clocks(box)
        return [clocks.run(count, hits) for count in counts]
    finally:
        box.close()


def curves(counts: Sequence[int] = range(1, MAX_CPUS + 1), hits: int = HITS) -> Curves:
    """Measure throughput with RCU, with the lock, and without a probe."""
    with tempfile.TemporaryDirectory() as folder:
        locked = build_locked(Path(folder))
        return {
            "rcu": measure(None, counts, hits),
            "lock": measure(locked, counts, hits),
            "none": measure(None, counts, hits, probes=""),
        }


def rows(found: Curves) -> Iterator[Row]:
    """The curves, as figures with names."""
    for name, results in found.items():
        first = results[0]
        each = first.instructions / first.hits
        yield Row(f"smp.{name}.instructions", each, "", note="of a call")
        for r in results:
            share = r.waited / (r.waited + r.instructions)
            note = f"{r.throughput / first.throughput:5.2f} times one CPU"
            if name == "lock":
                note += f", {share:4.0%} of the time waiting"
            yield Row(f"smp.{name}.{r.cpus}", r.throughput, "/k", note=note)


def plot(found: Curves) -> str:
    """Throughput against CPUs, as text; twice as much stands two lines higher."""
    counts = [r.cpus for r in found["none"]]
    levels = {
        (name, r.cpus): round(2 * math.log2(r.throughput))
        for name, results in found.items()
        for r in results
    }
    lowest, top = min(levels.values()) & ~1, max(levels.values())
    lines = {level: [" "] * (3 * max(counts) + 1) for level in range(lowest, top + 1)}
    for (name, cpus), level in levels.items():
        at = lines[level]
        at[3 * cpus] = MARKS[name] if at[3 * cpus] == " " else "*"
    text = [
        "calls in the time of 1000 instructions"
        "    . no kprobe   o RCU   x one lock   * both"
    ]
    for level in range(top, lowest - 1, -1):
        label = f"{2 ** (level // 2):6}" if level % 2 == 0 else " " * 6
        text.append(f"{label} |{''.join(lines[level][1:])}".rstrip())
    text.append(" " * 7 + "+" + "-" * 3 * max(counts))
    text.append(" " * 8 + "".join(f"{cpus:3}" for cpus in counts) + "  CPUs")
    return "\n".join(text)
