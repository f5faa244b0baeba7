# SPDX-License-Identifier: GPL-2.0-or-later
"""Code that a root of a Linux kernel might run, on a board without a kernel.

It uses ports and the APIC with all sizes, offsets and values, addresses outside RAM,
tables and registers of the processor, page tables, and plain bytes.  The board may say
that it is dead, but neither its process may be, nor may memory beside the board's be
touched, nor may a turn have no end.
"""

from __future__ import annotations

import mmap
import random
import struct
import time
from collections.abc import Callable
from pathlib import Path

from kpfs.base import abi
from kpfs.emulator.x86_registers import CONTROL, GENERAL, MSRS, write_msr
from kpfs.linux.arch import x86
from kpfs.linux.board.board import Board
from kpfs.linux.board.stops import reason
from tests.campaign.attack import Attack
from tests.campaign.guard import GuardedMmap
from tests.campaign.hunt import Hunt, Part
from tests.campaign.seeds import hunt_with
from tests.harness import WrongError

APIC_SIZE, HOLE_END = 0x1000, 1 << 32
PER_CHILD = 250
PATIENCE = 400  # s for that many, on a machine that others use too
TURNS = 2  # that one gets
TURN_MAX = 20.0  # s of processor time for one turn
SHORT_TURN = 40_000_000  # ticks, about 20 ms: most programs that run on do so for ever
RAM = 4 << 20
GDT, IDT, TSS, PML4, PDPT, PD = 0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 0x6000
CODE, STACK, PAUSE = 0x100000, 0x200000, 0x180000
EDGES = (
    *(0, 1, 8, 0xFFF, 0x1000, RAM, RAM - 1, RAM - 8, RAM + 4096, CODE, PAUSE, STACK),
    *(abi.APIC_BASE, abi.APIC_BASE + APIC_SIZE - 4, abi.HOLE_BASE, HOLE_END),
    *(HOLE_END - 1, abi.REGION_PHYS, abi.REGION_PHYS + abi.REGION_SIZE - 4),
    *(abi.REGION_PHYS + abi.REGION_SIZE, 1 << 36, 1 << 47, (1 << 64) - 8, (1 << 63)),
    *(GDT, IDT, TSS, PML4, PDPT, PD),
)
VALUES: tuple[int, ...] = (
    0,
    1,
    2,
    0xFF,
    0x400,
    0x500,
    0xC500,
    0x4500,
    0x600,
    0x608,
    1 << 18,
    2 << 18,
)
VALUES = (*VALUES, 1 << 31, (1 << 32) - 1, 1 << 63, (1 << 64) - 1, 0x20020, 0x100F6)
PORTS = (0x70, 0x71, 0xE9, 0x3F8, 0x3FD, 0xCF8, 0x64, 0x80, 0xFFFF)
WILD_MSRS = (*MSRS.values(), 0x10, 0x800, 0x830, 0xC0000104, 0x6E0, 0xFFFFFFFF)
# instructions that use the registers which were set before
CODES = """
ee 66ef ef ec 66ed ed
8802 668902 8902 488902 8a02 668b02 8b02 488b02 0f1102 0f1002 f00fc102 f0480fc70a
0fae02 0fae0a f3a4 f348ab f36c f36e f348a7 ffe2 ffd2 50 58 c3
0f011a 0f0112 0f00d0 0f00d8 0f30 0f32 0f22c0 0f22d8 0f22e0 440f22c0 0f23f8 0f23c0
cc f4 fb fa fbf4 48cf 48cb 0f05 480f07 0f34 480f35 0f0b 0fa2 0f31 0f01f9 0f33
0f013a 0f09 0f01c8 0f01c9 0f01f8 0f01d0 0f01d1 0f06 0f01f0 8ed0 8ed8 8ee0 9d 9c 48ff2a
480fb222 0f01c1 0f01d9 0f01d8 0faa 48f7f2 ebfe 90 f390 0f20c0 0f20d8 d9f2 dfe0 9bdbe3
""".split()
SET = "48b8", "48ba", "48b9", "48bf", "48be", "48bc"  # rax rdx rcx rdi rsi rsp


def wild(rng: random.Random) -> int:
    """Return an address, or anything."""
    if rng.random() < 0.5:
        return (rng.choice(EDGES) + rng.choice((0, 0, 0, 1, -1, 4, -8))) % (1 << 64)
    if rng.random() < 0.4:
        return (
            abi.APIC_BASE
            + rng.choice(range(0, APIC_SIZE, 16))
            + rng.choice((0, 0, 0, 1, 3, 8))
        )
    return rng.getrandbits(rng.choice((8, 16, 22, 32, 36, 48, 64)))


def value_of(rng: random.Random, register: int) -> int:
    """Return a value for a register of SET."""
    if register == 1 and rng.random() < 0.3:
        return rng.choice(PORTS) if rng.random() < 0.7 else rng.randrange(1 << 16)
    if register == 2 and rng.random() < 0.5:
        return rng.choice(WILD_MSRS)
    if register == 5 and rng.random() < 0.7:
        return STACK
    return rng.choice(VALUES) if rng.random() < 0.4 else wild(rng)


def program(rng: random.Random) -> bytes:
    """Return instructions, many of which mean something."""
    out = bytearray()
    for _ in range(rng.randint(1, 40)):
        kind = rng.random()
        for register in rng.sample(range(len(SET)), rng.randint(0, 3)):
            out += bytes.fromhex(SET[register])
            out += value_of(rng, register).to_bytes(8, "little")
        if kind < 0.75:
            out += bytes.fromhex(rng.choice(CODES))
        elif kind < 0.8:
            out += bytes((0xCD, rng.randrange(256)))
        elif kind < 0.9:  # an interrupt between processors
            icr = struct.pack("<I", abi.APIC_BASE + 0x300)
            word = rng.choice(VALUES) & 0xFFFFFFFF | rng.randrange(256)
            out += b"\xba" + icr + b"\xc7\x02" + word.to_bytes(4, "little")
        else:
            out += rng.randbytes(rng.randint(1, 8))
    return bytes(out + rng.choice((b"\xeb\xfe", b"\xfb\xf4\xeb\xfc", b"\xfa\xf4", b"")))


def lay_out(board: Board, rng: random.Random) -> None:
    """Fill the memory: tables, most of them sound, and code."""
    ram = board.ram
    struct.pack_into("<Q", ram, PML4, PDPT | 7)
    for number, place in enumerate((PD, PD, 0xC0000083, 0xC0000083)):
        struct.pack_into("<Q", ram, PDPT + 8 * number, place | 7)
    for number in range(512):
        struct.pack_into("<Q", ram, PD + 8 * number, number << 21 | 0x87)
    for _ in range(rng.choice((0, 0, 1, 5))):
        table = rng.choice((PML4, PDPT, PD)) + 8 * rng.choice((0, 1, 2, 3, 4, 256, 511))
        entry = wild(rng) & ~0xFFF | rng.choice((1, 3, 7, 0x83, 0x87, 0xFFF))
        struct.pack_into("<Q", ram, table, entry % (1 << 64))
    struct.pack_into(
        "<4Q", ram, GDT, 0, 0, 0x00AF_9B00_0000_FFFF, 0x00CF_9300_0000_FFFF
    )
    for vector in range(256):
        at = CODE + rng.choice((0, 0x1000, 0x2000))
        at = at if rng.random() < 0.9 else wild(rng)
        ist = rng.choice((0, 0, 1)) if rng.random() < 0.2 else 0
        low = at & 0xFFFF | 0x10 << 16 | ist << 32 | 0x8E << 40
        low |= (at >> 16 & 0xFFFF) << 48
        low = low if rng.random() < 0.95 else rng.getrandbits(64)
        struct.pack_into("<QQ", ram, IDT + 16 * vector, low, at >> 32)
    struct.pack_into("<Q", ram, TSS + 4, STACK if rng.random() < 0.8 else wild(rng))
    struct.pack_into("<Q", ram, TSS + 0x24, STACK if rng.random() < 0.8 else wild(rng))
    for at in (CODE, CODE + 0x1000, CODE + 0x2000, 0, PAUSE):
        code = program(rng)
        ram[at : at + len(code)] = code


def start(board: Board, rng: random.Random) -> None:
    """Put the first processor into long mode, or into a wild state."""
    general, control = GENERAL, CONTROL
    write_msr(board, MSRS["efer"], 0x501 | rng.choice((0, 0x800)))
    board.write_reg(control["cr3"], PML4)
    board.write_reg(control["cr4"], 0x6A0)
    board.write_reg(control["cr0"], 0x8000_0033)
    x86.write_table(board, "gdtr", (0, GDT, 31, 0))
    x86.write_table(board, "idtr", (0, IDT, 0xFFF, 0))
    x86.write_table(board, "tr", (0, TSS, 0x67, 0x8B00))
    for name in ("lstar", "sysenter_eip"):
        write_msr(board, MSRS[name], CODE if rng.random() < 0.7 else wild(rng))
    board.set_mode(rng.choice((abi.MODE_KERNEL, abi.MODE_KERNEL, abi.MODE_USER)))
    for name in ("rax", "rbx", "rbp", "r8", "r15", "rdi", "rsi"):
        board.write_reg(general[name], wild(rng))
    board.write_reg(general["rdi"], rng.choice((0, 1, 511, 0xFFFFFFFF, wild(rng))))
    board.write_reg(general["rflags"], rng.choice((2, 0x202, 0x202, 0x302, wild(rng))))
    board.write_reg(general["rsp"], STACK if rng.random() < 0.9 else wild(rng))
    board.write_reg(general["rip"], rng.choice((CODE,) * 9 + (0, wild(rng))))
    watched = [CODE + rng.choice((0, 0x1000, 0x2000)), 0, rng.choice(EDGES)]
    board.set(pause=PAUSE, break_at=rng.choice((abi.NEVER, CODE + 0x2000)))
    board.set_calls([(rng.choice(watched), rng.choice((abi.NEVER, 0, 40)))])


class BoardAttack(Attack):
    """Runs such code, each time on a new board."""

    def __init__(self, path: Path, at: int, patient: bool = True) -> None:
        super().__init__(path, at)
        self.map: Callable[..., mmap.mmap] = (
            GuardedMmap().mmap if patient else mmap.mmap
        )

    def one(self, rng: random.Random) -> str:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        ram = self.map(-1, RAM, flags)
        region = mmap.mmap(-1, abi.REGION_SIZE, flags)
        board = Board(ram, region, cpus=rng.choice((1, 1, 2, 4)))
        try:
            lay_out(board, rng)
            start(board, rng)
            if rng.random() < 0.9:
                board.set(turn_ticks=SHORT_TURN)
            return self.run(board)
        finally:
            board.close()

    def run(self, board: Board) -> str:
        for _ in range(TURNS * 50):
            begin = time.thread_time()
            why = board.run()
            took = time.thread_time() - begin
            if took > TURN_MAX:
                raise WrongError(f"a turn of {took:.1f} s")
            if why not in (abi.STOP_TURN, abi.STOP_PAUSE, abi.STOP_CALL):
                return reason(board, why).split(" (")[0].split(":")[0]
            if why == abi.STOP_TURN:
                return "runs on"
        return "pauses"


def run(hunt: Hunt) -> None:
    hunt_with(BoardAttack, hunt, PER_CHILD, PATIENCE)


def main() -> None:
    """Make the attack of each of these seeds once more."""
    import sys
    import tempfile

    with tempfile.TemporaryFile() as file:
        attack = BoardAttack(Path("/nowhere"), file.fileno())
        for seed in map(int, sys.argv[1:]):
            print(seed, attack.one(random.Random(seed)), flush=True)


PART = Part("programs", 20_000, 1, run)

if __name__ == "__main__":
    main()
