# SPDX-License-Identifier: GPL-2.0-or-later
"""Tells in the kernel's own words why a command has failed inside.

The board stops where bpf(2) and perf_event_open(2) begin and end, so their errors are
known with what they were asked for, and with the verifier's log.  It also stops where a
write or an open has returned an error, and those of the kernel's own files are told: a
shell tells of no write why it failed.  Most commands go on after such an error.  So
only numbers are noted then; names are found in the kernel's types, which take long to
read, when a command has failed.  What the kernel has logged, and tracefs' error_log,
are read then, too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from kpfs.base import abi
from kpfs.base.errors import KernelError, MemoryFault
from kpfs.linux.errors import UnfitError
from kpfs.linux.inside.diagnosis import kernel_log
from kpfs.linux.inside.failed_call import (
    Enumerator,
    FailedCall,
    Opened,
    SymbolName,
    Word,
    Written,
)
from kpfs.linux.inside.lockdown import Lockdown
from kpfs.linux.inside.loop import Worker
from kpfs.linux.inside.refused import READS, Refused
from kpfs.linux.inside.request import CO_RE, PERHAPS
from kpfs.linux.inside.texts import read_text
from kpfs.linux.memory.btf import Btf, read_btf
from kpfs.linux.package import options
from kpfs.linux.package.config import is_on
from kpfs.linux.package.options import lacking_for
from kpfs.linux.store import image, store

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
_CONFIG, _CONFIG1 = 8, 56
# libbpf puts this call into a program in place of what the kernel's types lack
_NO_HELPER = "invalid func unknown#"
_NO_RELOCATION = "invalid func unknown#195896080"
# of kernels before 5.11, which count the memory of maps and programs as locked
_CHARGE = "bpf_map_charge_init"
_NO_MEMLOCK = "this kernel counts it as locked memory (RLIMIT_MEMLOCK, ulimit -l)"
_NOISE = re.compile(r"processed \d+ insns|verification time|stack depth|^\s*$")
_STAMP = re.compile(r"^<\d+>\[ *[\d.]+\] ")
_GRAVE = re.compile(
    r"\b(BUG|WARNING|Oops|Lockdown)\b|(?i:segfault|traps:|general protection|"
    r"invalid opcode|Out of memory|error|fail|unsupported|not supported|BPF:|"
    r"Unknown symbol|disagrees)"
)
# lines that tell nothing: of the mount of this host's files, and behind that of an oops
_EMPTY = re.compile("evm: overlay not supported|Oops: |#PF: ")
_PROBE = re.compile(
    r"^(?P<kind>[prf])\d*(?::\S*)?\s+(?P<place>[\w.:]+(?:\+\w+)?)(?=[\s%]|$)", re.M
)
_OF_PLACE = re.compile("symbol|address|[Pp]robe (event|point)")  # not of an argument
_HELPER = re.compile(r"(?:unknown func|use helper) bpf_(?P<name>\w+)#")
# by an enumeration of the kernel's types: a kind of features
_BPF_KINDS = {
    "bpf_prog_type": options.PROGRAM,
    "bpf_map_type": options.MAP,
    "bpf_attach_type": options.ATTACHMENT,
}
_OF_TABLE = "/sys/kernel/debug/kprobes/"
_OF_FUNCTIONS = (
    *("set_ftrace_filter", "set_ftrace_notrace"),
    *("set_graph_function", "set_graph_notrace"),
)
_OF_PROGRAMS = "uprobe_events"  # places there are in files
_BY_PROBE, _BY_FPROBE = "kprobe_events", "kprobe_multi"  # ways of kpfs.explain
Advise = Callable[[str, str], str]  # for a point and a way: why that is refused, or ""


_CHARGED = Enumerator("bpf_cmd", _MAP_CREATE), Enumerator("bpf_cmd", _PROG_LOAD)
_SEARCH_COMMANDS = {Enumerator("bpf_cmd", number) for number in _SEARCHES}


_OF_FILES = "write", "open", "mkdir", "rmdir", "ioctl"
_CALLED = "__sys_bpf", "__do_sys_bpf", "__do_sys_perf_event_open"
_Told = Callable[[int, int, int], FailedCall]  # takes a call's first arguments


def prepare(kernel: KernelOnBoard) -> None:
    """Look up what Failures of this kernel will, before there is a command."""
    Refused(kernel)
    Lockdown(kernel)
    for name in _CALLED:
        kernel.symbols.lookup_name(name)


class Failures:
    """The calls that fail while a command runs."""

    def __init__(self, kernel: KernelOnBoard, worker: Worker, advise: Advise) -> None:
        self._board, self._stops = kernel.machine.board, kernel.machine.stops
        self._logged, self._advise, self._kernel = kernel_log(worker), advise, kernel
        self._of_files, self._lockdown = Refused(kernel), Lockdown(kernel)
        self._memory, self._symbols = kernel.memory, kernel.symbols
        self._program = kernel.memory.of_program
        self._begins: dict[int, _Told] = {}
        for name in _CALLED:
            told = self._bpf if name.endswith("bpf") else self._perf_event_open
            for symbol in self._symbols.lookup_name(name):
                self._begins[symbol.addr] = told
        self._returns: set[int] = set()
        self._running: dict[int, tuple[int, int, int, int]] = {}  # by stacks
        self.calls = deque[FailedCall](maxlen=_MAX_CALLS)
        self._refused: FailedCall | None = None  # by RLIMIT_MEMLOCK, perhaps
        self._set()

    def _set(self) -> None:
        places = (*self._begins, *self._returns, *self._lockdown.places)
        rows = [(place, abi.NEVER) for place in places]
        self._stops.set(self._asked, rows + self._of_files.rows())

    def _asked(self, at: int) -> None:
        # programs give what addresses they like
        with contextlib.suppress(MemoryFault, KernelError):
            if at in self._lockdown.places:
                self._lockdown.ask()
            elif at not in self._of_files.places:
                self._follow(at)
            elif call := self._of_files.call(at):
                self._note(call)
            else:
                self._lockdown.begin()

    def _follow(self, at: int) -> None:
        board, arch = self._board, self._board.arch
        stack = board.read_reg(arch.stack_pointer) - 1 >> _STACK_BITS
        if at in self._begins:
            back = arch.return_address(board, self._memory)
            first, second, third = map(board.read_reg, arch.arguments)
            self._running[stack] = at, first, second, third
            self._lockdown.begin()
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
        elif not self._running and at in self._returns:
            # behind a tail call, where all system calls return to
            self._returns.remove(at)
            self._set()

    def _note(self, call: FailedCall) -> None:
        """Keep a call as the last one; one that was made before moves there."""
        if call.error == errno.ENOENT and call.words[0] in _SEARCH_COMMANDS:
            return
        call = call._replace(locked=self._lockdown.reason(call))
        if call in self.calls:
            self.calls.remove(call)
        self.calls.append(call)
        if call.error == errno.EPERM and call.words[0] in _CHARGED:
            self._refused = call

    # ---- what a call was asked for
    def _bpf(self, command: int, attr: int, _size: int) -> FailedCall:
        read = self._program.read
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
        elif command == _RAW_TRACEPOINT_OPEN and (place := self._program.word(attr)):
            words.append(repr(self._program.string(place, 128)))
        if command == _PROG_LOAD and self._u32(attr + _LOG_LEVEL):
            log = self._verifier_log(attr)
        return FailedCall("bpf", tuple(words), log)

    def _verifier_log(self, attr: int) -> tuple[str, ...]:
        size = min(self._u32(attr + _LOG_SIZE), _MAX_LOG)
        place = self._program.word(attr + _LOG_BUF)
        text = b""
        while place and len(text) < size and b"\0" not in text:
            part = -(place + len(text)) % 4096 or 4096
            text += self._program.read(place + len(text), min(part, size - len(text)))
        # since 7.3 a report of many lines follows the verifier's words
        words = text.split(b"\0")[0].partition(b"\nVerification failed: ")[0]
        lines = words.decode("utf-8", "replace").splitlines()
        return tuple(line for line in lines if not _NOISE.search(line))[-_LOG_LINES:]

    def _perf_event_open(self, attr: int, _pid: int, _cpu: int) -> FailedCall:
        kind = Enumerator("perf_type_id", self._u32(attr))
        place = self._program.word(attr + _CONFIG1)
        what: str | SymbolName
        try:
            name = self._program.string(place, 128)
            what = repr(name) if "/" in name else SymbolName(name)  # a program's file
        except MemoryFault:
            what = f"config {self._program.number(attr + _CONFIG, 8):#x}"
        return FailedCall("perf_event_open", (kind, what), ())

    def _u32(self, at: int) -> int:
        return self._program.number(at, 4)

    # ---- at the end
    def told(self, worker: Worker, log: str) -> list[str]:
        """Return the reasons that are known, the best one first.

        log: the kernel's, with what it held when the command began.
        """
        log = log.removeprefix(self._logged)
        verdicts, refusals, others = list[str](), list[str](), list[str]()
        asked = {call.words for call in self.calls if call.log}
        for call in reversed(self.calls):
            own = call.locked or self._own_words(call)
            said = _verdict(call.log) if call.log and not call.locked else ""
            text = ": ".join(filter(None, [self._text(call), said, own]))
            if call.name in _OF_FILES and (own or not self._is_trial(call)):
                refusals.append(text)
            elif call.log:
                verdicts.append(text)
            elif self._is_trial(call):
                others.append(f"{PERHAPS}{text}")
            elif call.words not in asked:
                others.append(text)
        if self._refused and self._symbols.lookup_name(_CHARGE):
            # what the verifier says of a map that was not made tells less
            verdicts.insert(0, f"{self._text(self._refused)}: {_NO_MEMLOCK}")
        lines = (
            _STAMP.sub("", line) for line in log.splitlines() if not _EMPTY.search(line)
        )
        grave = reversed([line for line in lines if _GRAVE.search(line)])
        left = self._of_tracefs(read_text(worker, _ERROR_LOG))
        return list(dict.fromkeys([*verdicts, *refusals, *left, *grave, *others]))

    def _is_trial(self, call: FailedCall) -> bool:
        """Return True if a library may have made a call to find out what is there.

        libbpf loads programs and maps without a name for this, and types of BTF.
        """
        command, *others = call.words
        if isinstance(command, Opened):
            is_there = call.name == "mkdir" and call.error == errno.EEXIST  # mkdir -p
            return command.access == READS or is_there
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
        return f"{call.name}({words}) = {error}"

    def _word(self, word: Word, error: int) -> str:
        if isinstance(word, Enumerator):
            return self._name_of(*word)
        if isinstance(word, SymbolName):
            return repr(word.name)
        if isinstance(word, Written):
            return f"{word.file}, {word.text!r}"
        return ", ".join(filter(None, word)) if isinstance(word, Opened) else word

    def _of_tracefs(self, log: str) -> Iterator[str]:
        """Yield the last error that tracefs has logged, if that is of no write."""
        errors = re.findall(r"^\[[^\]]*\] (.*)\n  Command: (.*)\n", log, re.M)
        for why, command in errors[-1:]:
            if not any(why in call.log for call in self.calls):
                told = why, command, self._of_functions(Written("", command), why)
                yield ": ".join(filter(None, told))

    def _own_words(self, call: FailedCall) -> str:
        """Return what kpfs knows of the reason for a failure, "" if that is nothing."""
        for word in call.words:
            if isinstance(word, SymbolName):
                return self._advise(word.name, _BY_PROBE)
            if isinstance(word, Written):
                return self._of_option(call) or self._of_functions(word, *call.log)
        return self._of_option(call)

    def _of_functions(self, written: Written, said: str = "symbol") -> str:
        """Return what is known of the functions that a text names.

        said: by the kernel.
        """
        file, text = written
        if file == _OF_PROGRAMS:
            return ""
        if file in _OF_FUNCTIONS and re.fullmatch(r"[\w.]+", text):
            return self._advise(text, _BY_FPROBE)
        for found in _PROBE.finditer(text) if _OF_PLACE.search(said) else ():
            way = _BY_FPROBE if found["kind"] == "f" else _BY_PROBE
            if told := self._advise(found["place"], way):
                return told
        return ""

    def _of_option(self, call: FailedCall) -> str:
        """Return which option of its configuration the kernel lacks for a call."""
        name = os.path.basename(self._kernel.folder)
        for feature in self._asked_for(call):
            if option := lacking_for(self._config, *feature):
                return f"{name} has no {option}{self._who_has(option)}"
        return ""

    def _asked_for(self, call: FailedCall) -> Iterator[tuple[str, str]]:
        """Yield the features that a call needs: kinds and names of options.needed()."""
        for helper in filter(None, map(_HELPER.search, call.log)):
            yield options.HELPER, helper["name"]
        for word in call.words:
            if isinstance(word, Enumerator):
                if kind := _BPF_KINDS.get(word.enum):
                    yield kind, self._name_of(*word)
            elif isinstance(word, Opened):
                if word.file.startswith(_OF_TABLE) or word.file[:1] != "/":
                    yield options.FILE, word.file.rpartition("/")[2]
            elif isinstance(word, Written):
                file, text = word.file.rpartition("/")[2], word.text
                if file == "current_tracer":
                    yield options.TRACER, text
                elif file == "trigger":
                    yield options.TRIGGER, re.split("[: ]", text.lstrip("!"))[0]
                elif file == "dynamic_events":
                    yield options.DEFINITION, text[:1]

    def _who_has(self, option: str) -> str:
        """Return words about the oldest kernel that was made with an option."""
        found = list[tuple[list[int], str]]()
        name = option.removeprefix("CONFIG_")
        for kernel in store.names():
            with contextlib.suppress(UnfitError, OSError):
                folder = store.folder(kernel)
                if is_on(image.read_config(folder), name):
                    release = image.read_meta(folder).release
                    found.append((image.version(release), kernel))
        return f"; {min(found)[1]} has" if found else ""

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
    def _config(self) -> str:
        return image.read_config(self._kernel.folder)

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
