# SPDX-License-Identifier: GPL-2.0-or-later
"""Tells in the kernel's own words why a command has failed inside.

The board stops where bpf(2) and perf_event_open(2) begin and end, so their errors are
known with what they were asked for, and with the verifier's log.  Most commands go on
after such an error.  So only numbers are noted then; names are found in the
kernel's types, which take long to read, when a command has failed.  What the kernel
has logged, and tracefs' error_log, are read then, too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from kpfs.base import abi
from kpfs.base.errors import MemoryFault
from kpfs.linux.board.call_stops import CallStops
from kpfs.linux.inside.diagnosis import kernel_log
from kpfs.linux.inside.loop import Worker
from kpfs.linux.inside.texts import read_text
from kpfs.linux.memory.btf import Btf, read_btf
from kpfs.linux.memory.memory import LiveMemory
from kpfs.linux.memory.symbols import CoreSymbols
from kpfs.linux.store import image

_STACK_BITS = 14  # kernel stacks are 16 KiB, and aligned
_MAX_LOG = 1 << 20  # bytes of a verifier's log
_MAX_CALLS = 64  # different ones that are kept
_LOG_LINES = 3
_ERROR_LOG = b"/sys/kernel/tracing/error_log\0"
# union bpf_attr
_MAP_CREATE, _PROG_LOAD, _LINK_CREATE = 0, 5, 28
_LOG_LEVEL, _LOG_SIZE, _LOG_BUF, _PROG_NAME, _MAP_NAME = 24, 28, 32, 48, 28
_NAME_SIZE = 16
# struct perf_event_attr
_CONFIG1 = 56
# libbpf puts this call into a program in place of what the kernel's types lack
_NO_RELOCATION = "invalid func unknown#195896080"
# of kernels before 5.11, which count the memory of maps and programs as locked
_CHARGE = "bpf_map_charge_init"
_NO_MEMLOCK = "this kernel counts it as locked memory (RLIMIT_MEMLOCK, ulimit -l)"
_NOISE = re.compile(r"processed \d+ insns|verification time|stack depth|^\s*$")
_STAMP = re.compile(r"^<\d+>\[ *[\d.]+\] ")
_GRAVE = re.compile(
    r"segfault|traps:|general protection|invalid opcode|Out of memory|BUG|WARNING|Oops|"
    r"error|fail|unsupported|not supported|BPF:|Unknown symbol|disagrees",
    re.I,
)


class Enumerator(NamedTuple):
    """A value that has a name in the kernel's types, if this kernel knows it."""

    enum: str
    value: int


_CHARGED = Enumerator("bpf_cmd", _MAP_CREATE), Enumerator("bpf_cmd", _PROG_LOAD)


class FailedCall(NamedTuple):
    """A system call that ended with an error."""

    name: str
    words: tuple[str | Enumerator, ...]  # what it was asked for
    log: tuple[str, ...]  # the end of the verifier's log
    error: int = 0


class Failures:
    """What fails while a command runs."""

    def __init__(self, worker: Worker, stops: CallStops, folder: str) -> None:
        """folder: of the kernel's image."""
        self._board = worker.board
        self._logged = kernel_log(worker)
        self._memory = LiveMemory(self._board)
        self._stops = stops
        self._symbols = CoreSymbols(os.path.join(folder, image.SYMBOLS))
        self._begins: dict[int, Callable[[int, int], FailedCall]] = {}
        for name, told in (
            ("__sys_bpf", self._bpf),
            ("__do_sys_bpf", self._bpf),
            ("__do_sys_perf_event_open", self._perf_event_open),
        ):
            for symbol in self._symbols.lookup_name(name):
                self._begins[symbol.addr] = told
        self._returns: set[int] = set()
        self._running: dict[int, tuple[int, int, int]] = {}  # by stacks
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
            first, second, _ = map(board.read_reg, arch.arguments)
            self._running[stack] = at, first, second
            if back not in self._returns:
                self._returns.add(back)
                self._set()
        elif stack in self._running:
            at, first, second = self._running.pop(stack)
            number = board.read_reg(arch.result) & 0xFFFFFFFF
            if number >> 31:
                call = self._begins[at](first, second)
                self._note(call._replace(error=(1 << 32) - number))
            elif self._refused and self._begins[at] == self._bpf:
                # made again after the program has raised the limit
                if self._bpf(first, second).words == self._refused.words:
                    self._refused = None

    def _note(self, call: FailedCall) -> None:
        """Keep a call as the last one; one that was made before moves there."""
        if call in self.calls:
            self.calls.remove(call)
        self.calls.append(call)
        if call.error == errno.EPERM and call.words[0] in _CHARGED:
            self._refused = call

    # ---- what a call was asked for
    def _bpf(self, command: int, attr: int) -> FailedCall:
        read = self._memory.read
        words: list[str | Enumerator] = [Enumerator("bpf_cmd", command)]
        log: tuple[str, ...] = ()
        if command in (_MAP_CREATE, _PROG_LOAD):
            kind = "bpf_prog_type" if command == _PROG_LOAD else "bpf_map_type"
            words.append(Enumerator(kind, self._u32(attr)))
            at = _PROG_NAME if command == _PROG_LOAD else _MAP_NAME
            name = read(attr + at, _NAME_SIZE).split(b"\0")[0].decode("latin-1")
            words += [repr(name)] * bool(name)
        elif command == _LINK_CREATE:
            words.append(Enumerator("bpf_attach_type", self._u32(attr + 8)))
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
        lines = text.split(b"\0")[0].decode("utf-8", "replace").splitlines()
        return tuple(line for line in lines if not _NOISE.search(line))[-_LOG_LINES:]

    def _perf_event_open(self, attr: int, _pid: int) -> FailedCall:
        kind = Enumerator("perf_type_id", self._u32(attr))
        place = self._memory.word(attr + _CONFIG1)
        try:
            what = repr(self._memory.string(place, 128))
        except MemoryFault:
            what = f"config {self._memory.word(attr + 8):#x}"
        return FailedCall("perf_event_open", (kind, what), ())

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
        reasons += _of_tracefs(read_text(worker, _ERROR_LOG))
        lines = (_STAMP.sub("", line) for line in log.splitlines())
        reasons += reversed([line for line in lines if _GRAVE.search(line)])
        reasons += [text for text, log in calls if not log]
        return list(dict.fromkeys(reasons))

    def _text(self, call: FailedCall) -> str:
        words = ", ".join(
            self._name_of(*word) if isinstance(word, Enumerator) else word
            for word in call.words
        )
        error = errno.errorcode.get(call.error, str(call.error))
        return f"{call.name}({words}): {error}"

    def _name_of(self, enum: str, value: int) -> str:
        """Return a value's name in this kernel, which may not have it."""
        names = self._btf.enumerators(enum) if self._btf else {}
        if enum == "perf_type_id":
            # from the last one on they are numbers of PMUs, as that of kprobes
            return names[value] if value < len(names) - 1 else f"PMU {value}"
        if value in names or not names:
            return names.get(value, f"type {value}")
        what = enum.removeprefix("bpf_").replace("_", " ")
        return f"{what} {value}, which this kernel does not have"

    @cached_property
    def _btf(self) -> Btf | None:
        return read_btf(self._memory, self._symbols)


def _verdict(log: Sequence[str]) -> str:
    told = "; ".join(log)
    if _NO_RELOCATION in told:
        return "a type or field that it uses is not in this kernel's BTF (CO-RE)"
    return told


def _of_tracefs(text: str) -> Iterator[str]:
    """Return the last error that tracefs has logged, with the command."""
    errors = re.findall(r"^\[[^\]]*\] (.*)\n  Command: (.*)\n", text, re.M)
    for why, command in errors[-1:]:
        yield f"{why}: {command}"
