# SPDX-License-Identifier: GPL-2.0-or-later
"""Registers of the CPU that is loaded into an engine, by libunicorn or by a window.

We read RFLAGS, never EFLAGS, which fills only half of the word.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Callable, Sequence
from mmap import mmap

from kpfs.base import abi
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import MASK64
from kpfs.base.x86 import X86_EFLAGS_FIXED, X86_EFLAGS_IF, X86_EFLAGS_TF
from kpfs.emulator.libunicorn import EmulatorError, check, load
from kpfs.emulator.registers import EngineRegisters
from kpfs.emulator.regwindow import (
    NR_WINDOW,
    WINDOW_IP,
    WINDOW_OF_PT_REGS,
    WINDOW_SP,
    find_window,
)
from kpfs.emulator.x86_registers import MSR
from kpfs.guest.emu.memory import Memory

# UC_X86_REG_* in the order of struct pt_regs; 0: no register, a constant
_CS, _RIP, _RSP, _RFLAGS = 11, 41, 44, 253
_PT_REGS = (
    113, 112, 111, 110, 36, 37, 109, 108, 107, 106, 35, 38, 40, 43, 39,
    0, _RIP, 0, _RFLAGS, _RSP, 0,
)  # fmt: skip
REG_SI, REG_DI = abi.PtRegs.si // 8, abi.PtRegs.di // 8
REG_ORIG_AX, REG_IP = abi.PtRegs.orig_ax // 8, abi.PtRegs.ip // 8
REG_CS, REG_FLAGS = abi.PtRegs.cs // 8, abi.PtRegs.flags // 8
REG_SP, REG_SS = abi.PtRegs.sp // 8, abi.PtRegs.ss // 8
_CR0, _CR2, _CR3, _CR4 = 50, 52, 53, 54
_GDTR = 243
_SEGMENTS = (17, 28, 49)  # ds es ss
_MSR_EFER = 0xC000_0080
_EFER = 0xD01  # SCE LME LMA NXE
_EFER_LMA = 0x400
_CR0_PG = 0x8000_0000
_CR0_VALUE = 0x8005_0033  # PE MP ET NE WP AM PG
_CR4_VALUE = 0xB0  # PSE PAE PGE

# Segment descriptors; iretq checks them.
_GDT = (
    0, 0, 0x00AF_9B00_0000_FFFF, 0x00CF_9300_0000_FFFF,
    0, 0x00CF_F300_0000_FFFF, 0x00AF_FB00_0000_FFFF,
)  # fmt: skip
FRAME = struct.Struct("<5Q")  # ip cs flags sp ss
_MMR = struct.Struct("<H6xQ2I")  # uc_x86_mmr: selector, base, limit, flags
_MSR_VALUE = struct.Struct("<I4xQ")  # uc_x86_msr: number, value


class Gone:
    """Stand-in for the library of a closed engine, which would use freed memory."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        raise KernelError(errno.ESHUTDOWN, f"{name}(): the guest is gone")


class CpuRegisters:
    """The registers of struct pt_regs, and those that the kernel never changes."""

    def __init__(self, engine: int) -> None:
        self._py: ctypes.PyDLL | Gone = load()[0]
        self._uc = ctypes.c_void_p(engine)
        self.ip = ctypes.c_uint64()  # where a run is to begin: see load_ip()
        self._ip_ref = ctypes.byref(self.ip)
        self._word = ctypes.c_uint64()
        self._word_ref = ctypes.byref(self._word)
        self._ids = [ctypes.c_int(reg) for reg in _PT_REGS]
        self._rip_id = ctypes.c_int(_RIP)
        self._flags_id = ctypes.c_int(_RFLAGS)
        self._regs = (ctypes.c_uint64 * 21)()
        base = ctypes.addressof(self._regs)
        self._regs[REG_ORIG_AX] = MASK64
        self._regs[REG_CS], self._regs[REG_SS] = abi.CS, abi.DS
        self._all = self._batch([i for i, reg in enumerate(_PT_REGS) if reg], base)
        self.window = find_window(engine, self._write_window)
        self.read_all = self._make_read_all()

    def close(self) -> None:
        """Have the library refuse: the engine is about to be freed."""
        self._py = Gone()

    def _batch(
        self, indices: Sequence[int], base: int
    ) -> tuple[object, object, ctypes.c_int]:
        count = len(indices)
        ids = (ctypes.c_int * count)(*(_PT_REGS[i] for i in indices))
        refs = (ctypes.c_void_p * count)(*(base + 8 * i for i in indices))
        return ids, refs, ctypes.c_int(count)

    def set_up(self, ram: mmap, gdt: int, cr3: int) -> None:
        """Clear all, and turn on paging and 64 bits.

        ram: physical memory.  gdt: the page there for descriptors.
        """
        self._write_window([0] * NR_WINDOW)
        struct.pack_into(f"<{len(_GDT)}Q", ram, gdt, *_GDT)
        efer = _MSR_VALUE.pack(_MSR_EFER, _EFER)
        check(self._py.uc_reg_write(self._uc, MSR, efer))
        self._write(_CR4, _CR4_VALUE)
        self._write(_CR3, cr3)
        self._write(_CR0, _CR0_VALUE)
        gdtr = _MMR.pack(0, abi.DIRECT_MAP + gdt, 8 * len(_GDT) - 1, 0)
        check(self._py.uc_reg_write(self._uc, _GDTR, gdtr))
        for segment in _SEGMENTS:
            self._write(segment, abi.DS)
        self._write(_CS, abi.CS)
        self._write(_RFLAGS, X86_EFLAGS_FIXED)

    def _make_read_all(self) -> Callable[[], tuple[int, ...]]:
        """Make read_all(): a closure is fast, and a window would lack the flags."""
        read_batch, uc = self._py.uc_reg_read_batch, self._uc
        regs, unpack = self._regs, abi.PtRegs.STRUCT.unpack
        ids, refs, count = self._all

        def read_all() -> tuple[int, ...]:
            """Return all 21 words of struct pt_regs; orig_ax reads -1."""
            read_batch(uc, ids, refs, count)
            return unpack(regs)

        return read_all

    def _write_window(self, values: Sequence[int]) -> None:
        """Set the words of a register window by the library.  Context: control."""
        for index, at in enumerate(WINDOW_OF_PT_REGS):
            if at >= 0:
                self._write(_PT_REGS[index], values[at])

    def _write(self, reg: int, value: int) -> None:
        self._word.value = value
        self._py.uc_reg_write(self._uc, reg, self._word_ref)

    def write_all(self, values: Sequence[int]) -> None:
        """Set all words of struct pt_regs but orig_ax, cs and ss."""
        abi.PtRegs.STRUCT.pack_into(self._regs, 0, *values)
        self._py.uc_reg_write_batch(self._uc, *self._all)
        self._regs[REG_ORIG_AX] = MASK64
        self._regs[REG_CS], self._regs[REG_SS] = abi.CS, abi.DS

    def read(self, index: int) -> int:
        """Return one word of struct pt_regs."""
        window, at = self.window, WINDOW_OF_PT_REGS[index]
        if window is not None and at >= 0:
            return window[at]
        if not _PT_REGS[index]:
            return self._regs[index]
        self._py.uc_reg_read(self._uc, self._ids[index], self._word_ref)
        return self._word.value

    def write(self, index: int, value: int) -> None:
        window, at = self.window, WINDOW_OF_PT_REGS[index]
        if window is not None and at >= 0 and at != WINDOW_IP:
            window[at] = value & MASK64
        elif _PT_REGS[index]:
            self._word.value = value
            self._py.uc_reg_write(self._uc, self._ids[index], self._word_ref)

    def load_ip(self) -> None:
        """Note where the CPU stands, in ``ip``."""
        if self.window is not None:
            self.ip.value = self.window[WINDOW_IP]
        else:
            self._py.uc_reg_read(self._uc, self._rip_id, self._ip_ref)

    def jump(self, to: int) -> None:
        """Go on elsewhere, in the hook of a trap."""
        self.ip.value = to
        self._py.uc_reg_write(self._uc, self._rip_id, self._ip_ref)

    def every(self) -> EngineRegisters:
        """Return all registers, as debuggers need them."""
        return EngineRegisters(self._py, self._uc)

    def fault_address(self) -> int:
        """Return CR2."""
        self._py.uc_reg_read(self._uc, _CR2, self._word_ref)
        return self._word.value

    def set_fault_address(self, addr: int) -> None:
        self._write(_CR2, addr)

    def interrupt(self, memory: Memory, entry: int) -> bool:
        """Interrupt the CPU; return False if IF is clear.  Context: control."""
        window, word = self.window, self._word
        self._py.uc_reg_read(self._uc, self._flags_id, self._word_ref)
        flags = word.value
        if not flags & X86_EFLAGS_IF:
            return False
        if window is None:
            ip, sp = self.read(REG_IP), self.read(REG_SP)
        else:
            ip, sp = window[WINDOW_IP], window[WINDOW_SP]
        top = (sp & ~15) - 40
        at = memory.translate(top, 40)
        FRAME.pack_into(memory.ram, at, ip, abi.CS, flags, sp, abi.DS)
        if window is None:
            self.write(REG_IP, entry)
            self.write(REG_SP, top)
        else:
            window[WINDOW_IP] = entry  # run() begins there
            window[WINDOW_SP] = top
        word.value = flags & ~(X86_EFLAGS_IF | X86_EFLAGS_TF)
        self._py.uc_reg_write(self._uc, self._flags_id, self._word_ref)
        return True

    def check_mode(self, cpu: int) -> None:
        """Raise EmulatorError if the CPU has left the mode that the kernel runs in.

        It executes whatever is in memory then. Only modules bring it there.
        cpu: its number.
        """
        registers = self.every()
        raw = registers.read_raw(MSR, _MSR_VALUE.pack(_MSR_EFER, 0))
        _, efer = _MSR_VALUE.unpack(raw)
        if not (registers.read_reg(_CR0) & _CR0_PG and efer & _EFER_LMA):
            where = f"CPU {cpu} at {self.read(REG_IP):#x}"
            raise EmulatorError(f"paging or 64-bit mode was left on {where}")
