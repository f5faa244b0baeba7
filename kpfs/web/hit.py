# SPDX-License-Identifier: GPL-2.0-or-later
"""The recorder of one hit: each instruction from the probe to the point behind it.

It speaks gdb's protocol to the kernel, which must have been started with --gdb.  The
kernel stands still while it is stepped, and goes on before anybody looks at the record.
"""

from __future__ import annotations

import re
import select
import socket
import struct
import time
from bisect import bisect_right
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Any, NamedTuple

from kpfs.base.errors import SetupError
from kpfs.gdb.command import find
from kpfs.gdb.description import TARGETS
from kpfs.gdb.packets import PacketReader, encode
from kpfs.session.paths import KernelPath
from kpfs.top.samples import read
from kpfs.web.kernel import RefusedError

HIT_PATIENCE = 30.0  # s for the probe to be hit, and for a call to return
ANSWER = 10.0  # s for a reply
MOST = 6000  # instructions
STACK, CODE = 12, 16  # words of the stack, bytes of an instruction, that are kept
STACK_SIZE = 8 * STACK  # bytes
# bytes behind the address of a slot, a detour buffer and a trampoline that belong to it
SLOT, DETOUR, TRAMPOLINE = 0x30, 0x400, 0x60
STACK_POINTERS = {
    "x86": "rsp", "arm64": "sp", "riscv64": "x2", "s390x": "r15", "ppc64": "r1",
    "armhf": "sp", "i386": "esp", "mips64": "r29",
}  # fmt: skip
RETURN_REGISTERS = {
    "arm64": "x30",
    "riscv64": "x1",
    "s390x": "r14",
    "ppc64": "lr",
    "armhf": "lr",
    "mips64": "r31",
}  # x86 has it on the stack
FIRST = {"breakpoint": "trap", "jump": "jump", "ftrace": "call"}  # phase by kind
# functions of arm64 and riscv64 through which an exception comes and goes
ENTRIES = "vectors", "ret_to_kernel", "handle_exception", "ret_from_exception"
PUSHES = ("push", "call", "enter")
# an instruction that makes the stack grow, on x86-64, arm64 and riscv64
LOWERS = re.compile(r"(?:^sub (?:rsp|sp, sp), #?|addi\w* sp,.* ?-|\[sp, #-)(\w+)")
_UNNAMED = 0x8000  # bytes behind a symbol that are hardly its function's any more


class _Moment(NamedTuple):
    """An instruction that is about to run."""

    pc: int
    sp: int
    registers: Mapping[str, int]
    stack: bytes

    @property
    def words(self) -> list[int]:
        return [word for (word,) in struct.iter_unpack("<Q", self.stack)]


class _Client:
    """One connection to the kernel's server of gdb's protocol.  RefusedError."""

    def __init__(self, path: str, arch: str) -> None:
        self._registers = list(TARGETS[arch].registers)
        self._counter = TARGETS[arch].counter
        self._stack = STACK_POINTERS[arch]
        self._last_sp = 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        self._reader = PacketReader()
        self._found: list[bytes] = []
        self.code: dict[int, bytes] = {}  # the instructions that it has come to
        self.thread = b"1"
        if self.ask(b"QStartNoAckMode") != b"OK":
            raise RefusedError("another debugger is attached to this kernel")

    def close(self) -> None:
        self._socket.close()

    def send(self, *packets: bytes) -> None:
        self._socket.sendall(b"".join(map(encode, packets)))

    def ask(self, packet: bytes) -> bytes:
        self.send(packet)
        return self._answer()

    def _answer(self) -> bytes:
        answer = self.wait(ANSWER)
        if answer is None:
            raise RefusedError("the kernel does not answer")
        return answer

    def wait(self, patience: float) -> bytes | None:
        """Return the next packet; None if none comes in time."""
        end = time.monotonic() + patience
        while not self._found:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._socket], [], [], left)[0]:
                return None
            data = self._socket.recv(1 << 16)
            if not data:
                raise RefusedError("another debugger is attached to this kernel")
            found = self._reader.feed(data)
            self._found += [each for each in found if isinstance(each, bytes)]
        return self._found.pop(0)

    def moment(self) -> _Moment:
        """Return what is known where the processor stands; keep the code there."""
        # both at once: the stack is most likely near where it was before
        near = max(self._last_sp - STACK_SIZE, 0)
        self.send(b"g", _read(near, 3 * STACK_SIZE))
        raw, at, found = self._answer().decode(), 0, dict[str, int]()
        around = _bytes_of(self._answer())
        for each in self._registers:
            digits = raw[at : at + 2 * each.size]
            at += 2 * each.size
            with suppress(ValueError):  # x: not known
                found[each.name] = int.from_bytes(bytes.fromhex(digits), "little")
        pc, self._last_sp = found[self._counter], (sp := found[self._stack])
        if pc not in self.code:
            self.code[pc] = self.memory(pc, CODE)
        stack = around[sp - near :][:STACK_SIZE] if sp >= near else b""
        if len(stack) < STACK_SIZE:
            stack = self.memory(sp, STACK_SIZE)
        return _Moment(pc, sp, found, stack)

    def memory(self, address: int, size: int) -> bytes:
        return _bytes_of(self.ask(_read(address, size)))


def _read(address: int, size: int) -> bytes:
    """Return the packet that asks for memory."""
    return b"m%x,%x" % (address, size)


def _bytes_of(answer: bytes) -> bytes:
    return b"" if answer[:1] == b"E" else bytes.fromhex(answer.decode())


class HitRecorder:
    """Records hits in the kernel of one mount, one at a time."""

    def __init__(self, tree: KernelPath) -> None:
        self._tree = tree
        self._symbols: list[tuple[int, str]] = []
        self.is_busy = False
        self._wanted = False

    def give_up(self) -> None:
        """Have a recorder that still waits for a hit return."""
        self._wanted = False

    def record(self, address: int, kind: str) -> dict[str, Any]:
        """Return the next hit of a probe.  kind: k or r.  RefusedError, OSError."""
        if self.is_busy:
            raise RefusedError("another hit is being recorded")
        self.is_busy = self._wanted = True
        try:
            target = find(self._tree.debugged)
            probe = _Probe(self._tree, address, kind, target.arch)
            self._read_symbols()
            with closing(_Client(target.path, target.arch)) as client:
                return self._recorded(client, probe)
        except SetupError as error:
            raise RefusedError(str(error).removeprefix("gdb: ")) from None
        finally:
            self.is_busy = False

    # ---- names
    def _read_symbols(self) -> None:
        """Read the functions' addresses, once."""
        if not self._symbols:
            lines = (self._tree / "kallsyms").read_text().splitlines()
            rows = (line.split()[:3] for line in lines if "__builtin" not in line)
            named = {int(at, 16): name for at, kind, name in rows if kind in "tTwW"}
            self._symbols = sorted(named.items())

    def _name(self, address: int) -> str:
        """Return FUNCTION+OFFSET; the address where no function is."""
        i = bisect_right(self._symbols, (address, "\xff")) - 1
        if i < 0 or address - self._symbols[i][0] > _UNNAMED:
            return f"{address:#x}"
        offset = address - self._symbols[i][0]
        return f"{self._symbols[i][1]}+{offset:#x}" if offset else self._symbols[i][1]

    # ---- recording
    def _recorded(self, client: _Client, probe: _Probe) -> dict[str, Any]:
        first = self._run_to(client, probe.address)
        parts = [self._steps(client, probe, probe.floor(first.sp))]
        if probe.kind == "r":
            register = RETURN_REGISTERS.get(probe.arch)
            now = client.moment().registers.get(register or "")
            probe.trampoline = now or parts[0][-1].words[0]
            while self._run_to(client, probe.trampoline).sp - first.sp not in (0, 8):
                pass  # another task's call returns
            client.ask(b"z0,%x,1" % probe.trampoline)
            probe.lowers = 0
            parts.append(self._steps(client, probe, first.sp))
        client.close()
        return self._described(parts, probe, client.code)

    def _run_to(self, client: _Client, address: int) -> _Moment:
        """Have the kernel run to an address."""
        client.ask(b"Z0,%x,1" % address)
        client.send(b"c")
        end, stop = time.monotonic() + HIT_PATIENCE, None
        while stop is None and self._wanted and time.monotonic() < end:
            stop = client.wait(0.1)
        if stop is None:
            why = f"within {HIT_PATIENCE:.0f} s" if self._wanted else "so far"
            raise RefusedError(f"nothing has come to {self._name(address)} {why}")
        client.thread = stop.partition(b"thread:")[2].partition(b";")[0]
        client.ask(b"z0,%x,1" % address)
        return client.moment()

    def _steps(self, client: _Client, probe: _Probe, floor: int) -> list[_Moment]:
        """Step until the kernel's own code goes on, with the stack as it was."""
        found = [client.moment()]
        while len(found) <= MOST:
            client.ask(b"vCont;s:" + client.thread)
            found.append(now := client.moment())
            if now.sp >= floor and not self._is_ours(now.pc, probe):
                return found
        raise RefusedError(f"this hit takes more than {MOST} instructions")

    def _is_ours(self, pc: int, probe: _Probe) -> bool:
        """Return True in what is there for probes: slots and trampolines lack names."""
        name = self._name(pc).partition("+")[0]
        if probe.lowers and name != self._name(probe.address).partition("+")[0]:
            return True  # a frame of the handlers may be smaller than the function's
        return bool(probe.where(pc)) or name.startswith("0x") or name in ENTRIES

    # ---- describing
    def _described(
        self, parts: list[list[_Moment]], probe: _Probe, code: Mapping[int, bytes]
    ) -> dict[str, Any]:
        """Return the record as the page reads it: a step has what it changes."""
        from kpfs.engine.arch.arches import TEXT_TOOLS

        words = dict[int, tuple[str, str]]()
        compared = TEXT_TOOLS[probe.arch]().compared
        for pc, raw in code.items():
            row = next(iter(compared(raw, raw, pc, self._name)), "").strip()
            digits, _, text = row.partition("  ")[2].partition("  ")
            words[pc] = digits, text.strip()
        steps, before = list[dict[str, Any]](), _Moment(0, 0, {}, b"")
        for part in parts:
            phases = probe.phases([moment.pc for moment in part], words)
            for now, phase in zip(part, phases, strict=True):
                there = "text" if phase in (*FIRST.values(), "done") else "handler"
                step: dict[str, Any] = {
                    "pc": f"{now.pc:x}",
                    "phase": phase,
                    "name": self._name(now.pc),
                    "code": words[now.pc][0],
                    "words": words[now.pc][1],
                    "where": probe.where(now.pc) or there,
                    "set": {
                        name: f"{value:x}"
                        for name, value in now.registers.items()
                        if before.registers.get(name) != value
                    },
                }
                if now.stack != before.stack:
                    step["stack"] = [f"{word:x}" for word in now.words]
                steps.append(step)
                before = now
        return {"steps": steps, "kind": probe.armed, "place": self._name(probe.address)}


class _Probe:
    """The probe whose hit is recorded, and where its code out of line stands."""

    def __init__(self, tree: KernelPath, address: int, kind: str, arch: str) -> None:
        rows = [
            line.split() for line in (tree / "machine/probes").read_text().splitlines()
        ][1:]
        own = [row for row in rows if int(row[0], 16) == address]
        wanted = f"{address:x}", kind
        found = [each for each in read(tree) if (each.address, each.type) == wanted]
        if not own or not found:
            raise RefusedError(f"no probe at {address:#x}")
        self.address, self.kind, self.arch = address, kind, arch
        self.armed = found[0].kind
        if self.armed not in FIRST:
            raise RefusedError(f"this probe is {self.armed}: nothing hits it")
        self.slot, self.detour = (
            next((int(row[i], 16) for row in own if row[i] != "-"), 0) for i in (6, 7)
        )
        self.trampoline = 0
        self._was = self._displaced(tree, found[0].place)
        lowers = filter(None, map(LOWERS.search, self._was))
        self.lowers = sum(int(each[1], 0) for each in lowers)  # bytes, in its function

    def _displaced(self, tree: KernelPath, place: str) -> list[str]:
        """Return the instructions that the probe's patch has replaced."""
        with suppress(OSError):
            text = tree / "machine/text" / place.partition("+")[0]
            for line in text.read_text().splitlines():
                if line.split(maxsplit=1)[:1] == [f"{self.address:x}"]:
                    return line.rpartition("was: ")[2].strip().split("; ")
        return []

    def floor(self, sp: int) -> int:
        """Return where the stack will be, at least, behind the probed instruction."""
        pushes = sum(word.startswith(PUSHES) for word in self._was)
        return sp - 8 * pushes - self.lowers

    def where(self, pc: int) -> str:
        """Return what a place is: probe, slot, detour or trampoline; else ""."""
        if pc == self.address:
            return "probe"
        for name, start, size in (
            ("slot", self.slot, SLOT),
            ("detour", self.detour, DETOUR),
            ("trampoline", self.trampoline, TRAMPOLINE),
        ):
            if start and 0 <= pc - start < size:
                return name
        return ""

    def phases(self, pcs: list[int], words: Mapping[int, tuple[str, str]]) -> list[str]:
        """Return what happens at each step of one part of a hit."""
        places, found = [self.where(pc) for pc in pcs], list[str]()
        for i, place in enumerate(places):
            if i == len(places) - 1:
                found.append("done")
            elif place == "probe":
                found.append(FIRST[self.armed])
            elif place == "slot":
                is_jump = words[pcs[i]][1].startswith("jmp")
                found.append("boost" if is_jump else "step")
            elif place in ("detour", "trampoline"):
                found.append(place)
            elif {"step", "boost"} & set(found):
                found.append("fixup")
            else:
                found.append("handler")
        if "detour" in places:
            last = len(places) - 1 - places[::-1].index("detour")
            found[last] = "back"
            for word in reversed(self._was):
                last -= 1
                if words[pcs[last]][1] == word:
                    found[last] = "copy"
        return found
