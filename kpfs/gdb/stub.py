# SPDX-License-Identifier: GPL-2.0-or-later
"""GDB's remote serial protocol over a stopped kernel: packets in, replies out.

The stub knows no socket and starts no thread. Whoever has one hands it a packet and
sends what it replies; if it asks for that, the kernel then goes on, and the next stop
is told by stopped(). Everything that a connection has set is in one object, which ends
with it: see release().

Document: "Debugging with GDB", appendix E.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from kpfs.base.errors import KernelError, MemoryFault
from kpfs.emulator.stops import Stop, StopReason, Stops
from kpfs.gdb.debugged import (
    FIRST_TASK,
    Debugged,
    DebugThread,
    RunState,
    read_some,
)
from kpfs.gdb.description import TARGETS, pack, target_xml
from kpfs.gdb.files import VMLINUX, Files
from kpfs.gdb.monitor import Monitor
from kpfs.gdb.packets import (
    BAD,
    FAULT,
    MAX_READ,
    MAX_SIZE,
    NO_THREAD,
    OK,
    REFUSED,
    UNKNOWN,
    bytes_of,
    number_of,
)
from kpfs.gdb.points import Points, WantedPoints

_FEATURES = (
    b"QStartNoAckMode+;qXfer:features:read+;qXfer:threads:read+;"
    b"qXfer:exec-file:read+;swbreak+;vContSupported+;ConditionalBreakpoints+"
)
_SIGINT, _SIGTRAP = int(signal.SIGINT), int(signal.SIGTRAP)


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

    points: WantedPoints
    stepped: tuple[int, range] | None
    says_swbreak: bool


class _RefusedError(Exception):
    """A packet that is answered by an error."""

    def __init__(self, text: bytes) -> None:
        super().__init__(text)
        self.text = text


class Stub:
    """One connection of gdb. Context: the kernel is stopped, but for its making."""

    def __init__(self, debugged: Debugged) -> None:
        self._debugged = debugged
        self._target = TARGETS[debugged.arch]
        self._registers = list(self._target.registers)
        self._points = Points(debugged)
        self._files = Files(debugged)
        self.monitor = Monitor(debugged)
        self.goes_back = False  # there is a history
        self.is_past = False  # the kernel is one of the past, which cannot be changed
        self.has_written = False  # to memory or registers, since somebody set it so
        self.is_acknowledging = True  # packets are confirmed, until gdb does without
        self._says_swbreak = False
        self._signal, self._reason = _SIGINT, b""
        self._selected = 0  # thread of registers and memory; 0: any
        # the processor that is stepped, and the addresses in which it goes on doing so
        self._stepped: tuple[int, range] | None = None
        self._threads: Sequence[DebugThread] | None = None
        self._known: dict[int, dict[str, int]] = {}  # registers by thread
        self._listed = b""
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
            b"T": lambda text: OK if self._thread(number_of(text)) else NO_THREAD,
            b"Z": self._points.insert,
            b"z": self._points.remove,
            b"c": lambda text: self._resume(b"c", text),
            b"C": lambda text: self._resume(b"c", text.partition(b";")[2]),
            b"s": lambda text: self._resume(b"s", text),
            b"S": lambda text: self._resume(b"s", text.partition(b";")[2]),
            b"b": self._go_back,
            b"D": lambda _: StubReply(OK, Then.LEAVE),
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
            b"Symbol": lambda: OK,
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
            return StubReply(UNKNOWN)
        try:
            reply = command(packet[1:])
        except _RefusedError as refusal:
            reply = refusal.text
        except MemoryFault:
            reply = FAULT
        except (ValueError, LookupError, OverflowError):
            reply = BAD
        except KernelError as error:
            reply = b"E%02x" % min(error.errno, 0xFF)
        return reply if isinstance(reply, StubReply) else StubReply(reply)

    def passes(self, stop: Stop) -> bool:
        """Return True if a stop is of no interest: a step that is not over yet.

        Context: the thread that runs the kernel.
        """
        if stop.why is StopReason.PLACE:
            if self._points.holds(stop.address):
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
            return StubReply(UNKNOWN)
        return StubReply(None, ways[text])

    def wanted(self) -> Wanted:
        """Return what is set, and forget the step that has begun."""
        stepped, self._stepped = self._stepped, None
        self.stops.stepping = False
        return Wanted(self._points.wanted(), stepped, self._says_swbreak)

    def adopt(self, wanted: Wanted) -> None:
        """Set all that another one has set.  Context: nothing is set in the engine."""
        self._stepped, self._says_swbreak = wanted.stepped, wanted.says_swbreak
        self._points.adopt(wanted.points)
        self.stops.stepping = self._stepped is not None

    def replaced(self) -> None:
        """Set the breakpoints in a machine that has taken over."""
        self._forget()
        self._points.set_anew()

    def release(self) -> None:
        """Take away all that this connection has set in the kernel."""
        self._points.release()

    # ---- stops
    def _why(self, stop: Stop) -> bytes:
        if (
            stop.why is StopReason.PLACE
            and self._says_swbreak
            and self._points.holds(stop.address)
        ):
            return b"swbreak:;"
        return self._points.accessed(stop)

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
        number = -1 if text[1:] == b"-1" else number_of(text[1:])
        if text[:1] not in b"gc" or self._thread(number) is None:
            return NO_THREAD
        if text[:1] == b"g":
            self._selected = number
        return OK

    def _chosen(self) -> DebugThread:
        thread = self._thread(self._selected)
        if thread is None:
            raise _RefusedError(NO_THREAD)
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
        register = self._registers[number_of(text)]
        return pack(register, self._values(self._chosen()), self._target).encode()

    def _write_registers(self, text: bytes) -> bytes:
        data, at = bytes_of(text), 0
        if self.is_past:
            return REFUSED
        thread = self._chosen()
        values = self._values(thread)
        if len(data) != sum(register.size for register in self._registers):
            return BAD
        for register in self._registers:
            value = self._number(data[at : at + register.size])
            at += register.size
            if register.name in values and values[register.name] != value:
                self._set_register(thread, register.name, value)
        self._known.pop(thread.number, None)
        return OK

    def _set_register(self, thread: DebugThread, name: str, value: int) -> None:
        self.has_written = True
        self._debugged.set_register(thread, name, value)

    def _number(self, raw: bytes) -> int:
        return int.from_bytes(raw, self._target.model.order)

    def _write_register(self, text: bytes) -> bytes:
        number, _, digits = text.partition(b"=")
        register, data = self._registers[number_of(number)], bytes_of(digits)
        if len(data) != register.size:
            return BAD
        if self.is_past:
            return REFUSED
        thread = self._chosen()
        value = self._number(data)
        self._set_register(thread, register.name, value)
        self._known.pop(thread.number, None)
        return OK

    # ---- memory
    def _memory(self, text: bytes) -> bytes:
        words = text.partition(b",")
        address, size = number_of(words[0]), min(number_of(words[2]), MAX_READ)
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
        return self._write(place, bytes_of(digits))

    def _write_binary(self, text: bytes) -> bytes:
        place, _, data = text.partition(b":")
        return self._write(place, data)

    def _write(self, place: bytes, data: bytes) -> bytes:
        address, _, size = place.partition(b",")
        if number_of(size) != len(data):
            return BAD
        at = number_of(address)
        if self.is_past:
            return REFUSED
        if data:
            self.has_written = True
            self._debugged.write(at, data)
        self._forget()  # memory has the registers of tasks that sleep
        return OK

    # ---- going on
    def _resume(self, action: bytes, where: bytes = b"", number: int = 0) -> StubReply:
        """Go on, or step. where: an address instead of where it stands, or ""."""
        thread = self._thread(number)
        if where:
            if thread is None:
                raise _RefusedError(NO_THREAD)
            self._set_register(thread, self._target.counter, number_of(where))
        steps = range(0)
        if action != b"c":
            if thread is None or thread.cpu < 0 or thread.state is RunState.OFF:
                raise _RefusedError(NO_THREAD)
            if action[:1] == b"r":
                first, _, end = action[1:].partition(b",")
                steps = range(number_of(first), number_of(end))
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
            return REFUSED
        if text.startswith(b"File:"):
            return self._files.answer(text[len(b"File:") :])
        return UNKNOWN

    def _continue(self, text: bytes) -> StubReply:
        """Do vCont: the first action that steps decides, as all else goes on anyway."""
        actions = []
        for part in text.split(b";"):
            action, _, number = part.partition(b":")
            if action[:1] not in (b"c", b"C", b"s", b"S", b"r"):
                raise ValueError(part)
            thread = -1 if number in (b"", b"-1") else number_of(number)
            kind = action if action[:1] == b"r" else action[:1].lower()
            actions.append((kind, thread))
        for kind, thread in actions:
            if kind != b"c":
                return self._resume(kind, number=thread)
        return self._resume(b"c")

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
            said = self.monitor.answer(
                bytes_of(text.partition(b",")[2]), is_past=self.is_past
            )
            self._forget()
            return said.encode()[:MAX_READ].hex().encode() or OK
        if name in self._plain:
            return self._plain[name]()
        if text.startswith(b"ThreadExtraInfo,"):
            thread = _find(number_of(text.partition(b",")[2]), self._all())
            return thread.name.encode().hex().encode() if thread else NO_THREAD
        return UNKNOWN

    def _thread_numbers(self) -> bytes:
        return b"m" + b",".join(b"%x" % each.number for each in self._all())

    def _transfer(self, text: bytes) -> bytes:
        kind, operation, annex, place = text.split(b":")
        if operation != b"read":
            return UNKNOWN
        offset, size = map(number_of, place.split(b","))
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
            return BAD
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
            return OK
        return UNKNOWN


def _find(number: int, threads: Sequence[DebugThread]) -> DebugThread | None:
    return next((each for each in threads if each.number == number), None)
