# SPDX-License-Identifier: GPL-2.0-or-later
"""GDB's remote serial protocol over a stopped kernel: packets in, replies out.

The stub knows no socket and starts no thread. Whoever has one hands it a packet and
sends what it replies; if it asks for that, the kernel then goes on, and the next stop
is told by stopped(). Everything that a connection has set is in one object, which ends
with it: see release().

Document: "Debugging with GDB", appendix E.
"""

from __future__ import annotations

import contextlib
import errno
import re
import signal
import stat
import struct
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from kpfs.base.errors import KernelError, MemoryFault
from kpfs.base.units import PAGE_SIZE
from kpfs.emulator.stops import Stop, StopReason, Stops
from kpfs.gdb.agent import evaluate
from kpfs.gdb.debugged import (
    FIRST_TASK,
    Command,
    Debugged,
    DebugThread,
    GoBack,
    RunState,
    read_some,
)
from kpfs.gdb.description import TARGETS, pack, target_xml
from kpfs.gdb.packets import MAX_SIZE

VMLINUX = b"/machine/vmlinux"  # as gdb is told
MODULES, _KO = "/modules", ".ko"  # folder of the files of modules, and their ends
_FD = 3
# dev ino mode nlink uid gid rdev size blksize blocks atime mtime ctime
_STAT = struct.Struct(">7I3Q3I")
MAX_READ = (MAX_SIZE - 16) // 2  # bytes of memory in one reply
_CONDITION = re.compile(rb"X[0-9a-f]+,([0-9a-f]+)")  # condition of a breakpoint
MAX_BREAKPOINTS = 4096
MAX_WATCHED = 1 << 16  # bytes of one watchpoint
_FEATURES = (
    b"QStartNoAckMode+;qXfer:features:read+;qXfer:threads:read+;"
    b"qXfer:exec-file:read+;swbreak+;vContSupported+;ConditionalBreakpoints+"
)
_OK, _UNKNOWN = b"OK", b""
# errors; gdb shows their numbers
_BAD, _FAULT, _REFUSED, _NO_THREAD = b"E16", b"E0e", b"E01", b"E03"
_SIGINT, _SIGTRAP = int(signal.SIGINT), int(signal.SIGTRAP)
# of watchpoints: whether they are of reads, and of writes; what stop replies call them
_KINDS = {
    2: (False, True, b"watch"),
    3: (True, False, b"rwatch"),
    4: (True, True, b"awatch"),
}


class Then(Enum):
    """The action after a reply."""

    STAY = 0  # the kernel stands still
    RUN = 1  # it goes on, and the next reply is its stop
    LEAVE = 2  # it goes on without a debugger
    BACK = 3  # it goes back to the last stop
    STEP_BACK = 4  # it goes back by an instruction


class StubReply(NamedTuple):
    """The answer to a packet."""

    text: bytes | None
    then: Then = Then.STAY


class Wanted(NamedTuple):
    """The breakpoints and watchpoints that gdb has set, for a visit of the past."""

    breakpoints: dict[int, list[bytes]]  # conditions by address
    pieces: dict[int, _Piece]
    stepped: tuple[int, range] | None
    says_swbreak: bool


class _RefusedError(Exception):
    """A packet that is answered by an error."""

    def __init__(self, text: bytes) -> None:
        super().__init__(text)
        self.text = text


class _Watchpoint(NamedTuple):
    """A watchpoint, by virtual addresses."""

    kind: int
    address: int
    size: int


class _Piece(NamedTuple):
    """The part of a watchpoint in one page."""

    watch: _Watchpoint
    address: int
    size: int
    physical: int


class Stub:
    """One connection of gdb. Context: the kernel is stopped, but for its making."""

    def __init__(self, debugged: Debugged) -> None:
        self._debugged = debugged
        self._target = TARGETS[debugged.arch]
        self._registers = list(self._target.registers)
        self._breakpoints: dict[int, list[bytes]] = {}  # conditions by address
        self._pieces: dict[int, _Piece] = {}  # watchpoints' pieces, by numbers in stops
        self._numbers = 0  # number of pieces so far
        self.goes_back = False  # there is a history
        self.is_past = False  # the kernel is one of the past, which cannot be changed
        self.more_commands: dict[str, Command] = {}
        self.is_acknowledging = True  # packets are confirmed, until gdb does without
        self._says_swbreak = False
        self._signal, self._reason = _SIGINT, b""
        self._selected = 0  # thread of registers and memory; 0: any
        # the processor that is stepped, and the addresses in which it goes on doing so
        self._stepped: tuple[int, range] | None = None
        self._threads: Sequence[DebugThread] | None = None
        self._known: dict[int, dict[str, int]] = {}  # registers by thread
        self._listed = b""
        self._opened = b""  # the file that was opened last
        self._vmlinux = b""  # once it has been opened
        self._go_back_to_kept: GoBack | None = None  # to the last snapshot
        self.at_rest = False  # the kernel stands, and nothing is under way in it
        self._commands: dict[bytes, Callable[[bytes], bytes | StubReply]] = {
            b"?": lambda _: self._stop_reply(),
            b"g": self._read_registers,
            b"G": self._write_registers,
            b"p": self._read_register,
            b"P": self._write_register,
            b"m": self._read_memory,
            b"x": self._read_binary,
            b"M": self._write_memory,
            b"X": self._write_binary,
            b"H": self._select,
            b"T": lambda text: _OK if self._thread(_hex(text)) else _NO_THREAD,
            b"Z": self._insert,
            b"z": self._remove,
            b"c": lambda text: self._resume(b"c", text),
            b"C": lambda text: self._resume(b"c", text.partition(b";")[2]),
            b"s": lambda text: self._resume(b"s", text),
            b"S": lambda text: self._resume(b"s", text.partition(b";")[2]),
            b"b": self._go_back,
            b"D": lambda _: StubReply(_OK, Then.LEAVE),
            b"k": lambda _: StubReply(
                None, Then.LEAVE
            ),  # the kernel is nobody's to kill
            b"q": self._query,
            b"Q": self._set,
            b"v": self._verbose,
        }

        self._plain: dict[bytes, Callable[[], bytes]] = {
            b"C": lambda: b"QC%x" % (self._debugged.current + 1),
            b"Attached": lambda: b"1",
            b"Symbol": lambda: _OK,
            b"fThreadInfo": self._thread_numbers,
            b"sThreadInfo": lambda: b"l",
        }

    # ---- from outside
    @property
    def stops(self) -> Stops:
        return self._debugged.stops

    def receive(self, packet: bytes) -> StubReply:
        """Answer a packet, whatever is in it."""
        command = self._commands.get(packet[:1])
        if command is None:
            return StubReply(_UNKNOWN)
        try:
            reply = command(packet[1:])
        except _RefusedError as refusal:
            reply = refusal.text
        except MemoryFault:
            reply = _FAULT
        except (ValueError, LookupError, OverflowError):
            reply = _BAD
        except KernelError as error:
            reply = b"E%02x" % min(error.errno, 0xFF)
        return reply if isinstance(reply, StubReply) else StubReply(reply)

    def passes(self, stop: Stop) -> bool:
        """Return True if a stop is of no interest: a step that is not over yet.

        Context: the thread that runs the kernel.
        """
        if stop.why is StopReason.PLACE:
            if self._holds(stop.address):
                return False
        elif stop.why is not StopReason.STEP:
            return False
        if self._stepped is None:
            return True
        cpu, inside = self._stepped
        return self._debugged.current != cpu or stop.address in inside

    def stopped(self, stop: Stop | None, edge: bytes = b"") -> bytes:
        """Return the reply that tells of a stop.  None: by Ctrl-C, or no reason.

        edge: begin or end, if history goes no further.
        """
        self._forget()
        self._stepped = None
        self.stops.stepping = False
        self._selected = 0
        self._signal, self._reason = _SIGINT, b""
        if stop is not None:
            self._signal, self._reason = _SIGTRAP, self._why(stop)
        if edge:
            self._signal, self._reason = _SIGTRAP, b"replaylog:%s;" % edge
        return self._stop_reply()

    # ---- the past
    def _go_back(self, text: bytes) -> StubReply:
        ways = {b"s": Then.STEP_BACK, b"c": Then.BACK}
        if not self.goes_back or text not in ways:
            return StubReply(_UNKNOWN)
        return StubReply(None, ways[text])

    def wanted(self) -> Wanted:
        """Return what is set, and forget the step that has begun."""
        stepped, self._stepped = self._stepped, None
        self.stops.stepping = False
        return Wanted(
            dict(self._breakpoints),
            dict(self._pieces),
            stepped,
            self._says_swbreak,
        )

    def adopt(self, wanted: Wanted) -> None:
        """Set all that another one has set.  Context: nothing is set in the engine."""
        self._breakpoints, self._pieces = wanted.breakpoints, wanted.pieces
        self._stepped, self._says_swbreak = wanted.stepped, wanted.says_swbreak
        for address in self._breakpoints:
            self.stops.insert(address)
        for number, piece in self._pieces.items():
            self._watch_piece(number, piece)
        self.stops.stepping = self._stepped is not None

    def replaced(self) -> None:
        """Set the breakpoints in a machine that has taken over."""
        self._forget()
        self.stops.clear()  # it may be the same one in another state
        for address in self._breakpoints:
            self.stops.insert(address)
        watches = list(dict.fromkeys(piece.watch for piece in self._pieces.values()))
        self._pieces = {}
        for watch in watches:
            with contextlib.suppress(MemoryFault):  # it is not there any more
                self._watch(watch)

    def release(self) -> None:
        """Take away all that this connection has set in the kernel."""
        self._breakpoints, self._pieces = {}, {}
        self.stops.clear()

    # ---- stops
    def _why(self, stop: Stop) -> bytes:
        piece = self._pieces.get(stop.watch)
        if stop.why is StopReason.ACCESS and piece is not None:
            at = max(stop.accessed - piece.physical, 0) + piece.address
            return b"%s:%x;" % (_KINDS[piece.watch.kind][2], at)
        if (
            stop.why is StopReason.PLACE
            and self._says_swbreak
            and self._holds(stop.address)
        ):
            return b"swbreak:;"
        return b""

    def _stop_reply(self) -> bytes:
        current = self._debugged.current + 1
        return b"T%02xthread:%x;%s" % (self._signal, current, self._reason)

    def _forget(self) -> None:
        """Forget what was known of the kernel where it stood."""
        self._threads = None
        self._known.clear()

    # ---- threads
    def _all(self) -> Sequence[DebugThread]:
        if self._threads is None:
            self._threads = self._debugged.threads()
        return self._threads

    def _thread(self, number: int) -> DebugThread | None:
        """Return a thread; the processor that runs for 0 and -1.

        That of a processor lacks its task, as each step asks for it.
        """
        if number <= 0:
            number = self._debugged.current + 1
        is_task = number >= FIRST_TASK
        return _find(number, self._all() if is_task else self._debugged.processors())

    def _select(self, text: bytes) -> bytes:
        number = -1 if text[1:] == b"-1" else _hex(text[1:])
        if text[:1] not in b"gc" or self._thread(number) is None:
            return _NO_THREAD
        if text[:1] == b"g":
            self._selected = number
        return _OK

    def _chosen(self) -> DebugThread:
        thread = self._thread(self._selected)
        if thread is None:
            raise _RefusedError(_NO_THREAD)
        return thread

    # ---- registers
    def _values(self, thread: DebugThread) -> dict[str, int]:
        if thread.number not in self._known:
            self._known[thread.number] = self._debugged.registers(thread)
        return self._known[thread.number]

    def _read_registers(self, _text: bytes) -> bytes:
        values = self._values(self._chosen())
        return "".join(
            pack(each, values, self._target) for each in self._registers
        ).encode()

    def _read_register(self, text: bytes) -> bytes:
        register = self._registers[_hex(text)]
        return pack(register, self._values(self._chosen()), self._target).encode()

    def _write_registers(self, text: bytes) -> bytes:
        data, at = _bytes(text), 0
        if self.is_past:
            return _REFUSED
        thread = self._chosen()
        values = self._values(thread)
        if len(data) != sum(register.size for register in self._registers):
            return _BAD
        for register in self._registers:
            value = self._number(data[at : at + register.size])
            at += register.size
            if register.name in values and values[register.name] != value:
                self._debugged.set_register(thread, register.name, value)
        self._known.pop(thread.number, None)
        return _OK

    def _number(self, raw: bytes) -> int:
        return int.from_bytes(raw, self._target.order)

    def _write_register(self, text: bytes) -> bytes:
        number, _, digits = text.partition(b"=")
        register, data = self._registers[_hex(number)], _bytes(digits)
        if len(data) != register.size:
            return _BAD
        if self.is_past:
            return _REFUSED
        thread = self._chosen()
        value = self._number(data)
        self._debugged.set_register(thread, register.name, value)
        self._known.pop(thread.number, None)
        return _OK

    # ---- memory
    def _memory(self, text: bytes) -> bytes:
        words = text.partition(b",")
        address, size = _hex(words[0]), min(_hex(words[2]), MAX_READ)
        data = read_some(self._debugged, address, size)
        if self._target.breakpoint.fullmatch(data):
            # gdb reads so much to learn whether a breakpoint of its own stands on one
            # of the program's, which it would step over by itself
            data = self._debugged.original(address, size)
        return data

    def _read_memory(self, text: bytes) -> bytes:
        return self._memory(text).hex().encode()

    def _read_binary(self, text: bytes) -> bytes:
        return b"b" + self._memory(text)

    def _write_memory(self, text: bytes) -> bytes:
        place, _, digits = text.partition(b":")
        return self._write(place, _bytes(digits))

    def _write_binary(self, text: bytes) -> bytes:
        place, _, data = text.partition(b":")
        return self._write(place, data)

    def _write(self, place: bytes, data: bytes) -> bytes:
        address, _, size = place.partition(b",")
        if _hex(size) != len(data):
            return _BAD
        at = _hex(address)
        if self.is_past:
            return _REFUSED
        if data:
            self._debugged.write(at, data)
        self._forget()  # memory has the registers of tasks that sleep
        return _OK

    # ---- breakpoints and watchpoints
    @staticmethod
    def _place(text: bytes) -> tuple[int, int, int]:
        kind, address, size = text.partition(b";")[0].split(b",")
        found = _hex(kind), _hex(address), _hex(size)
        if found[1] >> 64:
            raise ValueError(address)
        return found

    def _insert(self, text: bytes) -> bytes:
        kind, address, size = self._place(text)
        if kind in (0, 1):
            conditions = [_bytes(code) for code in _CONDITION.findall(text)]
            if address not in self._breakpoints:
                if len(self._breakpoints) >= MAX_BREAKPOINTS:
                    return _REFUSED
                self.stops.insert(address)
            self._breakpoints[address] = conditions
            return _OK
        if kind not in _KINDS:
            return _UNKNOWN
        watch = _Watchpoint(kind, address, size)
        if not 0 < size <= MAX_WATCHED:
            return _BAD
        if all(piece.watch != watch for piece in self._pieces.values()):
            self._watch(watch)
        return _OK

    def _watch(self, watch: _Watchpoint) -> None:
        """Watch the physical addresses of a watchpoint; MemoryFault."""
        pieces: list[_Piece] = []
        at = watch.address
        while at < watch.address + watch.size:
            size = min(watch.address + watch.size - at, PAGE_SIZE - at % PAGE_SIZE)
            pieces.append(_Piece(watch, at, size, self._debugged.physical(at)))
            at += size
        for piece in pieces:
            self._numbers += 1
            self._watch_piece(self._numbers, piece)
            self._pieces[self._numbers] = piece

    def _holds(self, address: int) -> bool:
        """Return True if a breakpoint has no condition, or one that is true.

        As gdb has it, a condition that cannot be evaluated is one.
        """
        conditions = self._breakpoints.get(address)
        if not conditions:
            return True
        debugged, registers = self._debugged, self._registers

        def register(number: int) -> int:
            return debugged.register(registers[number].name)

        try:
            return any(
                evaluate(code, register, debugged.read, self._target.order)
                for code in conditions
            )
        except (MemoryFault, ValueError, LookupError, ZeroDivisionError):
            return True

    def _watch_piece(self, number: int, piece: _Piece) -> None:
        reads, writes, _ = _KINDS[piece.watch.kind]
        first, last = piece.physical, piece.physical + piece.size - 1
        self.stops.watch(number, first, last, reads=reads, writes=writes)

    def _remove(self, text: bytes) -> bytes:
        kind, address, size = self._place(text)
        if kind in (0, 1):
            if address in self._breakpoints:
                del self._breakpoints[address]
                self.stops.remove(address)
            return _OK
        watch = _Watchpoint(kind, address, size)
        for number in [n for n, each in self._pieces.items() if each.watch == watch]:
            del self._pieces[number]
            self.stops.unwatch(number)
        return _OK if kind in _KINDS else _UNKNOWN

    # ---- going on
    def _resume(self, action: bytes, where: bytes = b"", number: int = 0) -> StubReply:
        """Go on, or step. where: an address instead of where it stands, or ""."""
        thread = self._thread(number)
        if where:
            if thread is None:
                raise _RefusedError(_NO_THREAD)
            self._debugged.set_register(thread, self._target.counter, _hex(where))
        steps = range(0)
        if action != b"c":
            if thread is None or thread.cpu < 0 or thread.state is RunState.OFF:
                raise _RefusedError(_NO_THREAD)
            if action[:1] == b"r":
                first, _, end = action[1:].partition(b",")
                steps = range(_hex(first), _hex(end))
            self._stepped = thread.cpu, steps
        self._forget()
        self.stops.stepping = action != b"c"
        return StubReply(None, Then.RUN)

    def _verbose(self, text: bytes) -> bytes | StubReply:
        if text == b"Cont?":
            return b"vCont;c;C;s;S;r"
        if text.startswith(b"Cont;"):
            return self._continue(text[len(b"Cont;") :])
        if text.startswith(b"Kill"):
            return _REFUSED
        if text.startswith(b"File:"):
            return self._file(text[len(b"File:") :])
        return _UNKNOWN

    def _continue(self, text: bytes) -> StubReply:
        """Do vCont: the first action that steps decides, as all else goes on anyway."""
        actions = []
        for part in text.split(b";"):
            action, _, number = part.partition(b":")
            if action[:1] not in (b"c", b"C", b"s", b"S", b"r"):
                raise ValueError(part)
            thread = -1 if number in (b"", b"-1") else _hex(number)
            kind = action if action[:1] == b"r" else action[:1].lower()
            actions.append((kind, thread))
        for kind, thread in actions:
            if kind != b"c":
                return self._resume(kind, number=thread)
        return self._resume(b"c")

    # ---- ELF files of kernel and modules, which gdb reads if it was given none
    def _file(self, text: bytes) -> bytes:
        """Do an operation on a file; only one is open at a time, to be read."""
        operation, _, rest = text.partition(b":")
        arguments = rest.split(b",")
        if operation == b"setfs":
            return b"F0"
        if operation == b"open":
            try:
                self._opened = self._contents(_bytes(arguments[0]))
            except KeyError:
                return b"F-1,%x" % errno.ENOENT
            return b"F%x" % _FD
        if _hex(arguments[0]) != _FD or not self._opened:
            return b"F-1,%x" % errno.EBADF
        if operation == b"pread":
            size, offset = map(_hex, arguments[1:])
            piece = self._opened[offset : offset + min(size, MAX_READ)]
            return b"F%x;" % len(piece) + piece
        if operation == b"fstat":
            size = len(self._opened)
            raw = _STAT.pack(
                0, 1, stat.S_IFREG | 0o444, 1, 0, 0, 0, size, 0, 0, 0, 0, 0
            )
            return b"F%x;" % len(raw) + raw
        return b"F0" if operation == b"close" else _UNKNOWN

    def _contents(self, path: bytes) -> bytes:
        """Return the contents of a file; KeyError: there is no such file."""
        if path == VMLINUX:  # which gdb opens more than once
            self._vmlinux = self._vmlinux or self._debugged.vmlinux()
            return self._vmlinux
        folder, _, name = path.decode(errors="replace").rpartition("/")
        if folder != MODULES or not name.endswith(_KO):
            raise KeyError(name)
        return self._debugged.module_file(name.removesuffix(_KO))

    # ---- queries
    def _query(self, text: bytes) -> bytes:
        name, _, rest = text.partition(b":")
        if name == b"Supported":
            self._says_swbreak = b"swbreak+" in rest.split(b";")
            text = b"PacketSize=%x;%s" % (MAX_SIZE, _FEATURES)
            return text + b";ReverseStep+;ReverseContinue+" * self.goes_back
        if name == b"Xfer":
            return self._transfer(rest)
        if name == b"Rcmd" or text.startswith(b"Rcmd,"):
            return self._monitor(_bytes(text.partition(b",")[2]))
        if name in self._plain:
            return self._plain[name]()
        if text.startswith(b"ThreadExtraInfo,"):
            thread = _find(_hex(text.partition(b",")[2]), self._all())
            return thread.name.encode().hex().encode() if thread else _NO_THREAD
        return _UNKNOWN

    def _thread_numbers(self) -> bytes:
        return b"m" + b",".join(b"%x" % each.number for each in self._all())

    def _transfer(self, text: bytes) -> bytes:
        kind, operation, annex, place = text.split(b":")
        if operation != b"read":
            return _UNKNOWN
        offset, size = map(_hex, place.split(b","))
        if (kind, annex) == (b"features", b"target.xml"):
            content = target_xml(self._debugged.arch)
        elif (kind, annex) == (b"threads", b""):
            if not offset:
                self._listed = self._threads_xml()
            content = self._listed
        elif kind == b"exec-file":
            content = VMLINUX
        else:
            return b"E00"
        if offset > len(content):
            return _BAD
        piece = content[offset : offset + min(size, MAX_READ)]
        return (b"m" if offset + len(piece) < len(content) else b"l") + piece

    def _threads_xml(self) -> bytes:
        rows = []
        for each in self._all():
            core = f' core="{each.cpu}"' if each.cpu >= 0 else ""
            name = quoteattr("".join(c if c.isprintable() else "?" for c in each.name))
            rows.append(
                f'<thread id="{each.number:x}"{core} name={name}>{each.state.value}'
                "</thread>"
            )
        return f'<?xml version="1.0"?><threads>{"".join(rows)}</threads>'.encode()

    def _set(self, text: bytes) -> bytes:
        if text == b"StartNoAckMode":
            self.is_acknowledging = False
            return _OK
        return _UNKNOWN

    # ---- monitor
    def _monitor(self, line: bytes) -> bytes:
        commands = {
            "snapshot": Command(
                "keep what the kernel is now", self._keep, at_rest=True
            ),
            "restore": Command("go back to that", self._restore, at_rest=True),
            **self._debugged.commands(),
            "modules": Command("modules, and where their sections lie", self._modules),
            **self.more_commands,
        }
        rows = "".join(f"{name:<10}{each.help}\n" for name, each in commands.items())
        commands["help"] = Command("this list", lambda: rows)
        words = line.decode(errors="replace").split() or ["help"]
        command = commands.get(words[0])
        if command is None or len(words) > 1:
            said = f"no such command: {' '.join(words)} (monitor help)\n"
        elif command.at_rest and self.is_past:
            said = f"{words[0]}: not in the past\n"
        elif command.at_rest and not self.at_rest:
            said = f"{words[0]}: something runs: continue, then stop by Ctrl-C\n"
        else:
            try:
                said = command.call()
            except KernelError as error:
                said = f"{words[0]}: {error}\n"
            self._forget()
        return said.encode()[:MAX_READ].hex().encode() or _OK

    def _keep(self) -> str:
        self._go_back_to_kept = None  # it may be large
        self._go_back_to_kept = self._debugged.keep()
        return "it is kept\n"

    def _restore(self) -> str:
        if self._go_back_to_kept is None:
            return "there is no snapshot\n"
        self._go_back_to_kept()
        return "the kernel is what it was then\n"

    def _modules(self) -> str:
        """Return a line for each module: its name, its file, its sections."""
        lines = []
        for name, sections, has_file in self._debugged.modules():
            place = f"target:{MODULES}/{name}{_KO}" if has_file else "-"
            places = (f"{section}={at:#x}" for section, at in sections.items())
            lines.append(" ".join((name, place, *places)))
        return "".join(f"{line}\n" for line in lines)


def _find(number: int, threads: Sequence[DebugThread]) -> DebugThread | None:
    return next((each for each in threads if each.number == number), None)


def _hex(text: bytes) -> int:
    """Return a number; ValueError: it is none."""
    if not text or not all(c in b"0123456789abcdefABCDEF" for c in text):
        raise ValueError(text)
    return int(text, 16)


def _bytes(digits: bytes) -> bytes:
    return bytes.fromhex(digits.decode("ascii"))
