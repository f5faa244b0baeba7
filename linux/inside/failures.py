# SPDX-License-Identifier: GPL-2.0-or-later
"""Tells in the kernel's own words why a command has failed inside.

The board stops where bpf(2), perf_event_open(2) and writes to some files of tracefs
begin and end, so their errors are known with what they were asked for, and with the
verifier's log.  A shell tells of no write why it failed.  Most commands go on
after such an error.  So only numbers are noted then; names are found in the
kernel's types, which take long to read, when a command has failed.  What the kernel
has logged, and tracefs' error_log, are read then, too.
"""

from __future__ import annotations

import contextlib
import errno
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

from kpfs.base import abi
from kpfs.base.errors import MemoryFault
from kpfs.linux.inside.diagnosis import kernel_log
from kpfs.linux.inside.loop import Worker
from kpfs.linux.inside.request import CO_RE, PERHAPS
from kpfs.linux.inside.texts import read_text
from kpfs.linux.memory.btf import Btf, read_btf

if TYPE_CHECKING:
    from kpfs.linux.running.kernel_on_board import KernelOnBoard

_STACK_BITS = 14  # kernel stacks are 16 KiB, and aligned
_MAX_LOG = 1 << 20  # bytes of a verifier's log
_MAX_CALLS = 64  # different ones that are kept
_LOG_LINES = 3
_ERROR_LOG = "/sys/kernel/tracing/error_log"
# union bpf_attr
_MAP_CREATE, _PROG_LOAD, _LINK_CREATE = 0, 5, 28
_OBJ_GET_INFO_BY_FD, _RAW_TRACEPOINT_OPEN, _BTF_LOAD = 15, 17, 18
# those to which ENOENT says no more than that a search is over
_SEARCHES = frozenset((1, 3, 4, 11, 12, 21, 23, 24, 25, 27, 31))
_LOG_LEVEL, _LOG_SIZE, _LOG_BUF, _PROG_NAME, _MAP_NAME = 24, 28, 32, 48, 28
_NAME_SIZE = 16
# struct perf_event_attr
_CONFIG1 = 56
# libbpf puts this call into a program in place of what the kernel's types lack
_NO_HELPER = "invalid func unknown#"
_NO_RELOCATION = "invalid func unknown#195896080"
# of kernels before 5.11, which count the memory of maps and programs as locked
_CHARGE = "bpf_map_charge_init"
_NO_MEMLOCK = "this kernel counts it as locked memory (RLIMIT_MEMLOCK, ulimit -l)"
_NOISE = re.compile(r"processed \d+ insns|verification time|stack depth|^\s*$")
_STAMP = re.compile(r"^<\d+>\[ *[\d.]+\] ")
_GRAVE = re.compile(
    r"\b(BUG|WARNING|Oops)\b|(?i:segfault|traps:|general protection|invalid opcode|"
    r"Out of memory|error|fail|unsupported|not supported|BPF:|Unknown symbol|disagrees)"
)
_OURS = "evm: overlay not supported"  # said of the mount of this host's files
# the functions that write files of tracefs whose errors error_log does not have
_WRITES = {
    "event_trigger_write": "trigger",
    "dyn_event_write": "dynamic_events",
    "tracing_set_trace_write": "current_tracer",
    "tracing_trace_options_write": "trace_options",
    "tracing_clock_write": "trace_clock",
    "ftrace_filter_write": "set_ftrace_filter",
    "ftrace_notrace_write": "set_ftrace_notrace",
    "ftrace_graph_write": "set_graph_function",
    "ftrace_event_write": "set_event",
}
# what a write begins with that needs a part of the kernel, a function of that part,
# and its name
_PARTS = {
    "trigger": {"hist": ("event_hist_trigger", "hist triggers")},
    "dynamic_events": {
        "s": ("synth_event_create", "synthetic events"),
        "e": ("eprobe_dyn_event_create", "event probes"),
        "f": ("trace_fprobe_create", "function probes"),
        "t": ("trace_fprobe_create", "tracepoint probes"),
    },
}
_MAX_WRITTEN = 80  # bytes that are told
_BAD_SYMBOL = re.compile(
    r"Invalid probed address or symbol: \S+ (?:\S+:)?(?P<name>[\w.]+)"
)


class Enumerator(NamedTuple):
    """A value that has a name in the kernel's types, if this kernel knows it."""

    enum: str
    value: int


class SymbolName(NamedTuple):
    """A name of which the kernel may have no symbol."""

    name: str


class Written(NamedTuple):
    """A text that was written to a file of tracefs."""

    file: str
    text: str


Word = str | Enumerator | SymbolName | Written
_CHARGED = Enumerator("bpf_cmd", _MAP_CREATE), Enumerator("bpf_cmd", _PROG_LOAD)
_SEARCH_COMMANDS = {Enumerator("bpf_cmd", number) for number in _SEARCHES}


class FailedCall(NamedTuple):
    """A system call that ended with an error."""

    name: str
    words: tuple[Word, ...]  # what it was asked for
    log: tuple[str, ...] = ()  # the end of the verifier's log
    error: int = 0


_Told = Callable[[int, int, int], FailedCall]  # takes a call's first arguments


class Failures:
    """The calls that fail while a command runs."""

    def __init__(self, kernel: KernelOnBoard, worker: Worker) -> None:
        self._board, self._stops = kernel.machine.board, kernel.machine.stops
        self._logged = kernel_log(worker)
        self._memory, self._symbols = kernel.memory, kernel.symbols
        self._begins: dict[int, _Told] = {}
        begins: dict[str, _Told] = {
            "__sys_bpf": self._bpf,
            "__do_sys_bpf": self._bpf,
            "__do_sys_perf_event_open": self._perf_event_open,
        }
        for name, file in _WRITES.items():
            begins[name] = partial(self._write, file)
        for name, told in begins.items():
            for symbol in self._symbols.lookup_name(name):
                self._begins[symbol.addr] = told
        self._returns: set[int] = set()
        self._running: dict[int, tuple[int, int, int, int]] = {}  # by stacks
        self.calls = deque[FailedCall](maxlen=_MAX_CALLS)
        self._refused: FailedCall | None = None  # by RLIMIT_MEMLOCK, perhaps
        self._set()

    def _set(self) -> None:
        places = (*self._begins, *self._returns)
        self._stops.set(self._asked, [(place, abi.NEVER) for place in places])

    def _asked(self, at: int) -> None:
        with contextlib.suppress(MemoryFault):  # programs give what addresses they like
            self._follow(at)

    def _follow(self, at: int) -> None:
        board, arch = self._board, self._board.arch
        stack = board.read_reg(arch.stack_pointer) - 1 >> _STACK_BITS
        if at in self._begins:
            back = arch.return_address(board, self._memory)
            first, second, third = map(board.read_reg, arch.arguments)
            self._running[stack] = at, first, second, third
            if back not in self._returns:
                self._returns.add(back)
                self._set()
        elif stack in self._running:
            at, *given = self._running.pop(stack)
            number = board.read_reg(arch.result) & 0xFFFFFFFF
            if number >> 31:
                call = self._begins[at](*given)
                self._note(call._replace(error=(1 << 32) - number))
            elif self._refused and self._begins[at] == self._bpf:
                # made again after the program has raised the limit
                if self._bpf(*given).words == self._refused.words:
                    self._refused = None

    def _note(self, call: FailedCall) -> None:
        """Keep a call as the last one; one that was made before moves there."""
        if call.error == errno.ENOENT and call.words[0] in _SEARCH_COMMANDS:
            return
        if call in self.calls:
            self.calls.remove(call)
        self.calls.append(call)
        if call.error == errno.EPERM and call.words[0] in _CHARGED:
            self._refused = call

    # ---- what a call was asked for
    def _bpf(self, command: int, attr: int, _size: int) -> FailedCall:
        read = self._memory.read
        words: list[Word] = [Enumerator("bpf_cmd", command)]
        log: tuple[str, ...] = ()
        if command in (_MAP_CREATE, _PROG_LOAD):
            kind = "bpf_prog_type" if command == _PROG_LOAD else "bpf_map_type"
            words.append(Enumerator(kind, self._u32(attr)))
            at = _PROG_NAME if command == _PROG_LOAD else _MAP_NAME
            name = read(attr + at, _NAME_SIZE).split(b"\0")[0].decode("latin-1")
            words += [repr(name)] * bool(name)
        elif command == _LINK_CREATE:
            words.append(Enumerator("bpf_attach_type", self._u32(attr + 8)))
        elif command == _RAW_TRACEPOINT_OPEN and (place := self._memory.word(attr)):
            words.append(repr(self._memory.string(place, 128)))
        if command == _PROG_LOAD and self._u32(attr + _LOG_LEVEL):
            log = self._verifier_log(attr)
        return FailedCall("bpf", tuple(words), log)

    def _verifier_log(self, attr: int) -> tuple[str, ...]:
        size = min(self._u32(attr + _LOG_SIZE), _MAX_LOG)
        place = self._memory.word(attr + _LOG_BUF)
        text = b""
        while place and len(text) < size and b"\0" not in text:
            part = -(place + len(text)) % 4096 or 4096
            text += self._memory.read(place + len(text), min(part, size - len(text)))
        # since 7.3 a report of many lines follows the verifier's words
        words = text.split(b"\0")[0].partition(b"\nVerification failed: ")[0]
        lines = words.decode("utf-8", "replace").splitlines()
        return tuple(line for line in lines if not _NOISE.search(line))[-_LOG_LINES:]

    def _perf_event_open(self, attr: int, _pid: int, _cpu: int) -> FailedCall:
        kind = Enumerator("perf_type_id", self._u32(attr))
        place = self._memory.word(attr + _CONFIG1)
        what: str | SymbolName
        try:
            name = self._memory.string(place, 128)
            what = repr(name) if "/" in name else SymbolName(name)  # a program's file
        except MemoryFault:
            what = f"config {self._memory.word(attr + 8):#x}"
        return FailedCall("perf_event_open", (kind, what), ())

    def _write(self, name: str, _file: int, text: int, size: int) -> FailedCall:
        written = self._memory.read(text, min(size, _MAX_WRITTEN))
        shown = written.decode("latin-1").strip()
        return FailedCall("write", (name, Written(name, shown)))

    def _u32(self, at: int) -> int:
        return int.from_bytes(self._memory.read(at, 4), "little")

    # ---- at the end
    def told(self, worker: Worker, log: str) -> list[str]:
        """Return the reasons that are known, the best one first.

        log: the kernel's, with what it held when the command began.
        """
        log = log.removeprefix(self._logged)
        calls = [(self._text(call), call.log) for call in reversed(self.calls)]
        reasons = [f"{text}: {_verdict(log)}" for text, log in calls if log]
        if self._refused and self._symbols.lookup_name(_CHARGE):
            # what the verifier says of a map that was not made tells less
            reasons.insert(0, f"{self._text(self._refused)}: {_NO_MEMLOCK}")
        reasons += map(self._with_symbol, _of_tracefs(read_text(worker, _ERROR_LOG)))
        lines = (_STAMP.sub("", line) for line in log.splitlines() if _OURS not in line)
        reasons += reversed([line for line in lines if _GRAVE.search(line)])
        asked = {call.words for call in self.calls if call.log}
        for call, (text, _) in zip(reversed(self.calls), calls, strict=True):
            if call.words not in asked:
                reasons.append(f"{PERHAPS}{text}" if self._is_trial(call) else text)
        return list(dict.fromkeys(reasons))

    def _is_trial(self, call: FailedCall) -> bool:
        """Return True if a library may have made a call to find out what is there.

        libbpf loads programs and maps without a name for this, and types of BTF.
        """
        command, *others = call.words
        if not isinstance(command, Enumerator) or command.enum != "bpf_cmd":
            return False
        if command.value in (_MAP_CREATE, _PROG_LOAD):
            kind = others[0]
            known = isinstance(kind, Enumerator) and self._knows(*kind)
            return known and len(others) == 1
        return command.value in (_BTF_LOAD, _OBJ_GET_INFO_BY_FD)

    def _knows(self, enum: str, value: int) -> bool:
        names = self._btf.enumerators(enum) if self._btf else {}
        return value in names or not names

    def _text(self, call: FailedCall) -> str:
        words = ", ".join(self._word(word, call.error) for word in call.words)
        error = errno.errorcode.get(call.error, str(call.error))
        return f"{call.name}({words}): {error}"

    def _word(self, word: Word, error: int) -> str:
        if isinstance(word, Enumerator):
            return self._name_of(*word)
        if isinstance(word, SymbolName):
            lacks = self._lacks(word.name) if error == errno.ENOENT else ""
            return f"{word.name!r}{lacks}"
        if isinstance(word, Written):
            return f"{word.text!r}{self._lacks_part(word)}"
        return word

    def _lacks_part(self, written: Written) -> str:
        """Return words about a part of the kernel that a write needs and it lacks."""
        for begin, (function, part) in _PARTS.get(written.file, {}).items():
            if written.text.startswith(begin) and not self._has(function):
                return f", and this kernel has no {part}"
        return ""

    def _has(self, function: str) -> bool:
        """Return True if the kernel has a function, perhaps under a made-up name."""
        symbols = self._symbols
        return bool(symbols.lookup_name(function)) or any(
            symbols.functions_made_of([function])
        )

    def _with_symbol(self, reason: str) -> str:
        """Add to what tracefs says of a symbol that it is not there, if so."""
        found = _BAD_SYMBOL.search(reason)
        return f"{reason}{self._lacks(found['name'])}" if found else reason

    def _lacks(self, name: str) -> str:
        """Return words about a function that this kernel does not have, else ""."""
        if self._symbols.lookup_name(name):
            return ""
        others = [row.name for row in self._symbols.functions_made_of([name])]
        if others:
            return f", which this kernel has as {' and '.join(others)}"
        return ", which this kernel does not have, or has inlined"

    def _name_of(self, enum: str, value: int) -> str:
        """Return a value's name in this kernel, which may not have it."""
        names = self._btf.enumerators(enum) if self._btf else {}
        if enum == "perf_type_id":
            # from the last one on they are numbers of PMUs, as that of kprobes
            return names[value] if value < len(names) - 1 else f"PMU {value}"
        if self._knows(enum, value):
            return names.get(value, f"type {value}")
        what = enum.removeprefix("bpf_").replace("_", " ")
        return f"{what} {value}, which this kernel does not have"

    @cached_property
    def _btf(self) -> Btf | None:
        return read_btf(self._memory, self._symbols)


def _verdict(log: Sequence[str]) -> str:
    told = "; ".join(log)
    if _NO_RELOCATION in told:
        return f"a type or field that it uses is not in this kernel's BTF {CO_RE}"
    if _NO_HELPER in told:
        return f"{told}: a helper that this kernel does not have"
    return told


def _of_tracefs(text: str) -> Iterator[str]:
    """Return the last error that tracefs has logged, with the command."""
    errors = re.findall(r"^\[[^\]]*\] (.*)\n  Command: (.*)\n", text, re.M)
    for why, command in errors[-1:]:
        yield f"{why}: {command}"
