# SPDX-License-Identifier: GPL-2.0-or-later
"""Tells what a kernel has lost since it was started, and why.

The board counts where the kernel drops something.  The host finds the names while the
objects still exist, and reads the rings' own counts before the kernel resets them.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kpfs.base import abi, losses
from kpfs.base.errors import KernelError, MemoryFault
from kpfs.linux.board.losses import LossSite, LostRow, mark_told, read_lost, set_sites
from kpfs.linux.memory.kprobes import (
    FLAG_DISABLED,
    FLAG_FTRACE,
    FLAG_GONE,
    NAME_MAX,
    Kprobes,
)
from kpfs.linux.memory.losses import Cause, LossPlace, find
from kpfs.linux.memory.modules import AllSymbols
from kpfs.linux.memory.rings import Rings
from kpfs.linux.memory.structures import View

if TYPE_CHECKING:
    from kpfs.linux.board.board import Board
    from kpfs.linux.running.kernel_on_board import KernelOnBoard

_LINES = 4096  # bytes of lines that a reader of trace_pipe leaves behind, at most
# functions that forget what a ring has lost, with the ring as their first argument
_PROBED_IP = "ftrace_set_filter_ip"  # a probe comes or goes
_RESETS = (
    *("ring_buffer_reset", "ring_buffer_reset_cpu", "ring_buffer_reset_online_cpus"),
    "ring_buffer_free",
)
# from the first use of the first one on, the others tell which probes are not hit
_SWITCH, _FTRACE = "ftrace_enable_sysctl", ("arch_ftrace_update_code", _PROBED_IP)
_REMOVED, _PIPE_CLOSED = "instance_rmdir", "tracing_release_pipe"
# attach a BPF program to a function, as those of type LSM are, or to one of a cgroup
_ATTACHED = "bpf_trampoline_link_prog", "bpf_trampoline_link_cgroup_shim"
_TYPE_LSM = 29  # BPF_PROG_TYPE_LSM


class Losses:
    """The losses of one kernel.  Context: its lock is held."""

    def __init__(self, kernel: KernelOnBoard) -> None:
        self._kernel = kernel
        self._found = list(find(kernel.symbols, kernel.structures))

    def enter(self, board: Board) -> None:
        """Begin to look at a board that takes over."""
        self._board = board
        self._names: list[str] = []  # that the board's rows are about
        self._maxactive: dict[str, int] = {}  # by names
        self._removed: dict[int, str] = {}  # instances that are, by their rings
        self._forgotten: Counter[tuple[str, str]] = Counter()  # by ring and reason
        self._has_lsm = False  # a program of that type was attached
        self._places = list(self._found)
        self._set_sites()
        mark_told(board)
        self._kernel.machine.stops.follow_losses(self._name)
        self._asked: dict[int, str] = {}
        self._ask((*_RESETS, _REMOVED, _PIPE_CLOSED, _SWITCH, *_ATTACHED))

    def _ask(self, names: Sequence[str]) -> None:
        """Be asked before these functions, too."""
        kernel = self._kernel
        for name in names:
            for symbol in kernel.symbols.lookup_name(name):
                self._asked[symbol.addr] = name
        calls = [(place, abi.NEVER) for place in self._asked]
        kernel.machine.stops.set(self._before, calls)

    def _set_sites(self) -> None:
        sites = [place.site for place in self._places[: abi.NR_LOSSES]]
        offsets: Sequence[int] = ()
        with contextlib.suppress(KernelError):  # no BTF: no site needs them
            offsets = self._probes().cpu_offsets
        set_sites(self._board, sites, offsets)

    def _probes(self) -> Kprobes:
        kernel = self._kernel
        return Kprobes(kernel.memory, kernel.symbols, kernel.structures)

    def _rings(self) -> Rings:
        kernel = self._kernel
        return Rings(kernel.memory, kernel.symbols, kernel.structures)

    def _view(self, structure: str, addr: int) -> View:
        kernel = self._kernel
        return View(kernel.memory, kernel.structures[structure], addr)

    # ---- while it runs
    def _name(self) -> None:
        """Find the names of what has lost something for the first time."""
        for row in read_lost(self._board, len(self._names)):
            name = "?"
            with contextlib.suppress(MemoryFault, KeyError):
                name = self._name_of(row)
            self._names.append(name)

    def _name_of(self, row: LostRow) -> str:
        memory, kind = self._kernel.memory, self._places[row.site].object
        if self._places[row.site].cause is Cause.FTRACE_OFF:
            return kind
        if kind == "kprobe":
            is_return = self._places[row.site].cause is Cause.INSTANCES
            flags = self._view(kind, row.object).number("flags", 4)
            name = self._symbol(row.key, is_entry=is_return or flags & FLAG_FTRACE > 0)
            if is_return:
                layout = self._kernel.structures["kretprobe"]
                probe = self._view("kretprobe", row.object - layout.at["kp"])
                self._maxactive[name] = probe.number("maxactive", 4)
            return name
        if kind == "bpf_map":
            return memory.string(self._view(kind, row.object).place("name"), NAME_MAX)
        return self._program(kind, row.object) if kind else ""

    def _symbol(self, addr: int, *, is_entry: bool) -> str:
        """Return the name of a place, of a function's entry without an offset.

        That is behind a landing mark (endbr64) where the kernel has these.
        """
        kernel = self._kernel
        symbols = AllSymbols(kernel.symbols, kernel.modules())
        found = symbols.symbol_at(addr)
        return found.name if found and is_entry else symbols.name_of(addr)

    def _program(self, kind: str, at: int) -> str:
        """Return the name of the BPF program that something calls."""
        memory, layouts = self._kernel.memory, self._kernel.structures
        if kind == "trace_event_call":  # it may call several: this is the first one
            array = self._view(kind, at).word("prog_array")
            at = memory.word(array + layouts["bpf_prog_array"].at["items"])
        elif kind in ("fprobe", "bpf_link"):
            fp = layouts["bpf_kprobe_multi_link"].at["fp"]
            link = at - fp * (kind == "fprobe")
            at = memory.word(link + layouts["bpf_link"].at["prog"])
        more = self._view("bpf_prog", at).word("aux")
        return memory.string(more + layouts["bpf_prog_aux"].at["name"], NAME_MAX)

    def _before(self, at: int) -> None:
        """Read what a function is about to forget that begins now."""
        board = self._board
        first, second = map(board.read_reg, board.arch.arguments[:2])
        with contextlib.suppress(MemoryFault, KeyError, KernelError):
            if self._asked[at] == _REMOVED:
                name = self._kernel.memory.string(first, NAME_MAX)
                rings = dict(self._rings().buffers())
                self._removed = {rings.get(name, 0): name}
            elif self._asked[at] in _ATTACHED:
                self._has_lsm |= self._is_lsm(first, self._asked[at])
            elif self._asked[at] == _PIPE_CLOSED:
                self._leave_lines(second)
            elif self._asked[at] == _SWITCH:
                self._ask(_FTRACE)
            elif self._asked[at] in _FTRACE:
                third = board.read_reg(board.arch.arguments[2])
                is_probe = self._asked[at] == _PROBED_IP
                self._follow_ftrace(second if is_probe else 0, is_gone=bool(third))
            else:
                self._add_ring(first)

    def _is_lsm(self, at: int, function: str) -> bool:
        """Return True if what a function attaches is a program of type LSM.

        at: the program, or since 6.0 the link that leads to it.
        """
        if function != _ATTACHED[0]:
            return True
        link = self._kernel.structures["bpf_tramp_link"].at.get("link")
        if link is not None:
            at = self._view("bpf_link", at + link).word("prog")
        return self._view("bpf_prog", at).number("type", 4) == _TYPE_LSM

    def _add_ring(self, buffer: int) -> None:
        rings = self._rings()
        names = {at: name for name, at in rings.buffers()}
        name = names.get(buffer, self._removed.get(buffer))
        if name is not None:
            overwritten, full = rings.lost(buffer)
            self._forgotten[name, "overwritten"] += overwritten
            self._forgotten[name, "full"] += full

    def _leave_lines(self, file: int) -> None:
        """Count the lines that a reader of trace_pipe has taken and not read."""
        private = self._view("file", file).word("private_data")
        reader = self._view("trace_iterator", private)
        name = self._view("trace_array", reader.word("tr")).word("name")
        instance = self._kernel.memory.string(name, NAME_MAX) if name else ""
        length = reader.word("seq.seq.len")
        begin = reader.number("seq.readpos", 4) or reader.word("seq.seq.readpos")
        size = min(max(length - begin, 0), _LINES)
        text = self._kernel.memory.read(reader.word("seq.seq.buffer") + begin, size)
        self._forgotten[instance, "left"] += text.count(b"\n")

    def _follow_ftrace(self, new: int, *, is_gone: bool) -> None:
        """Count the calls of functions whose probes are not hit as ftrace is off.

        new: the address of a probe that comes or goes, or 0.
        """
        kernel, unhit = self._kernel, set[int]()
        at = kernel.structures.data("ftrace_enabled")[0]
        if not kernel.memory.number(at, 4):
            for entry in self._probes().entries():
                flags = entry.number("flags", 4)
                if flags & FLAG_FTRACE and not flags & (FLAG_GONE | FLAG_DISABLED):
                    unhit.add(entry.word("addr"))
            unhit = unhit - {new} if is_gone else unhit | {new} - {0}
        symbols = AllSymbols(kernel.symbols, kernel.modules())
        found = map(symbols.symbol_at, unhit)
        names = {int(symbol.addr): symbol.name for symbol in found if symbol}
        for number, (cause, name, site) in enumerate(self._places):
            if cause is Cause.FTRACE_OFF:
                counts = names.pop(site.addr, None) is not None
                kind = abi.LOSS_ALWAYS if counts else abi.LOSS_NONE
                self._places[number] = LossPlace(cause, name, site._replace(kind=kind))
        for addr, name in names.items():
            site = LossSite(addr, 0, abi.LOSS_ALWAYS, argument=abi.NEVER)
            self._places.append(LossPlace(Cause.FTRACE_OFF, name, site))
        self._set_sites()

    # ---- afterwards
    def told(self) -> list[str]:
        """Return a line for each kind of loss and what has lost."""
        found: dict[tuple[Cause, str], LostRow] = {}
        for row, name in zip(read_lost(self._board), self._names, strict=False):
            if not row.times:
                continue
            what = self._places[row.site].cause, name
            before = found.get(what)
            found[what] = row if before is None else _sum(before, row)
        lines = [self._line(*what, row) for what, row in found.items()]
        return [*lines, *self._of_rings(), *self._of_disarmed(), *self._of_lsm()]

    def _of_disarmed(self) -> Iterator[str]:
        """Tell of probes that are switched off, all at once."""
        kernel = self._kernel
        at = kernel.structures.data("kprobes_all_disarmed")[0]
        with contextlib.suppress(MemoryFault, KernelError):
            if at and kernel.memory.read(at, 1) != b"\0":
                count = sum(1 for _ in self._probes())
                yield from [losses.disarmed(count)] * bool(count)

    def _of_lsm(self) -> Iterator[str]:
        """Tell of programs of BPF's security module that nobody calls.

        They are loaded and attached without an error even if it was not started.
        """
        memory, at = self._kernel.memory, self._kernel.symbols.address("lsm_names")
        if self._has_lsm and at:
            names = memory.string(memory.word(at)).split(",")
            yield from [losses.UNCALLED_LSM] * ("bpf" not in names)

    def _line(self, cause: Cause, name: str, row: LostRow) -> str:
        if cause is Cause.INSTANCES:
            has = self._maxactive.get(name, 0)
            return losses.missed_returns(name, row.times, has, has + row.most)
        if cause is Cause.RECURSION:
            return losses.skipped_hits(name, row.times)
        if cause is Cause.FTRACE_OFF:
            return losses.unhit(name, row.times)
        if cause is Cause.GUARD:
            others = f", {row.others} of them by another task or an interrupt"
            return (
                f"BPF program {name}: {losses.many(row.times, 'run')} skipped: BPF was "
                f"busy on that processor{others * bool(row.others)}"
            )
        if cause is Cause.BUFFER:
            what = losses.many(row.times, "record")
            return f"BPF ring buffer {name}: {what} lost: it was full"
        if cause is Cause.PERF:
            return f"perf: {losses.many(row.times, 'event')} lost: buffers were full"
        what = losses.many(row.times, "return")
        return f"fprobes: {what} missed: there was no instance left"

    def _of_rings(self) -> Iterator[str]:
        lost = Counter(self._forgotten)
        with contextlib.suppress(MemoryFault, KeyError, KernelError):
            rings = self._rings()
            for name, buffer in rings.buffers():
                overwritten, full = rings.lost(buffer)
                lost[name, "overwritten"] += overwritten
                lost[name, "full"] += full
        tell = {
            "overwritten": losses.overwritten,
            "full": losses.refused,
            "left": losses.left_in_pipe,
        }
        for (name, reason), count in lost.items():
            if count:
                yield tell[reason](name, count)


def _sum(one: LostRow, other: LostRow) -> LostRow:
    return one._replace(
        times=one.times + other.times,
        others=one.others + other.others,
        most=max(one.most, other.most),
    )
