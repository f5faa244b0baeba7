# SPDX-License-Identifier: GPL-2.0-or-later
"""The properties of architectures that a search must know, beside their C."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from kpfs.base import abi
from kpfs.base.data_model import LITTLE_64

_FLAGS_OF_SECTION = 63

if TYPE_CHECKING:
    from kpfs.linux.memory.memory import KernelMemory
    from kpfs.linux.memory.symbols import CoreSymbols
    from kpfs.linux.running.kernel_on_board import KernelOnBoard


class SearchedArch(ABC):
    """An architecture whose instructions are looked at."""

    longest_call: ClassVar[int]  # bytes
    outermost: ClassVar[tuple[str, ...]]  # begin what a stack's words return to last
    has_link: ClassVar[bool]  # a stack begins with the register that calls leave
    landing: ClassVar[bytes]  # where an indirect branch may land; b"": is not looked at
    no_landing: ClassVar[str]  # why a kernel's branches are not looked at

    @abstractmethod
    def is_call(self, code: bytes) -> bool:
        """Return True if code, of longest_call bytes, ends with a call."""

    @abstractmethod
    def places(self, kernel: KernelOnBoard) -> dict[str, int]:
        """Return words of struct texts: where the kernel keeps what lookers ask for."""

    @abstractmethod
    def pages(self, kernel: KernelOnBoard) -> int:
        """Return the address of the kernel's array of struct page."""


class _SearchedX86(SearchedArch):
    longest_call = 7  # an indirect one
    outermost = "do_syscall_64+", "ret_from_fork+", "kthread+", "asm_"
    has_link = False
    landing = bytes.fromhex("f30f1efa")  # endbr64
    no_landing = "this kernel is built without CONFIG_X86_KERNEL_IBT"
    _call, _call_size, _indirect = 0xE8, 5, 0xFF
    _canary = 0x28  # its place in a processor's data, before Linux 6.15

    def is_call(self, code: bytes) -> bool:
        return code[-self._call_size] == self._call or any(
            code[at] == self._indirect and code[at + 1] >> 3 & 7 == 2
            for at in range(self.longest_call - 1)
        )

    def places(self, kernel: KernelOnBoard) -> dict[str, int]:
        symbols = kernel.symbols
        hot, layout = symbols.address("pcpu_hot"), kernel.structures["pcpu_hot"]
        if layout.has("current_task"):
            current = hot + layout.at["current_task"]
            preempt = hot + layout.at["preempt_count"]
        else:
            current = symbols.address("current_task")
            preempt = symbols.address("__preempt_count")
        base = symbols.address("page_offset_base")
        return {
            "current": current,
            "count_of_preempt": preempt,
            "canary": symbols.address("__stack_chk_guard") or self._canary,
            "direct": kernel.memory.word(base) if base else 0,
        }

    def pages(self, kernel: KernelOnBoard) -> int:
        return kernel.memory.word(kernel.symbols.address("vmemmap_base"))


class _SearchedArm64(SearchedArch):
    longest_call = 4
    outermost = "invoke_syscall+", "ret_from_fork+", "kthread+", "el1h_64_", "el0t_64_"
    has_link = True
    landing = b""
    no_landing = "branches are looked at on x86-64 alone"
    _direct = 0xFFFF << 48  # all memory, in kernels for addresses of 48 bits

    def is_call(self, code: bytes) -> bool:
        word = LITTLE_64.number(code)
        return word >> 26 == 0x25 or word & 0xFFFF_FC1F == 0xD63F_0000  # bl, blr

    def places(self, kernel: KernelOnBoard) -> dict[str, int]:
        symbols, task = kernel.symbols, kernel.structures["task_struct"].at
        text, board = symbols.address("_stext"), kernel.machine.board
        at = board.translate(text)
        is_direct = board.translate(self._direct + at) == at
        return {
            "count_of_preempt": task.get("thread_info.preempt_count", abi.NEVER),
            "canary": task.get("stack_canary", abi.NEVER),
            "direct": self._direct if is_direct else 0,
            "kernel": text,
            "kernel_size": symbols.address("_etext") - text,
        }

    def pages(self, kernel: KernelOnBoard) -> int:
        return pages_of_section(kernel.memory, kernel.symbols)


def pages_of_section(memory: KernelMemory, symbols: CoreSymbols) -> int:
    """Return mem_section[0][0].section_mem_map, the first section's, without flags."""
    at = symbols.address("mem_section")
    for _ in range(3):
        at = memory.word(at)
    return at & ~_FLAGS_OF_SECTION


ARCHES: dict[str, SearchedArch] = {"x86": _SearchedX86(), "arm64": _SearchedArm64()}
