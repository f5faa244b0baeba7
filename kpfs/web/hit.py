# SPDX-License-Identifier: GPL-2.0-or-later
"""The recorder of one hit: each instruction from the probe to the point behind it.

It speaks gdb's protocol to the kernel, which must have been started with --gdb.  The
kernel stands still while it is stepped, and goes on before anybody looks at the record.
"""

from __future__ import annotations

import re
import select
import socket
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
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
SLOT, DETOUR = 0x30, 0x400  # bytes that belong to a slot and to a detour buffer
# registers with the stack pointer, and with the return address: x86 has it on the stack
STACK_AND_LINK = {
    "x86": ("rsp", ""), "arm64": ("sp", "x30"), "riscv64": ("x2", "x1"),
    "s390x": ("r15", "r14"), "ppc64": ("r1", "lr"), "armhf": ("sp", "lr"),
    "i386": ("esp", ""), "mips64": ("r29", "r31"),
}  # fmt: skip
JUMPS = {"x86": 5, "i386": 5}  # bytes of a jump that replaces several instructions
FIRST = {"breakpoint": "trap", "jump": "jump", "ftrace": "call"}  # phase by kind
# functions through which exceptions come and go before the stack grows, or after
ENTRIES = re.compile(
    r"vectors|ret_to_kernel|handle_exception|ret_from_exception"  # arm64, riscv64
    r"|pgm_check_handler"  # s390x
    r"|\w*program_check\w*|\w*interrupt_return\w*|optinsn_slot"  # ppc64
    r"|__und_\w+|vector_\w+"  # armhf
    r"|except_vec\w+|handle_bp\w*|restore_(?:all|partial|some)"  # mips64
)
# address, bytes and words of an instruction in a listing
INSTRUCTION = re.compile(r" *([0-9a-f]+)  ([0-9a-f]{2}(?: [0-9a-f]{2})*) +(\S.*)")
# instructions behind which another function may go on, and some others
BRANCHES = re.compile(r"(?:c\.)?(?:[bj]|cb|tb|call|ret|loop|c\w*j|(?:pop|ld).*\bpc\b)")
PUSHES = ("push", "call", "enter")
# an instruction that makes the stack grow
LOWERS = re.compile(
    r"(?:^sub (?:rsp,|esp,|sp, sp,) #?|addi\w* sp,.* ?-|\[sp, #-"  # arm64, riscv64
    r"|^(?:lay|aghi|aghik) %r15,(?: ?%r15,)? ?-|^stdu r1, -"  # s390x, ppc64
    r"|^daddiu \$sp, \$sp, -)(\w+)"  # mips64
)
_UNNAMED = 0x8000  # bytes behind a symbol that are hardly its function's any more


class _Moment(NamedTuple):
    """An instruction that is about to run."""

    pc: int
    sp: int
    registers: Mapping[str, int]
    stack: Sequence[int]  # words


class HitClient:
    """One connection to the kernel's server of gdb's protocol.  RefusedError."""

    def __init__(self, path: str, arch: str) -> None:
        target = TARGETS[arch]
        self._registers, self._counter = list(target.registers), target.counter
        self._stack, self._model = STACK_AND_LINK[arch][0], target.model
        self._stack_size = STACK * target.model.long  # bytes
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
        size = self._stack_size
        near = max(self._last_sp - size, 0)
        self.send(b"g", _read(near, 3 * size))
        raw, at, found = self._answer().decode(), 0, dict[str, int]()
        around = _bytes_of(self._answer())
        for each in self._registers:
            digits = raw[at : at + 2 * each.size]
            at += 2 * each.size
            with suppress(ValueError):  # x: not known
                found[each.name] = self._model.number(bytes.fromhex(digits))
        pc, self._last_sp = found[self._counter], (sp := found[self._stack])
        if pc not in self.code:
            self.code[pc] = self.memory(pc, CODE)
        stack = around[sp - near :][:size] if sp >= near else b""
        if len(stack) < size:
            stack = self.memory(sp, size)
        return _Moment(pc, sp, found, self._model.array(self._model.letter, stack))

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
            with closing(HitClient(target.path, target.arch)) as client:
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
            # a function's own name, if the one before it has a symbol for its end
            ordered = sorted(rows, key=lambda row: not row[2].endswith("_end"))
            named = {int(at, 16): name for at, kind, name in ordered if kind in "tTwW"}
            self._symbols = sorted(named.items())

    def _name(self, address: int) -> str:
        """Return FUNCTION+OFFSET; the address where no function is."""
        i = bisect_right(self._symbols, (address, "\xff")) - 1
        if i < 0 or address - self._symbols[i][0] > _UNNAMED:
            return f"{address:#x}"
        offset = address - self._symbols[i][0]
        return f"{self._symbols[i][1]}+{offset:#x}" if offset else self._symbols[i][1]

    def _end(self, address: int) -> int:
        """Return where the function ends that an address is in."""
        i = bisect_right(self._symbols, (address, "\xff"))
        return self._symbols[i][0] if i < len(self._symbols) else address + 1

    # ---- recording
    def _recorded(self, client: HitClient, probe: _Probe) -> dict[str, Any]:
        first = self._run_to(client, probe.address)
        parts = [self._steps(client, probe, probe.floor(first.sp))]
        if probe.kind == "r":
            last, register = parts[0][-1], STACK_AND_LINK[probe.arch][1]
            pushed = (first.sp - last.sp) // probe.long
            link = last.registers[register] if register else last.stack[pushed]
            probe.trampoline = range(link, self._end(link))
            own = 0, probe.long  # x86 returns by taking a word off the stack
            while self._run_to(client, link).sp - first.sp not in own:
                pass  # another task's call returns
            client.ask(b"z0,%x,1" % link)
            probe.stays = False
            parts.append(self._steps(client, probe, first.sp))
        client.close()
        return self._described(parts, probe, client.code)

    def _run_to(self, client: HitClient, address: int) -> _Moment:
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

    def _steps(self, client: HitClient, probe: _Probe, floor: int) -> list[_Moment]:
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
        if probe.stays and name != self._name(probe.address).partition("+")[0]:
            return True
        is_entry = name.startswith("0x") or ENTRIES.fullmatch(name)
        return bool(probe.where(pc) or is_entry)

    # ---- describing
    def _described(
        self, parts: list[list[_Moment]], probe: _Probe, code: Mapping[int, bytes]
    ) -> dict[str, Any]:
        """Return the record as the page reads it: a step has what it changes."""
        from kpfs.engine.arch.arches import TEXT_TOOLS

        words = dict[int, tuple[str, str]]()
        compared = TEXT_TOOLS[probe.arch]().compared
        for pc, raw in code.items():
            row = next(iter(compared(raw, raw, pc, self._name)), "")
            found = INSTRUCTION.match(row)
            words[pc] = (found[2], found[3]) if found else ("", "")
        steps, before = list[dict[str, Any]](), _Moment(0, 0, {}, ())
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
                    step["stack"] = [f"{word:x}" for word in now.stack]
                steps.append(step)
                before = now
        place = self._name(probe.address)
        return {
            "steps": steps,
            "kind": probe.armed,
            "place": place,
            "long": probe.long,
        }


class _Probe:
    """The probe whose hit is recorded, and where its code out of line stands."""

    def __init__(self, tree: KernelPath, address: int, kind: str, arch: str) -> None:
        rows = [
            line.split() for line in (tree / "machine/probes").read_text().splitlines()
        ][1:]
        own = [row for row in rows if int(row[0], 16) == address]
        found = [
            each
            for each in read(tree)
            if each.type == kind and int(each.address, 16) == address
        ]
        if not own or not found:
            raise RefusedError(f"no probe at {address:#x}")
        self.address, self.kind, self.arch = address, kind, arch
        self.long = TARGETS[arch].model.long
        self.armed = found[0].kind
        if self.armed not in FIRST:
            raise RefusedError(f"this probe is {self.armed}: nothing hits it")
        self.slot, self.detour = (
            next((int(row[i], 16) for row in own if row[i] != "-"), 0) for i in (6, 7)
        )
        self.trampoline = range(0)
        was = self._was = self._displaced(tree, found[0].place)
        # whether the probed function goes on behind the probe
        self.stays = self.armed == "ftrace" or (
            bool(was) and not any(map(BRANCHES.match, was))
        )

    def _displaced(self, tree: KernelPath, place: str) -> list[str]:
        """Return the instructions that the probe's patch has replaced."""
        found = list[str]()
        end = self.address + (JUMPS.get(self.arch, 1) if self.armed == "jump" else 1)
        with suppress(OSError):
            text = tree / "machine/text" / place.partition("+")[0]
            for row in map(INSTRUCTION.match, text.read_text().splitlines()):
                if row and int(row[1], 16) == self.address:
                    found = row[3].rpartition("was: ")[2].strip().split("; ")
                elif row and self.address < int(row[1], 16) < end:
                    found.append(row[3])  # a jump will be there, too, but is queued
        return found

    def floor(self, sp: int) -> int:
        """Return where the stack will be, at least, behind the probed instruction."""
        pushes = (word.count(",") + 1 for word in self._was if word.startswith(PUSHES))
        lowers = (int(each[1], 0) for each in map(LOWERS.search, self._was) if each)
        return sp - self.long * sum(pushes) - sum(lowers)

    def where(self, pc: int) -> str:
        """Return what a place is: probe, slot, detour or trampoline; else ""."""
        if pc == self.address:
            return "probe"
        for name, start, size in (
            ("slot", self.slot, SLOT),
            ("detour", self.detour, DETOUR),
        ):
            if start and 0 <= pc - start < size:
                return name
        return "trampoline" if pc in self.trampoline else ""

    def phases(self, pcs: list[int], words: Mapping[int, tuple[str, str]]) -> list[str]:
        """Return what happens at each step of one part of a hit."""
        places, found = [self.where(pc) for pc in pcs], list[str]()
        for i, place in enumerate(places):
            if i == len(places) - 1:
                found.append("done")
            elif place == "probe":
                is_queued = self.armed == "jump" and places[i + 1] != "detour"
                found.append("trap" if is_queued else FIRST[self.armed])
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
