# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel of a few bytes for the server and the stub, and a gdb of a few lines."""

import socket

from kpfs.base.errors import KernelError, MemoryFault
from kpfs.base.lock import FairLock
from kpfs.gdb.debugged import (
    FIRST_TASK,
    Command,
    DebugModule,
    DebugThread,
    RunState,
)
from kpfs.gdb.packets import PacketReader, encode

MEMORY_AT = 0x1000
PHYSICAL_AT = 0x50_0000


class FakeStops:
    """The stops that a stub has set."""

    def __init__(self):
        self.places, self.watches, self.stepping = set(), {}, False
        self.on_stop = lambda _: None
        self.counts = lambda: False  # so it has no history

    def insert(self, address):
        assert address not in self.places
        self.places.add(address)

    def remove(self, address):
        self.places.remove(address)

    def watch(self, number, first, last, *, reads, writes):
        assert number not in self.watches
        self.watches[number] = first, last, reads, writes

    def unwatch(self, number):
        del self.watches[number]

    def clear(self):
        self.places, self.watches, self.stepping = set(), {}, False


class FakeDebugged:
    """Implements Debugged: two processors, a task that sleeps, two pages of memory."""

    arch, release = "x86", "6.1.0"

    def __init__(self):
        self.lock, self.stops = FairLock(), FakeStops()
        self.memory = bytearray(range(256)) * 32
        self.known = [{"rax": 1, "rip": 0x1010, "gs_base": 7, "eflags": 2}, {"rax": 2}]
        self.current, self.sees_all, self.caught_up = 0, False, 0
        self.between = None
        self.replaced = lambda: None

    def vmlinux(self):
        return b"\x7fELF" + bytes(200)

    def modules(self):
        return [
            DebugModule("own", {".text": 0x1100, ".data": 0x1200}, has_file=True),
            DebugModule("foreign", {".text": 0x1300}),
        ]

    def module_file(self, name):
        return {"own": b"\x7fELF of own"}[name]

    def commands(self):
        def refuse():
            raise KernelError(12, "no room")

        return {
            "say": Command("says so", lambda: "so\n"),
            "refuse": Command("refuses", refuse),
            "begin": Command("begins anew", lambda: "begun\n", at_rest=True),
        }

    def keep(self):
        then = bytes(self.memory)

        def go_back():
            self.memory[:] = then

        return go_back

    def see_all(self, wanted):
        self.sees_all = wanted

    def catch_up(self):
        self.caught_up += 1

    clock = None

    def call_between_turns(self, call):
        self.between = call

    def follow(self, replaced):
        self.replaced = replaced

    def threads(self):
        return [
            DebugThread(1, 0, 77, "cat", RunState.RUNS),
            DebugThread(2, 1, 0, "", RunState.RUNS),
            DebugThread(FIRST_TASK + 5, -1, 5, 'a<"&\1', RunState.SLEEPS, 0x1800),
        ]

    def processors(self):
        return [each._replace(pid=0, comm="") for each in self.threads()[:2]]

    def registers(self, thread):
        return dict(self.known[thread.cpu]) if thread.cpu >= 0 else {"rip": 0x1234}

    def register(self, name):
        return self.known[self.current][name]

    def set_register(self, thread, name, value):
        if thread.cpu < 0 or name not in self.known[thread.cpu]:
            raise KeyError(name)
        self.known[thread.cpu][name] = value

    def _place(self, address, size):
        at = address - MEMORY_AT
        if not 0 <= at <= len(self.memory) - size:
            raise MemoryFault(address)
        return at

    def read(self, address, size):
        at = self._place(address, size)
        return bytes(self.memory[at : at + size])

    def original(self, address, size):
        return b"\x41" * size

    def physical(self, address):
        return PHYSICAL_AT + self._place(address, 1)

    def write(self, address, data):
        at = self._place(address, len(data))
        self.memory[at : at + len(data)] = data


class Gdb:
    """A client that sends packets, without acknowledgements."""

    def __init__(self, address):
        kind = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(kind, socket.SOCK_STREAM)
        self.socket.settimeout(20)
        self.socket.connect(address)
        self._reader, self._ready = PacketReader(), []

    def receive(self):
        """Return the next packet, None at the end of the connection."""
        while not self._ready:
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionError:
                data = b""
            if not data:
                return None
            self._ready += self._reader.feed(data)
        return self._ready.pop(0)

    def send(self, body):
        self.socket.sendall(encode(body))

    def ask(self, body):
        self.send(body)
        return self.receive()

    def interrupt(self):
        """Press Ctrl-C; return the stop reply."""
        self.socket.sendall(b"\x03")
        return self.receive()

    def monitor(self, line):
        """Return what a command of the user says."""
        reply = self.ask(b"qRcmd," + line.encode().hex().encode())
        return bytes.fromhex(reply.decode()).decode()

    def begin(self):
        assert self.ask(b"QStartNoAckMode") == b"OK"
        self.socket.sendall(b"+")

    def close(self):
        self.socket.close()
