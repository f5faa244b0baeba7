# SPDX-License-Identifier: GPL-2.0-or-later
"""Stack traces for guest code: stack_trace_save() and what prints them.

A return address that a return probe has replaced is shown as the one that it replaced,
as Linux does.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice

from kpfs.base import abi, elf
from kpfs.base.errors import MemoryFault
from kpfs.guest.emu.cpu import Cpu
from kpfs.guest.emu.memory import Memory
from kpfs.guest.loader.engine import EngineArea, RuntimeImage
from kpfs.guest.loader.kallsyms import TEXT, Kallsyms
from kpfs.guest.loader.modules import Modules
from kpfs.guest.loader.objects import LoadedObject
from kpfs.guest.running.tasks import TaskTable
from kpfs.guest.running.unwind import MAX_DEPTH, PT_REGS_WORDS, RA, RBP, RSP, Unwinder

_ARGS = abi.KpfsStackTrace.STRUCT
TRAMPOLINE = "arch_rethook_trampoline"
# entered from detour buffers, where a stack trace ends on Linux
DETOUR = "kp_entry_opt", "kp_entry_opt_end"
ENTRY = "entry_SYSCALL_64_after_hwframe"  # a system call's entry, where a trace ends
_NODE = abi.KpRethookNode.STRUCT
_SKIP = 2  # kpfs_control() and its caller


class Backtrace:
    """Serves stack traces.  Context: control."""

    def __init__(
        self,
        memory: Memory,
        cpu: Cpu,
        kernel: elf.ElfFile,
        modules: Modules,
        tasks: TaskTable,
        *,
        kallsyms: Kallsyms,
        area: EngineArea,
        runtime: RuntimeImage,
    ) -> None:
        """area, runtime: the memory and the code that the engine has in the guest."""
        self._memory = memory
        self._cpu = cpu
        self._modules = modules
        self._tasks = tasks
        self._kallsyms = kallsyms
        self._area = area
        self._runtime = runtime
        self._known: tuple[list[tuple[int, bytes]], list[range]] | None = None
        section = kernel.section(".eh_frame")
        self._kernel = (
            None if section is None else (section.addr, kernel.contents(section))
        )
        self._unwinder = Unwinder(
            memory,
            self._sections,
            is_regs_frame=self._is_regs_frame,
            real_return=self._real_return,
        )

    def serve(self, _number: int, first: int, _second: int) -> int:
        """Fill the struct kpfs_stack_trace at first; returns how many addresses."""
        raw = self._memory.read(first, _ARGS.size)
        store, size, skip, regs, unsure = _ARGS.unpack(raw)
        if regs:
            start = self._unwinder.from_pt_regs(regs)
        else:
            start = {reg: self._cpu.read_reg(n) for reg, n in PT_REGS_WORDS.items()}
            skip += _SKIP
        limit = min(skip + size, MAX_DEPTH)
        if unsure:
            rows = list(islice(self._shown(start, skip, bool(regs)), size))
            mask = sum(1 << n for n, (_, sure) in enumerate(rows) if not sure)
            self._memory.write_u64(unsure, mask)
            found = [address for address, _ in rows]
        else:
            found = self._unwinder.trace(start, limit)[skip:]
        self._memory.write(store, struct.pack(f"<{len(found)}Q", *found))
        return len(found)

    def _shown(
        self, start: dict[int, int], skip: int, of_trap: bool
    ) -> Iterator[tuple[int, bool]]:
        """Yield the addresses of text on a stack; False: no frame has it there.

        Kernel: show_trace_log_lvl()
        """
        frames = list(islice(self._unwinder.frames(start), MAX_DEPTH))
        places = [slot for _, slot in frames]
        sp = start[RSP]
        if not of_trap and len(frames) > skip:
            sp = places[skip]
        while sp:
            sp &= ~7
            size = abi.STACK_STRIDE - (sp - abi.STACK_BASE) % abi.STACK_STRIDE
            try:
                words = struct.unpack(f"<{size // 8}Q", self._memory.read(sp, size))
            except MemoryFault:  # no stack of the kernel's
                rows = frames[max(skip, 1) :]
                yield from ((address, True) for address, slot in rows if slot >= sp)
                return
            for slot, word in zip(range(sp, sp + size, 8), words, strict=True):
                symbol = self._kallsyms.symbol_at(word) if word >> 63 else None
                if symbol is None or symbol.type not in TEXT:
                    continue
                yield word, slot in places
                if sp <= places[-1] <= slot and symbol.name == ENTRY:
                    return
            # handlers have a stack of their own: go on where it was left
            here = [n for n, slot in enumerate(places) if sp <= slot < sp + size]
            sp = next(iter(places[max(here, default=len(places)) + 1 :]), 0)

    def trace(self, ip: int, sp: int, bp: int, limit: int) -> list[int]:
        """List ip and its callers, for a task of this CPU with these registers."""
        start = {RSP: sp, RBP: bp, RA: ip}
        return self._unwinder.trace(start, min(limit, MAX_DEPTH))

    def _sections(self) -> Iterator[tuple[int, bytes]]:
        if self._kernel is not None:
            yield self._kernel
        runtime = self._runtime.loaded
        if runtime is not None:
            yield from self._of_runtime(runtime)[0]
        for module in self._modules:
            if module.eh_frame is not None:
                yield module.eh_frame

    def _of_runtime(
        self, runtime: LoadedObject
    ) -> tuple[list[tuple[int, bytes]], list[range]]:
        """Return (the runtime's .eh_frame, where its text lies)."""
        if self._known is None:
            frames, text = [], []
            for index, place in runtime.places.items():
                section = runtime.image.sections[index]
                if section.flags & elf.SHF_EXECINSTR:
                    text.append(range(place, place + section.size))
                elif section.name == ".eh_frame":
                    frames.append((place, self._memory.read(place, section.size)))
            self._known = frames, text
        return self._known

    def _is_regs_frame(self, pc: int) -> bool:
        runtime = self._runtime.loaded
        if any(pc in r for r in self._area.regs_frames):
            return True
        if runtime is not None and any(pc in r for r in self._of_runtime(runtime)[1]):
            detour, end = (runtime.symbols[name] for name in DETOUR)
            return not detour <= pc < end
        symbol = self._kallsyms.symbol_at(pc)
        return symbol is not None and symbol.name.startswith("asm_")

    def _real_return(self, addr: int, slot: int) -> int:
        """Kernel: unwind_recover_ret_addr(), rethook_find_ret_addr()"""
        runtime = self._runtime.loaded
        if runtime is None or addr != runtime.symbols.get(TRAMPOLINE):
            return addr
        task = self._tasks.current(self._cpu.active).addr
        node = self._memory.read_u64(task + self._tasks.info.task_rethooks)
        while node:
            following, _, ret_addr, frame, *_ = _NODE.unpack(
                self._memory.read(node, _NODE.size)
            )
            if frame == slot and ret_addr != addr:
                return int(ret_addr)
            node = following
        return addr
