# SPDX-License-Identifier: GPL-2.0-or-later
"""ppc64el: its registers, by their places in libunicorn's state, and its calls.

These have other numbers, flags and requests than x86-64's.  Kernel: syscall.tbl and
include/uapi/asm of arch/powerpc
"""

from __future__ import annotations

import termios
from typing import ClassVar

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.data_model import LITTLE_64
from kpfs.base.elf import EM_PPC64
from kpfs.linux.arch.arch import Engine, FieldAddress, ReadWord, placed
from kpfs.linux.arch.call_numbers import call_numbers
from kpfs.linux.arch.changed import ChangedCalls, Terminal, moved
from kpfs.linux.arch.state import StateArch, address_of, word

R = {f"r{n}": 2 + n for n in range(32)}  # UC_PPC_REG_*
PC, LR, CR = 1, 74, 79
_S = abi.Ppc64State
_SPRS, _FLOATS = 1024, 136  # words
# what an image keeps: without reservations, and what libunicorn makes of MSR
STATE = {
    f"at_{at:05x}": at
    for at in (
        *range(_S.gpr, _S.reserve_addr, 8),
        *(_S.msr, _S.nip),
        *range(_S.spr, _S.spr + 8 * _SPRS, 8),
        *range(_S.floats, _S.floats + 8 * _FLOATS, 8),
    )
}
_SPR = {"dsisr": 18, "dar": 19, "srr0": 26, "srr1": 27, "pid": 48, "lpcr": 318}
# beside them debuggers show cr and xer, which are in pieces
_PLACES = {
    **{f"r{n}": _S.gpr + 8 * n for n in range(32)},
    "pc": _S.nip,
    "msr": _S.msr,
    "lr": _S.lr,
    "ctr": _S.ctr,
    **{name: _S.spr + 8 * number for name, number in _SPR.items()},
}
_CR = "cr"
_XER, _XER_BITS = "xer", ((_S.so, 31), (_S.ov, 30), (_S.ca, 29))
_STUB, _B, _B_MASK = LITTLE_64.struct("I"), 18 << 26, 0x03FF_FFFC  # b to the gate
_SAVED_LR = 16  # in a frame, whose first word is the address of its caller's
# O_DIRECT, O_LARGEFILE, O_DIRECTORY, O_NOFOLLOW: x86-64's and ppc64's
_OPEN_FLAGS = (
    *((0o40000, 0o400000), (0o100000, 0o200000)),
    *((0o200000, 0o40000), (0o400000, 0o100000)),
)
# requests of ioctl() whose numbers do not tell what they do with how many bytes
_REQUESTS = {
    termios.TCGETS: 0x402C_7413, termios.TCSETS: 0x802C_7414,
    termios.TCSETSW: 0x802C_7415, termios.TCSETSF: 0x802C_7416,
    termios.TIOCGWINSZ: 0x4008_7468, termios.TIOCSWINSZ: 0x8008_7467,
    termios.TIOCSPGRP: 0x8004_7476, termios.TIOCGPGRP: 0x4004_7477,
    termios.FIONREAD: 0x4004_667F, termios.FIONBIO: 0x8004_667E,
    termios.FIOCLEX: 0x2000_6601, termios.FIONCLEX: 0x2000_6602,
    termios.TIOCOUTQ: 0x4004_7473, 0x5441: 0x2000_5441,  # TIOCGPTPEER
}  # fmt: skip
# flags of input, output, control and local modes that are elsewhere
_TERMINAL_FLAGS = (
    ((0x400, 0x200), (0x1000, 0x400), (0x200, 0x1000)),
    ((4, 2), (2, 4)),
    tuple(
        (bit, bit << 4) for bit in (0x10, 0x20, 0x40, 0x80, 0x100, 0x200, 0x400, 0x800)
    ),
    (
        *((1, 0x80), (2, 0x100), (0x10, 2), (0x20, 4), (0x40, 0x10), (0x80, 1 << 31)),
        *((0x100, 0x40_0000), (0x200, 0x40), (0x400, 0x20), (0x800, 1)),
        *((0x1000, 0x80_0000), (0x4000, 0x2000_0000), (0x8000, 0x400)),
    ),
)
# by ppc64's places: x86-64's of the special characters
_CHARACTERS = 0, 1, 2, 3, 4, 6, 11, 5, 16, 7, 14, 12, 10, 8, 9, 15, 13
_MAP_FLAGS = (0x2000, 0x80), (0x4000, 0x40)  # MAP_LOCKED, MAP_NORESERVE

_CALLS = ChangedCalls(
    *(call_numbers("ppc64"), _REQUESTS),
    Terminal(_TERMINAL_FLAGS, _CHARACTERS, 19, 38400),
    _OPEN_FLAGS,
    {nr.MMAP: [(3, lambda flags: moved(flags, _MAP_FLAGS))]},
    {nr.SYNC_FILE_RANGE: lambda fd, at, size, flags: (fd, flags, at, size)},
)


class LinuxPpc64(StateArch):
    name = "ppc64"
    state, registers, places = STATE, R, _PLACES
    engine_place = _S.engine
    engine = 5, 1 << 30 | 1 << 3
    cpu_model = None  # a POWER10, the only one that works; the board makes it a POWER9
    exported_as = "ppc64"
    load_here = b"\xe8\x60\x00\x00"  # ld r3, 0(0): libunicorn begins in big-endian
    arguments = R["r3"], R["r4"], R["r5"]
    fourth_argument = R["r6"]
    result, stack_pointer = R["r3"], R["r1"]
    counter = PC
    link = LR
    entry_register = R["r12"]
    regs_size = 384
    page_offset = 0xC000_0000_0000_0000
    syscall_arguments = 24, 32, 40, 48  # pt_regs.gpr[3] to [6]
    stub_size, stub_register = _STUB.size, R["r12"]
    gate = b"\x20\x00\x80\x4e"  # blr
    cpu_fields: ClassVar = {
        **placed(abi.Cpu.own, abi.Ppc64Cpu, "nr_touched user_filled touched"),
        "argument": abi.Cpu.argument,
    }
    board_fields: ClassVar = placed(abi.Board.devices, abi.Ppc64Devices)
    translates = True
    native, open_flags = _CALLS.native, _CALLS.open_flags
    syscall_prefix = "sys_"
    elf_machine = EM_PPC64
    region_base = abi.REGION_LOW
    switch_fields: ClassVar = {"thread.ksp": 0}
    shown = (*_PLACES, _CR, _XER)
    breakpoint_size, ftrace_nop = 4, b"\x00\x00\x00\x60"

    def stub(self, at: int, gate: int) -> bytes:
        """Callers by pointer have the address in r12 already."""
        return _STUB.pack(_B | gate - at & _B_MASK)

    def debugged(self, engine: Engine, name: str) -> int:
        address = address_of(engine)
        if name == _CR:
            return engine.read_reg(CR)
        if name == _XER:
            bits = sum((word(address + at).value & 1) << bit for at, bit in _XER_BITS)
            return word(address + _S.xer).value | bits
        return super().debugged(engine, name)

    def set_debugged(self, engine: Engine, name: str, value: int) -> None:
        address = address_of(engine)
        if name == _CR:
            engine.write_reg(CR, value)
        elif name == _XER:
            word(address + _S.xer).value = value & ~sum(
                1 << bit for _, bit in _XER_BITS
            )
            for at, bit in _XER_BITS:
                word(address + at).value = value >> bit & 1
        else:
            super().set_debugged(engine, name, value)

    def asleep(self, field: FieldAddress, memory: ReadWord) -> dict[str, int]:
        # _switch() has a frame of its own, and has left its caller's address there
        frame = memory.word(memory.word(field("thread.ksp")))
        return {"r1": frame, "pc": memory.word(frame + _SAVED_LR)}
