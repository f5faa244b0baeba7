# SPDX-License-Identifier: GPL-2.0-or-later
"""The position of gdb in time: the present, or a visit of the past.

What gdb sets, it sets in the present, whose stub hands it to visits. Everything else
is answered where gdb is.
"""

from __future__ import annotations

from typing import Any

from kpfs.emulator.stops import Moment, Stop
from kpfs.gdb.debugged import Command, Debugged
from kpfs.gdb.history import Arrival, History, Visit
from kpfs.gdb.stub import Stub, StubReply, Then, Wanted

_OF_THE_PRESENT = b"zZcCsSbDkQ"  # first letters of packets
_HISTORY = b"qRcmd," + b"history".hex().encode()
_BEGIN, _END = b"begin", b"end"  # edges of what is known


def _is_of_the_present(packet: bytes) -> bool:
    return (
        packet[:1] in _OF_THE_PRESENT or packet.startswith(b"vC") or packet == _HISTORY
    )


def _goes_elsewhere(packet: bytes) -> bool:
    """Return True if the kernel is to go on at another address, which changes it."""
    where = packet[1:] if packet[:1] in b"cs" else packet.partition(b";")[2]
    return packet[:1] in b"csCS" and bool(where)


class _Guide:
    """The stub of a visit; implements Guide."""

    def __init__(self, stub: Stub) -> None:
        self._stub = stub

    def prepare(self, state: Wanted) -> None:
        self._stub.adopt(state)

    def passes(self, stop: Stop) -> bool:
        return self._stub.passes(stop)

    def answer(self, question: Any) -> StubReply:
        """Answer a packet, or return the reply for a stop and an edge."""
        self._stub.is_past = True
        if isinstance(question, bytes):
            return self._stub.receive(question)
        return StubReply(self._stub.stopped(*question))


class Past:
    """The past of one machine, for one connection.

    Context: the kernel stands still, but for go_on().
    """

    def __init__(self, debugged: Debugged, stub: Stub) -> None:
        self._stub = stub
        self._visit: Visit | None = None
        self._history = History(stub.stops, _Guide(stub), debugged.clock)
        stub.goes_back = True
        help_ = "how far back one can go"
        stub.monitor.more["history"] = Command(help_, self._describe)

    def go_on(self, moment: Moment) -> None:
        """Note that a run goes on behind a stop.

        Context: the thread that runs it.
        """
        has_written, self._stub.has_written = self._stub.has_written, False
        self._history.go_on(moment, has_written=has_written)

    def close(self) -> None:
        self._leave()
        self._history.close()

    def _leave(self) -> None:
        if self._visit is not None:
            self._visit.close()
            self._visit = None

    def _describe(self) -> str:
        number = self._history.depth
        return f"{number} section{'s' * (number != 1)} of what the kernel has run\n"

    def receive(self, packet: bytes, present: Moment | None) -> StubReply:
        """Answer a packet. present: where the kernel stands, None: between two runs."""
        visit = self._visit
        if visit is not None and _goes_elsewhere(packet):
            return StubReply(b"E01")
        if visit is None or _is_of_the_present(packet):
            reply = self._stub.receive(packet)
        else:
            return self._ask(visit, packet)
        if reply.then in (Then.BACK, Then.STEP_BACK):
            return self._go_back(present, step=reply.then is Then.STEP_BACK)
        if reply.then is Then.RUN and visit is not None:
            return self._go_forwards(visit, present)
        if reply.then is Then.LEAVE:
            self._leave()
        return reply

    def _ask(self, visit: Visit, question: Any) -> StubReply:
        try:
            answer: StubReply = visit.ask(question)
        except EOFError:
            return self._lose()
        return answer

    def _lose(self) -> StubReply:
        """Come back to the present, as a visit has died."""
        self._leave()
        return StubReply(self._stub.stopped(None, _END))

    def _go_back(self, present: Moment | None, *, step: bool) -> StubReply:
        wanted = self._stub.wanted()
        try:
            arrival = self._history.back(self._visit, present, wanted, step=step)
        except EOFError:
            return self._lose()
        if arrival is None:
            return StubReply(self._stub.stopped(None, _BEGIN))
        return self._arrive(arrival, _BEGIN)

    def _go_forwards(self, visit: Visit, present: Moment | None) -> StubReply:
        try:
            arrival = self._history.forwards(visit, present, self._stub.wanted())
        except EOFError:
            return self._lose()
        return self._arrive(arrival, _END)

    def _arrive(self, arrival: Arrival, edge: bytes) -> StubReply:
        self._visit = arrival.visit
        if self._visit is None:
            return StubReply(self._stub.stopped(None, edge))
        if arrival.stop is None:
            return self._ask(self._visit, (None, edge))
        return self._ask(self._visit, (arrival.stop, b""))
