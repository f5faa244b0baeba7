# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds modules of Linux kernels without their headers.

A module that calls nothing needs to know where struct module has its name and its two
functions, as BTF tells, and what a module of the kernel's package says of itself.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kpfs.base import elf
from kpfs.linux.memory.btf import read_btf
from kpfs.linux.running.saved_kernel import SavedKernel
from kpfs.linux.store import image
from kpfs.linux.store.modules import ModuleArchive

COMPILERS = {
    "x86": "gcc",
    "arm64": "aarch64-linux-gnu-gcc",
    "riscv64": "riscv64-linux-gnu-gcc",
    "s390x": "s390x-linux-gnu-gcc",
    "ppc64": "powerpc64le-linux-gnu-gcc",
}
OPTIONS = {
    "x86": (
        *("-mcmodel=kernel", "-mno-red-zone", "-mno-sse", "-fcf-protection=branch"),
        *("-fstack-protector-strong", "-fno-optimize-sibling-calls"),
    ),
    "arm64": (
        *("-mgeneral-regs-only", "-mno-outline-atomics", "-fno-stack-protector"),
        *("-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"),
    ),
    "riscv64": (
        *("-mcmodel=medany", "-march=rv64imac", "-mabi=lp64", "-fno-stack-protector"),
        "-mno-relax",
    ),
    "s390x": (
        *("-march=z10", "-mbackchain", "-mpacked-stack", "-msoft-float"),
        "-fno-stack-protector",
    ),
    "ppc64": (
        *("-mcpu=power8", "-mcmodel=medium", "-msoft-float", "-mno-altivec"),
        *("-mno-vsx", "-fno-stack-protector"),
    ),
}
WORDS = (
    "-g -O2 -ffreestanding -fno-pic -fno-pie -fno-asynchronous-unwind-tables"
).split()
# struct module as far as it matters; sections that the loader insists on
FRAME = """\
#include "{source}"
__attribute__((section(".gnu.linkonce.this_module"), used)) static struct {{
	char first[{name}]; char name[56]; char second[{init} - {name} - 56];
	int (*init)(void); char third[{exit} - {init} - 8];
	void (*exit)(void); char rest[{size} - {exit} - 8];
}} __attribute__((packed, aligned(64))) this_module = {{
	.name = "{module}", .init = begin, .exit = finish
}};
asm(".pushsection .modinfo,\\"a\\"; .asciz \\"license=GPL\\", \\"name={module}\\", "
    "\\"vermagic={vermagic}\\"; {versions}"
    ".section .plt,\\"ax\\"; .byte 0; .section .init.plt,\\"a\\"; .byte 0;"
    ".section .text.ftrace_trampoline,\\"ax\\"; .byte 0;"
    ".section .init.text.ftrace_trampoline,\\"ax\\"; .byte 0;"
    ".section .stubs,\\"ax\\"; .balign 8; .quad 0;"
    ".section .got,\\"a\\"; .byte 0; .section .got.plt,\\"a\\"; .byte 0; .popsection");
"""


def build(
    folder: Path,
    kernel: SavedKernel,
    source: Path,
    *options: str,
    name: str = "",
    versions: bool = True,
) -> Path:
    """Build a module with the functions begin() and finish().

    It may call functions of the kernel if it is loaded by force, or has no versions of
    any: then no kernel checks them that can load modules by force.
    options: of the compiler.  name: of the module, "": that of the source.
    """
    name = name or source.stem
    arch = kernel.arch.name
    compiler = COMPILERS[arch]
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is missing (Debian: gcc-{compiler[:-4]})")
    btf = read_btf(kernel.memory, kernel.symbols)
    assert btf is not None
    module = btf.layouts({"module": ("name", "init", "exit")})["module"]
    with ModuleArchive(os.path.join(kernel.folder, image.MODULES)) as archive:
        shipped = elf.ElfFile(archive.read("dummy"), kernel.arch.elf_machine)
    info = shipped.section(".modinfo")
    assert info is not None
    known = ""
    sections = "__versions", "__version_ext_crcs", "__version_ext_names"
    for section in sections if versions else ():
        if (found := shipped.section(section)) is not None:
            (folder / section).write_bytes(shipped.contents(found))
            known += f'.section {section},\\"a\\"; .incbin \\"{section}\\"; '
    words = shipped.contents(info).split(b"\0")
    vermagic = next(
        word[9:].decode() for word in words if word.startswith(b"vermagic=")
    )
    frame = FRAME.format(
        source=source,
        module=name,
        versions=known,
        vermagic=vermagic,
        size=module.size,
        **module.at,
    )
    (folder / "frame.c").write_text(frame)
    made = folder / f"{name}.ko"
    command = [compiler, *WORDS, *OPTIONS[arch], *options, "-c", "frame.c"]
    subprocess.run([*command, "-o", str(made)], check=True, cwd=folder)
    return made
