# SPDX-License-Identifier: GPL-2.0-or-later
"""mips64: its registers, by their places in libunicorn's state, and its calls (n64).

Of its own are nearly all numbers.  The agent returns errors by x86-64's.  Kernel:
syscall_n64.tbl and include/uapi/asm of arch/mips
"""

from __future__ import annotations

import errno
import termios
from collections.abc import Mapping
from typing import Any, ClassVar

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.data_model import LITTLE_64
from kpfs.base.elf import EM_MIPS
from kpfs.linux.arch.arch import (
    Args,
    Engine,
    FieldAddress,
    Readable,
    ReadWord,
    placed,
)
from kpfs.linux.arch.call_numbers import call_numbers
from kpfs.linux.arch.changed import ChangedCalls, Terminal, moved
from kpfs.linux.arch.state import StateArch, address_of, word

GPR = {f"r{n}": 2 + n for n in range(32)}  # UC_MIPS_REG_*
COUNTER = 1
_S = abi.Mips64State
# what an image keeps, beside the TLB: all that an uc_context has
STATE = {f"at_{at:04x}": at for at in range(0, _S.tlb - 8, 8)}
_TLB = {f"tlb_{at:04x}": at for at in range(0, abi.MIPS64_TLB_SIZE, 8)}
_PLACES = {
    **{f"r{n}": _S.gpr + 8 * n for n in range(32)},
    "lo": _S.lo,
    "hi": _S.hi,
    "badvaddr": _S.badvaddr,
    "pc": _S.pc,
    **{f"f{n}": _S.fpr + 16 * n for n in range(32)},
}
_SHORT = {"status": _S.status, "cause": _S.cause, "fcsr": _S.fcr31}
_U32 = 0xFFFF_FFFF
_STUB = LITTLE_64.struct("III")  # lui t8, HIGH; j to the gate; ori t8, t8, LOW
_LUI_T8, _ORI_T8, _J, _J_BITS = 0x3C18_0000, 0x3718_0000, 2 << 26, 26
_SEGMENT_BITS = 29  # below those that tell what is not mapped
_HANDLERS, _HANDLERS_SIZE = 0x1FFF_F000, 0x100  # bits of EBase
_LUI_K1, _ADDIU_K1, _B = 0x3C1B, 0x277B, 0x1000
# bytes behind struct pt_regs at the end of a stack
_BEHIND_REGS = 32
# what a sleeping task has left.  Kernel: struct thread_struct
_SAVED = *range(16, 24), 29, 30, 31
# errors of files by x86-64's numbers; agent/errors_mips.h has all, the other way round
_ERRORS = {
    errno.EDEADLK: 45, errno.ENOLCK: 46, errno.EBADMSG: 77, errno.ENAMETOOLONG: 78,
    errno.EOVERFLOW: 79, errno.EILSEQ: 88, errno.ENOSYS: 89, errno.ELOOP: 90,
    errno.ENOTEMPTY: 93, errno.EOPNOTSUPP: 122, errno.EUCLEAN: 135,
    errno.EREMOTEIO: 140, errno.ETIMEDOUT: 145, errno.ESTALE: 151,
    errno.ECANCELED: 158, errno.EDQUOT: 1133,
}  # fmt: skip
# O_CREAT, O_EXCL, O_NOCTTY, O_APPEND, O_NONBLOCK, O_DSYNC, FASYNC, O_DIRECT,
# O_LARGEFILE, O_SYNC: x86-64's and mips's
_OPEN_FLAGS = (
    *((0x40, 0x100), (0x80, 0x400), (0x100, 0x800), (0x400, 8), (0x800, 0x80)),
    *((0x1000, 0x10), (0x2000, 0x1000), (0x4000, 0x8000), (0x8000, 0x2000)),
    (0x10_0000, 0x4000),
)
# MAP_ANONYMOUS, and the others from MAP_GROWSDOWN to MAP_HUGETLB
_MAP_FLAGS = (
    *((0x20, 0x800), (0x100, 0x1000), (0x800, 0x2000), (0x1000, 0x4000)),
    *((0x2000, 0x8000), (0x4000, 0x400), (0x8000, 0x1_0000), (0x1_0000, 0x2_0000)),
    *((0x2_0000, 0x4_0000), (0x4_0000, 0x8_0000)),
)
# signals by x86-64's numbers, where they are others; 16 is none
_SIGNALS = {
    7: 10, 10: 16, 12: 17, 17: 18, 18: 25, 19: 23, 20: 24, 21: 26, 22: 27, 23: 21,
    24: 30, 25: 31, 26: 28, 27: 29, 28: 20, 29: 22, 30: 19, 31: 12,
}  # fmt: skip
_SIGNAL_SET = 16  # bytes
_LIMITS = {5: 7, 6: 8, 7: 5, 8: 9, 9: 6}  # RLIMIT_RSS, NPROC, NOFILE, MEMLOCK, AS
_SOCKET_TYPES = {1: 2, 2: 1}  # SOCK_STREAM, SOCK_DGRAM
_SOCKET_TYPE = 15
_FCNTL = {5: 14, 8: 24, 9: 23}  # F_GETLK, F_SETOWN, F_GETOWN
_REQUESTS = {
    termios.TCGETS: 0x540D, termios.TCSETS: 0x540E, termios.TCSETSW: 0x540F,
    termios.TCSETSF: 0x5410, termios.TCFLSH: 0x5407, termios.TCXONC: 0x5406,
    termios.TCSBRK: 0x5405, termios.TIOCGWINSZ: 0x4008_7468,
    termios.TIOCSWINSZ: 0x8008_7467, termios.TIOCSPGRP: 0x8004_7476,
    termios.TIOCGPGRP: 0x4004_7477, termios.TIOCSCTTY: 0x5480,
    termios.TIOCNOTTY: 0x5471, termios.FIONREAD: 0x467F, termios.FIONBIO: 0x667E,
    termios.FIOCLEX: 0x6601, termios.FIONCLEX: 0x6602, termios.TIOCOUTQ: 0x7472,
    0x5441: 0x2000_5441,  # TIOCGPTPEER
}  # fmt: skip
# TOSTOP, FLUSHO, IEXTEN
_LOCAL_FLAGS = (0x100, 0x8000), (0x1000, 0x2000), (0x8000, 0x100)
_NONE = 19  # behind x86-64's characters
# by mips's places: x86-64's of the special characters
_CHARACTERS = 0, 1, 2, 3, 6, 5, 16, 7, 8, 9, 10, _NONE, 12, 13, 14, 15, 4, 11


def _signal(number: int) -> int:
    return _SIGNALS.get(number, number)


def _socket_type(number: int) -> int:
    kind = number & _SOCKET_TYPE
    return moved(number & ~_SOCKET_TYPE, _OPEN_FLAGS) | _SOCKET_TYPES.get(kind, kind)


def _fcntl(fd: Any, command: Any, *rest: Any) -> Args:
    if command == nr.F_SETFL and isinstance(rest[0], int):
        rest = (moved(rest[0], _OPEN_FLAGS),)
    return fd, _FCNTL.get(command, command), *rest


def _wider(argument: Any) -> Any:
    """Return a set of signals as mips has it, with room for 128."""
    if isinstance(argument, bytes) and len(argument) == _SIGNAL_SET // 2:
        return argument.ljust(_SIGNAL_SET, b"\0")
    return argument


_CALLS = ChangedCalls(
    *(call_numbers("mips64"), _REQUESTS),
    Terminal(((), (), (), _LOCAL_FLAGS), _CHARACTERS, 23),
    _OPEN_FLAGS,
    {
        nr.MMAP: [(3, lambda flags: moved(flags, _MAP_FLAGS))],
        nr.KILL: [(1, _signal)],
        nr.PRLIMIT64: [(1, lambda number: _LIMITS.get(number, number))],
        nr.TGKILL: [(2, _signal)],
        nr.RT_SIGACTION: [(0, _signal), (3, lambda _size: _SIGNAL_SET)],
        nr.RT_SIGTIMEDWAIT: [(3, lambda _size: _SIGNAL_SET)],
        nr.PPOLL: [(4, lambda _size: _SIGNAL_SET)],
        nr.EPOLL_PWAIT: [(5, lambda _size: _SIGNAL_SET)],
        nr.SOCKET: [(1, _socket_type)],
        nr.SOCKETPAIR: [(1, _socket_type)],
    },
    {
        nr.FCNTL: _fcntl,
        nr.RT_SIGACTION: lambda *args: tuple(map(_wider, args)),
        nr.RT_SIGTIMEDWAIT: lambda *args: tuple(map(_wider, args)),
    },
)


class LinuxMips64(StateArch):
    name = "mips64"
    state, more, places = STATE, _TLB, _PLACES
    registers: ClassVar = {name: GPR[name] for name in GPR if name != "r0"}
    engine_place = _S.engine
    engine, cpu_model = (3, 8), 7  # UC_ARCH_MIPS, UC_MODE_MIPS64; a 5KEf
    exported_as = "mips64el"
    load_here = b"\x00\x00\x02\x8c"  # lw v0, 0(zero)
    arguments = GPR["r4"], GPR["r5"], GPR["r6"]
    fourth_argument = GPR["r7"]
    result, stack_pointer = GPR["r2"], GPR["r29"]
    counter = COUNTER
    link = GPR["r31"]
    syscall_arguments = 32, 40, 48, 56  # pt_regs.regs[4] to [7]
    stub_size, stub_register = _STUB.size, GPR["r24"]
    gate = b"\x08\x00\xe0\x03"  # jr ra
    cpu_fields: ClassVar = placed(abi.Cpu.own, abi.Mips64Cpu, "tlb")
    board_fields: ClassVar = placed(abi.Board.devices, abi.Mips64Devices, "fetches")
    translates = True
    native, open_flags = _CALLS.native, _CALLS.open_flags
    errors: ClassVar = _ERRORS
    signals: ClassVar = {theirs: ours for ours, theirs in _SIGNALS.items()}
    syscall_prefix, first_call = "sys_", 5000
    elf_machine = EM_MIPS
    page_offset = 0x9800_0000_0000_0000  # CAC_BASE
    region_base, region_phys = abi.REGION_LOWEST, abi.REGION_PHYS_32
    max_ram = abi.REGION_PHYS_32
    regs_size = 304
    switch_fields: ClassVar = {
        f"thread.reg{n}": 8 * (at - _SAVED.index(29)) for at, n in enumerate(_SAVED)
    }
    shown = (*_PLACES, *_SHORT)
    breakpoint_size, ftrace_nop = 4, b"\x00\x00\x00\x00"
    pauses = ()

    def stub(self, at: int, gate: int) -> bytes:
        high, low = at >> 16 & 0xFFFF, at & 0xFFFF
        jump = _J | gate >> 2 & (1 << _J_BITS) - 1
        return _STUB.pack(_LUI_T8 | high, jump, _ORI_T8 | low)

    def called_with(self, engine: Engine, memory: ReadWord) -> int:
        return engine.read_reg(GPR["r4"])  # no struct pt_regs

    def regs_room(self, size: int) -> int:
        return size + _BEHIND_REGS

    @staticmethod
    def more_at(state: int) -> int:
        return word(state + _S.tlb).value + abi.MIPS64_TLB_ENTRIES

    def debugged(self, engine: Engine, name: str) -> int:
        if name in _SHORT:
            return word(address_of(engine) + _SHORT[name]).value & _U32
        return super().debugged(engine, name)

    def asleep(self, field: FieldAddress, memory: ReadWord) -> dict[str, int]:
        found = {f"r{n}": memory.word(field(f"thread.reg{n}")) for n in _SAVED}
        return found | {"pc": found["r31"]}

    def learn(self, engine: Engine, ram: Readable) -> Mapping[str, int]:
        """Find the kernel's table in its code for addresses that the TLB lacks.

        Kernel: build_get_pgd_vmalloc64()
        """
        base = word(address_of(engine) + _S.ebase).value & _HANDLERS
        code = LITTLE_64.array("I", ram[base : base + _HANDLERS_SIZE])
        for insn, behind, last in zip(code, code[1:], code[2:], strict=False):
            # without a low half it is a branch's delay slot
            halves = insn, last if behind >> 16 == _B else _ADDIU_K1 << 16
            if [half >> 16 for half in halves] == [_LUI_K1, _ADDIU_K1]:
                high, low = (half & 0xFFFF for half in halves)
                table = (high << 16) + low - (low << 1 & 0x1_0000)
                return {"kernel_table": table & (1 << _SEGMENT_BITS) - 1}
        return {}
