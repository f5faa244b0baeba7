# SPDX-License-Identifier: GPL-2.0-or-later
"""Descriptions of the registers of each architecture, as gdb reads them.

Document: "Debugging with GDB", appendix G: the standard features that gdb asks for. The
order of the table is that of the packets g and G.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from kpfs.base.data_model import BIG_64, LITTLE_32, LITTLE_64, DataModel

_OWN = "org.kpfs.control"
_FLAGS = """<flags id="i386_eflags" size="4">{}</flags>""".format(
    "".join(
        f'<field name="{name}" start="{bit}" end="{bit}"/>'
        for bit, name in (
            *((0, "CF"), (1, ""), (2, "PF"), (4, "AF"), (6, "ZF"), (7, "SF")),
            *((8, "TF"), (9, "IF"), (10, "DF"), (11, "OF"), (14, "NT"), (16, "RF")),
            *((17, "VM"), (18, "AC"), (19, "VIF"), (20, "VIP"), (21, "ID")),
        )
    )
)


class Register(NamedTuple):
    """A register."""

    name: str
    bits: int = 64
    type: str = "int64"

    @property
    def size(self) -> int:
        return self.bits // 8


class TargetFeature(NamedTuple):
    """A group of registers."""

    name: str
    registers: tuple[Register, ...]
    types: str = ""


class Target(NamedTuple):
    """An architecture as gdb knows it."""

    architecture: str
    counter: str  # the name of the register with the next instruction's address
    breakpoint: re.Pattern[bytes]  # instructions that gdb would take for its own
    features: tuple[TargetFeature, ...]
    model: DataModel = LITTLE_64

    @property
    def registers(self) -> Iterator[Register]:
        """Yield all registers in the order of their numbers."""
        for feature in self.features:
            yield from feature.registers


def _words(names: str, kind: str = "int64") -> tuple[Register, ...]:
    return tuple(Register(name, 64, kind) for name in names.split())


def _short(names: str) -> tuple[Register, ...]:
    return tuple(Register(name, 32, "int32") for name in names.split())


_X86_OTHERS = (
    *_short("cs ss ds es fs gs"),
    # gdb insists on the floating-point registers, which are not known
    *(Register(f"st{n}", 80, "i387_ext") for n in range(8)),
    *_short("fctrl fstat ftag fiseg fioff foseg fooff fop"),
)
_X86 = Target(
    "i386:x86-64",
    "rip",
    re.compile(rb"\xcc"),  # int3
    (
        TargetFeature(
            "org.gnu.gdb.i386.core",
            (
                *_words("rax rbx rcx rdx rsi rdi"),
                *_words("rbp rsp", "data_ptr"),
                *_words("r8 r9 r10 r11 r12 r13 r14 r15"),
                Register("rip", 64, "code_ptr"),
                Register("eflags", 32, "i386_eflags"),
                *_X86_OTHERS,
            ),
            _FLAGS,
        ),
        TargetFeature("org.gnu.gdb.i386.segments", _words("fs_base gs_base")),
        TargetFeature(_OWN, _words("k_gs_base cr0 cr2 cr3 cr4 efer")),
    ),
)
_ARM64 = Target(
    "aarch64",
    "pc",
    # brk with any number
    re.compile(rb"[\x00\x20\x40\x60\x80\xa0\xc0\xe0].[\x20-\x3f]\xd4", re.DOTALL),
    (
        TargetFeature(
            "org.gnu.gdb.aarch64.core",
            (
                *_words(" ".join(f"x{n}" for n in range(31))),
                Register("sp", 64, "data_ptr"),
                Register("pc", 64, "code_ptr"),
                Register("cpsr", 32, "int32"),
            ),
        ),
        TargetFeature(
            _OWN,
            _words(
                "sctlr_el1 ttbr0_el1 ttbr1_el1 tcr_el1 mair_el1 vbar_el1 spsr_el1 "
                "elr_el1 esr_el1 far_el1 sp_el0 tpidr_el0 tpidr_el1 contextidr_el1"
            ),
        ),
    ),
)
_RISCV64 = Target(
    "riscv:rv64",
    "pc",
    re.compile(rb"\x02\x90|\x73\x00\x10\x00"),  # c.ebreak, ebreak
    (
        TargetFeature(
            "org.gnu.gdb.riscv.cpu",
            (
                *_words("x0 x1"),
                Register("x2", 64, "data_ptr"),
                *_words(" ".join(f"x{n}" for n in range(3, 32))),
                Register("pc", 64, "code_ptr"),
            ),
        ),
        TargetFeature("org.gnu.gdb.riscv.virtual", _words("priv")),
        TargetFeature(
            "org.gnu.gdb.riscv.csr",
            _words("sstatus satp stvec sepc scause stval sscratch"),
        ),
    ),
)
_S390X = Target(
    "s390:64-bit",
    "pswa",
    re.compile(rb"\x00\x01"),
    (
        TargetFeature(
            "org.gnu.gdb.s390.core",
            (
                Register("pswm"),
                Register("pswa", 64, "code_ptr"),
                *_words(" ".join(f"r{n}" for n in range(16))),
            ),
        ),
        # gdb insists on these, which are not known
        TargetFeature(
            "org.gnu.gdb.s390.acr", _short(" ".join(f"acr{n}" for n in range(16)))
        ),
        TargetFeature(
            "org.gnu.gdb.s390.fpr",
            (
                Register("fpc", 32, "int32"),
                *(Register(f"f{n}", 64, "ieee_double") for n in range(16)),
            ),
        ),
        TargetFeature(_OWN, _words(" ".join(f"cr{n}" for n in range(16)) + " prefix")),
    ),
    BIG_64,
)
_PPC64 = Target(
    "powerpc:common64",
    "pc",
    re.compile(rb"\x08\x00\xe0\x7f"),  # trap
    (
        TargetFeature(
            "org.gnu.gdb.power.core",
            (
                *_words(" ".join(f"r{n}" for n in range(32))),
                Register("pc", 64, "code_ptr"),
                Register("msr"),
                Register("cr", 32, "uint32"),
                Register("lr", 64, "code_ptr"),
                Register("ctr"),
                Register("xer", 32, "uint32"),
            ),
        ),
        TargetFeature(_OWN, _words("dsisr dar srr0 srr1 pid lpcr")),
    ),
)
_ARMHF = Target(
    "arm",
    "pc",
    re.compile(rb"\xf8\x01\xf0.", re.DOTALL),  # undefined, under any condition
    (
        TargetFeature(
            "org.gnu.gdb.arm.core",
            (
                *_short(" ".join(f"r{n}" for n in range(13))),
                Register("sp", 32, "data_ptr"),
                Register("lr", 32, "int32"),
                Register("pc", 32, "code_ptr"),
                Register("cpsr", 32, "int32"),
            ),
        ),
    ),
    LITTLE_32,
)
_I386 = Target(
    "i386",
    "eip",
    re.compile(rb"\xcc"),  # int3
    (
        TargetFeature(
            "org.gnu.gdb.i386.core",
            (
                *_short("eax ecx edx ebx"),
                Register("esp", 32, "data_ptr"),
                Register("ebp", 32, "data_ptr"),
                *_short("esi edi"),
                Register("eip", 32, "code_ptr"),
                Register("eflags", 32, "i386_eflags"),
                *_X86_OTHERS,
            ),
            _FLAGS,
        ),
        TargetFeature(_OWN, _short("cr0 cr2 cr3 cr4")),
    ),
    LITTLE_32,
)
_MIPS64 = Target(
    "mips:isa64r2",
    "pc",
    re.compile(rb"[\x0d\x4d\x8d\xcd]..[\x00-\x03]", re.DOTALL),  # break
    (
        TargetFeature(
            "org.gnu.gdb.mips.cpu",
            (
                *_words(" ".join(f"r{n}" for n in range(32)) + " lo hi"),
                Register("pc", 64, "code_ptr"),
            ),
        ),
        TargetFeature("org.gnu.gdb.mips.cp0", _words("status badvaddr cause")),
        TargetFeature(
            "org.gnu.gdb.mips.fpu",
            (
                *(Register(f"f{n}", 64, "ieee_double") for n in range(32)),
                *_words("fcsr fir"),
            ),
        ),
    ),
)
TARGETS = {
    "x86": _X86, "arm64": _ARM64, "riscv64": _RISCV64, "s390x": _S390X, "ppc64": _PPC64,
    "armhf": _ARMHF, "i386": _I386, "mips64": _MIPS64,
}  # fmt: skip


@cache
def target_xml(arch: str) -> bytes:
    """Return the target description of an architecture."""
    target = TARGETS[arch]
    features = "".join(map(_feature, target.features))
    return (
        '<?xml version="1.0"?><!DOCTYPE target SYSTEM "gdb-target.dtd">'
        f"<target><architecture>{target.architecture}</architecture>{features}</target>"
    ).encode()


def _feature(feature: TargetFeature) -> str:
    rows = "".join(
        f'<reg name="{r.name}" bitsize="{r.bits}" type="{r.type}"/>'
        for r in feature.registers
    )
    return f'<feature name="{feature.name}">{feature.types}{rows}</feature>'


def pack(register: Register, values: Mapping[str, int], target: Target) -> str:
    """Return a register's value as packets have it; x for each digit if unknown."""
    value = values.get(register.name)
    if value is None:
        return "xx" * register.size
    mask = (1 << register.bits) - 1
    return (value & mask).to_bytes(register.size, target.model.order).hex()
