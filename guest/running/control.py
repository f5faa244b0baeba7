# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls by which guest code asks Python for something; the guest waits (HC_API).

The call's number and arguments are in the CPU's struct kpfs_pcpu, the result goes
there; guest/include/kpfs/control.h has the numbers.  A handler runs in control context,
in the middle of whatever the calling task does, and must not run guest code itself.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Iterable

from kpfs.base import abi
from kpfs.base.errors import KernelError, MemoryFault
from kpfs.base.ktypes import MASK64
from kpfs.base.log import Log
from kpfs.guest.emu.memory import Memory
from kpfs.guest.running.tasks import GuestInfo

log = Log(__name__)

# (number, first argument, second argument) -> result, signed or unsigned
ControlHandler = Callable[[int, int, int], int]
_WORDS = struct.Struct("<3Q")
_U64 = struct.Struct("<Q")


class Control:
    """Serves these calls, each number by its handler."""

    def __init__(self, memory: Memory, info: GuestInfo, nr_cpus: int) -> None:
        self._ram = memory.ram
        self._words = [
            memory.translate(info.percpu_base + n * info.percpu_size, abi.KpfsPcpu.SIZE)
            + abi.KpfsPcpu.api
            for n in range(nr_cpus)
        ]
        self._handlers: dict[int, ControlHandler] = {}
        self._rest: ControlHandler = lambda *_: -errno.ENOSYS

    def register(self, numbers: Iterable[int], handler: ControlHandler) -> None:
        """Make handler serve these numbers from now on."""
        self._handlers.update(dict.fromkeys(numbers, handler))

    def attach(self, handler: ControlHandler) -> None:
        """Make handler serve all numbers that are not registered."""
        self._rest = handler

    def serve(self, cpu: int) -> None:
        """Serve the call of a CPU that stands at HC_API.  Context: control."""
        at = self._words[cpu]
        number, first, second = _WORDS.unpack_from(self._ram, at)
        handler = self._handlers.get(number, self._rest)
        result = self._call(handler, number, first, second)
        _U64.pack_into(self._ram, at, result & MASK64)

    @staticmethod
    def _call(handler: ControlHandler, number: int, first: int, second: int) -> int:
        try:
            return handler(number, first, second)
        except KernelError as exc:
            log.debug("control call %#x: %s", number, exc)
            return -exc.errno
        except MemoryFault as exc:
            log.debug("control call %#x: %s", number, exc)
            return -errno.EFAULT
        except Exception:
            log.exception("control call %#x failed", number)
            return -errno.EIO
