# SPDX-License-Identifier: GPL-2.0-or-later
"""The emulated CPU's registers where libunicorn keeps them.

A library call through ctypes costs more than all else that happens at a breakpoint.
The general registers and RIP lie in the CPU's state, in one piece: looked for at the
place where unicorn 2.1.4 has it, and believed only if two sets of values written
through the library are seen there.  Else there is no window, and the library is called.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable, Sequence

from kpfs.base import abi
from kpfs.emulator.libunicorn import in_processor

# where the words of struct pt_regs are in the window; -1: not there
WINDOW_OF_PT_REGS = (
    15, 14, 13, 12, 5, 3, 11, 10, 9, 8, 0, 1, 2, 6, 7,
    -1, 16, -1, -1, 4, -1,
)  # fmt: skip
NR_WINDOW = 17  # rax rcx rdx rbx rsp rbp rsi rdi r8 to r15 rip
WINDOW_SP, WINDOW_IP = 4, 16
WINDOW = struct.Struct(f"<{NR_WINDOW}Q")
_POINTER = struct.Struct("<Q")


def find_window(
    engine: int, write: Callable[[Sequence[int]], None]
) -> memoryview | None:
    """Return the registers as 64-bit words; ``write`` sets all of them by the library.

    Memory is read through /proc, where a wrong address is an error and no crash.
    """
    try:
        fd = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _find(fd, engine, write)
    except (OSError, OverflowError, struct.error):
        return None
    finally:
        os.close(fd)


def _find(
    fd: int, engine: int, write: Callable[[Sequence[int]], None]
) -> memoryview | None:
    address = 0
    for seed in (0x5EED_0000_1234_0000, 0x1DEA_7777_0000_0000):
        values = [seed + number for number in range(NR_WINDOW)]
        write(values)  # the first one makes the engine build its CPU
        if not address:
            address = engine
            for offset in (abi.ENGINE_PROCESSOR, in_processor(abi.PROCESSOR_STATE)):
                raw = os.pread(fd, _POINTER.size, address + offset)
                address = _POINTER.unpack(raw)[0]
        if WINDOW.unpack(os.pread(fd, WINDOW.size, address)) != tuple(values):
            return None
    words = (ctypes.c_uint64 * NR_WINDOW).from_address(address)
    return memoryview(words).cast("B").cast("Q")
