# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes a drgn.Program of a kernel in this process."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Any

import drgn
from drgn import Program as Program
from drgn import StackTrace as StackTrace

from kpfs.base.errors import MemoryFault
from kpfs.base.units import WORD
from kpfs.gdb.description import TARGETS

if TYPE_CHECKING:
    from kpfs.session.session import Session

ALL = (1 << 64) - 1
_ARCHITECTURES = {
    "x86": drgn.Architecture.X86_64,
    "arm64": drgn.Architecture.AARCH64,
    "riscv64": drgn.Architecture.RISCV64,
    "s390x": drgn.Architecture.S390X,
    "ppc64": drgn.Architecture.PPC64,
    "armhf": drgn.Architecture.ARM,
    "i386": drgn.Architecture.I386,
    "mips64": drgn.Architecture.UNKNOWN,  # drgn has none of it
}
# struct pt_regs of x86-64, by gdb's names
_PT_REGS = (
    "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx",
    "rdx", "rsi", "rdi", "orig_rax", "rip", "cs", "eflags", "rsp", "ss",
)  # fmt: skip
_VMLINUX = "vmlinux"
_NO_TYPES = (
    "this kernel has no debug information for drgn, which does not read BTF: "
    "give drgn(vmlinux=FILE), of the distribution's package of debug symbols"
)


def make(session: Session, vmlinux: str = "") -> Program:
    """Return a drgn.Program that reads the kernel's memory as it is at each moment.

    vmlinux: a file with debug information, for a Linux kernel.  OSError, and what drgn
    raises for a wrong file.
    """
    debugged = session.debugged()
    model, flags = TARGETS[debugged.arch].model, drgn.PlatformFlags(0)
    if model.order == "little":
        flags |= drgn.PlatformFlags.IS_LITTLE_ENDIAN
    if model.long == WORD:
        flags |= drgn.PlatformFlags.IS_64_BIT
    program = drgn.Program(drgn.Platform(_ARCHITECTURES[debugged.arch], flags))
    info = session.vmcoreinfo()
    if info:
        program.set_linux_kernel_custom(info, True)

    def read(address: int, size: int, _offset: int, _physical: bool) -> bytes:
        try:
            return session.read_memory(address, size)
        except (MemoryFault, OSError):
            raise drgn.FaultError("not mapped", address) from None

    program.add_memory_segment(0, ALL, read)
    if vmlinux:
        program.load_debug_info([vmlinux])
    elif info:
        _refuse_types(program)
    else:
        _add_images(program, session)
    _add_symbols(program, session)
    return program


def stack_trace(session: Session, program: Program, pid: int) -> StackTrace:
    """Return the drgn.StackTrace of a task, whether it runs or sleeps.

    LookupError: there is no such task, or nothing is known of it.
    """
    debugged = session.debugged()
    with debugged.lock:
        found = next((t for t in debugged.threads() if t.pid == pid), None)
        registers = {} if found is None else debugged.registers(found)
    if debugged.arch != "x86":
        raise LookupError(f"no stacks by drgn of kernels for {debugged.arch}")
    if not registers:
        raise LookupError(f"no registers of a task {pid}")
    words = [registers.get(name, 0) & ALL for name in _PT_REGS]
    raw = struct.pack(f"<{len(words)}Q", *words)
    kind = program.type("struct pt_regs")
    return program.stack_trace(drgn.Object.from_bytes_(program, kind, raw))


def _add_images(program: Program, session: Session) -> None:
    """Add the guest kernel and its modules, with their debug information."""
    for image in session.images():
        if image.sections:
            module = program.relocatable_module(image.name, image.start, create=True)
            for name, address in image.sections.items():
                module.section_addresses[name] = address
        else:
            module = program.extra_module(image.name, create=True)
        module.address_range = image.start, image.end
        fd = os.memfd_create(image.name)
        try:
            with open(fd, "wb", closefd=False) as file:
                file.write(image.content)
            module.try_file(f"/proc/self/fd/{fd}", fd=os.dup(fd), force=True)
        finally:
            os.close(fd)


def _refuse_types(program: Program) -> None:
    """Say why nothing is known, in place of drgn's shorter words."""

    def refuse(*_: object) -> Any:
        raise LookupError(_NO_TYPES)

    program.register_type_finder("kpfs", refuse, enable_index=-1)
    program.register_object_finder("kpfs", refuse, enable_index=-1)


def _add_symbols(program: Program, session: Session) -> None:
    """Have symbols found that debug information lacks, by name."""

    def find(
        _program: Program, name: str | None, _address: int | None, _one: bool
    ) -> Any:
        address = session.symbol(name) if name else 0
        if not address:
            return []
        binding, kind = drgn.SymbolBinding.UNKNOWN, drgn.SymbolKind.UNKNOWN
        return [drgn.Symbol(name, address, 0, binding, kind)]

    program.register_symbol_finder("kpfs", find, enable_index=-1)
