# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls of x86-64 as ppc64 has them: other numbers, flags and requests.

Kernel: arch/powerpc/kernel/syscalls/syscall.tbl, include/uapi/asm in arch/powerpc
"""

from __future__ import annotations

import termios

from kpfs.base import syscall_numbers as nr
from kpfs.linux.arch.arch import Args
from kpfs.linux.arch.call_numbers import call_numbers
from kpfs.linux.arch.changed import ChangedCalls, Terminal, moved

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
_TERMINAL = Terminal(_TERMINAL_FLAGS, _CHARACTERS, 19, 38400)
_MAP_FLAGS = (0x2000, 0x80), (0x4000, 0x40)  # MAP_LOCKED, MAP_NORESERVE


_CALLS = ChangedCalls(
    call_numbers("ppc64"),
    _REQUESTS,
    _TERMINAL,
    _OPEN_FLAGS,
    {nr.MMAP: [(3, lambda flags: moved(flags, _MAP_FLAGS))]},
)
open_flags, request, terminal = _CALLS.open_flags, _CALLS.request, _TERMINAL.of


def ppc64_call(number: int, args: Args) -> tuple[int, Args]:
    """Return a call of x86-64 as ppc64 has it."""
    if number == nr.SYNC_FILE_RANGE:  # sync_file_range2()
        fd, at, size, flags = args
        args = fd, flags, at, size
    return _CALLS.native(number, args)
