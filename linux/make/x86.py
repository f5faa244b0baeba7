# SPDX-License-Identifier: GPL-2.0-or-later
"""Lays out what a kernel for x86-64 finds in memory: itself and its tables.

Kernel: Documentation/arch/x86/boot.rst (64-bit boot protocol), the ACPI specification.
"""

from __future__ import annotations

import mmap

from kpfs.base import abi
from kpfs.base.data_model import LITTLE_64
from kpfs.base.elf import ElfFile
from kpfs.base.errors import KernelError
from kpfs.base.units import LARGE_PAGE
from kpfs.emulator import x86_registers
from kpfs.linux.arch import x86
from kpfs.linux.board.board import Board
from kpfs.linux.errors import UnfitError
from kpfs.linux.package.bzimage import BzImage

GDT, PML4, STACK = 0x1000, 0x2000, 0x9000
_PDPT, _PD = 0x3000, 0x4000
BOOT_PARAMS, _CMDLINE = 0x10000, 0x20000
_ACPI = 0xF0000
_MAX_CMDLINE = 2048
CMDLINE = (
    "nokaslr nopti mitigations=off tsc=reliable clocksource=tsc "
    "tsc_early_khz=1000000 no_timer_check nowatchdog cryptomgr.notests lsm= psi=0 "
    "init_on_alloc=0 random.trust_bootloader=off rcupdate.rcu_cpu_stall_suppress=1 "
    "rdinit=/init quiet loglevel=1"
)
VERBOSE = " earlyprintk=serial,ttyS0,keep loglevel=7"
_EFER = 0x501  # SCE LME LMA
_CR0, _CR4 = 0x8000_0011, 0x20  # PE ET PG, PAE
_FIXED_FLAGS = 2
CODE_SELECTOR, DATA_SELECTOR = 0x10, 0x18
_GDT_ENTRIES = (0, 0, 0x00AF_9B00_0000_FFFF, 0x00CF_9300_0000_FFFF)
_PRESENT_WRITABLE, _LARGE = 3, 0x83
_RAM, _RESERVED = 1, 2
# offsets in struct boot_params
_RSDP, _E820_COUNT, _SETUP_HEADER = 0x70, 0x1E8, 0x1F1
_LOADER_TYPE, _RAMDISK, _CMDLINE_AT, _E820 = 0x210, 0x218, 0x228, 0x2D0
_HARDWARE_REDUCED = 1 << 20


def place(
    ram: mmap.mmap, kernel: BzImage, initrd: bytes, cmdline: str, cpus: int = 1
) -> int:
    """Lay out everything in RAM, which is zero before; return the kernel's entry."""
    text = cmdline.encode() + b"\0"
    if len(text) > _MAX_CMDLINE:
        raise UnfitError(f"a command line of more than {_MAX_CMDLINE - 1} bytes")
    entry = _place_vmlinux(ram, kernel.vmlinux, kernel.arch.elf_machine)
    _place_page_tables(ram)
    at = len(ram) - len(initrd) & -mmap.PAGESIZE
    ram[at : at + len(initrd)] = initrd
    ram[_CMDLINE : _CMDLINE + len(text)] = text
    header = BOOT_PARAMS + _SETUP_HEADER
    ram[header : header + len(kernel.header)] = kernel.header
    ram[BOOT_PARAMS + _LOADER_TYPE] = 0xFF
    LITTLE_64.struct("II").pack_into(ram, BOOT_PARAMS + _RAMDISK, at, len(initrd))
    LITTLE_64.struct("I").pack_into(ram, BOOT_PARAMS + _CMDLINE_AT, _CMDLINE)
    _place_memory_map(ram)
    LITTLE_64.struct("Q").pack_into(ram, BOOT_PARAMS + _RSDP, _place_acpi(ram, cpus))
    return entry


def _place_vmlinux(ram: mmap.mmap, vmlinux: bytes, machine: int) -> int:
    """Put the kernel at its physical addresses, and return its entry."""
    try:
        image = ElfFile(vmlinux, machine)
    except KernelError as error:
        raise UnfitError(f"the kernel's file is damaged: {error.why}") from None
    for part in image.segments:
        at = part.paddr
        if at + part.memsz > len(ram):
            raise UnfitError("the kernel needs more memory")
        if part.filesz > part.memsz or part.offset + part.filesz > len(vmlinux):
            raise UnfitError("the kernel's file is damaged: a segment is cut short")
        ram[at : at + part.filesz] = vmlinux[part.offset : part.offset + part.filesz]
    return image.entry


def _place_page_tables(ram: mmap.mmap) -> None:
    """Map the first GiB at its own addresses, and make flat segments."""
    LITTLE_64.struct("Q").pack_into(ram, PML4, _PDPT | _PRESENT_WRITABLE)
    LITTLE_64.struct("Q").pack_into(ram, _PDPT, _PD | _PRESENT_WRITABLE)
    entries = [number * LARGE_PAGE | _LARGE for number in range(512)]
    LITTLE_64.struct("512Q").pack_into(ram, _PD, *entries)
    LITTLE_64.struct("4Q").pack_into(ram, GDT, *_GDT_ENTRIES)


def _place_memory_map(ram: mmap.mmap) -> None:
    ranges = (
        (0, 0x9FC00, _RAM),
        (0x9FC00, 0x400, _RESERVED),
        (_ACPI, 0x10000, _RESERVED),
        (1 << 20, len(ram) - (1 << 20), _RAM),
    )
    ram[BOOT_PARAMS + _E820_COUNT] = len(ranges)
    for number, entry in enumerate(ranges):
        LITTLE_64.struct("QQI").pack_into(
            ram, BOOT_PARAMS + _E820 + 20 * number, *entry
        )


def _checksum(table: bytearray, at: int, size: int) -> None:
    table[at] = -sum(table[:size]) & 255


def _table(signature: bytes, revision: int, body: bytes) -> bytes:
    """Return a table of ACPI."""
    names = b"KPFS  ", b"BOARD   ", 1, b"KPFS", 1  # names of the maker, with versions
    size = 36 + len(body)
    head = LITTLE_64.struct("4sIBB6s8sI4sI").pack(signature, size, revision, 0, *names)
    table = bytearray(head + body)
    _checksum(table, 9, len(table))
    return bytes(table)


def _place_acpi(ram: mmap.mmap, cpus: int) -> int:
    """Put the tables of hardware-reduced ACPI; return the root pointer's address.

    Without ACPI the kernel would stay on a timer that is not there.
    """
    rsdp, xsdt, dsdt, fadt, madt = (_ACPI + offset for offset in range(0, 0xA00, 0x200))
    body = bytearray(276 - 36)
    LITTLE_64.struct("I").pack_into(body, 40 - 36, dsdt)
    LITTLE_64.struct("I").pack_into(body, 112 - 36, _HARDWARE_REDUCED)
    LITTLE_64.struct("Q").pack_into(body, 140 - 36, dsdt)
    processors = b"".join(
        LITTLE_64.struct("BBBBI").pack(0, 8, n, n, 1) for n in range(cpus)
    )
    tables = {
        dsdt: _table(b"DSDT", 2, b""),
        fadt: _table(b"FACP", 6, bytes(body)),
        madt: _table(
            b"APIC", 4, LITTLE_64.struct("II").pack(abi.APIC_BASE, 0) + processors
        ),
        xsdt: _table(b"XSDT", 1, LITTLE_64.struct("QQ").pack(fadt, madt)),
    }
    root = bytearray(
        LITTLE_64.struct("8sB6sBIIQB3x").pack(
            b"RSD PTR ", 0, b"KPFS  ", 2, 0, 36, xsdt, 0
        )
    )
    _checksum(root, 8, 20)
    _checksum(root, 32, 36)
    tables[rsdp] = bytes(root)
    for at, table in tables.items():
        ram[at : at + len(table)] = table
    return rsdp


def prepare(board: Board, entry: int) -> None:
    """Set up a processor as the 64-bit boot protocol wants it."""
    general, control = x86_registers.GENERAL, x86_registers.CONTROL
    for name in general:
        board.write_reg(general[name], 0)
    x86_registers.write_msr(board, x86_registers.MSRS["efer"], _EFER)
    board.write_reg(control["cr3"], PML4)
    board.write_reg(control["cr4"], _CR4)
    board.write_reg(control["cr0"], _CR0)
    x86.write_table(board, "gdtr", (0, GDT, 31, 0))
    x86.write_table(board, "idtr", (0, 0, 0, 0))
    board.write_reg(x86_registers.SEGMENTS["cs"], CODE_SELECTOR)
    for name in ("ds", "es", "ss"):
        board.write_reg(x86_registers.SEGMENTS[name], DATA_SELECTOR)
    board.write_reg(general["rflags"], _FIXED_FLAGS)
    board.write_reg(general["rsi"], BOOT_PARAMS)
    board.write_reg(general["rsp"], STACK)
    board.write_reg(general["rip"], entry)
