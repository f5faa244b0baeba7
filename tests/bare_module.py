# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds modules of Linux kernels of other architectures, without their headers.

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
from kpfs.linux.running.linux_kernel import LinuxKernel
from kpfs.linux.store import image
from kpfs.linux.store.modules import ModuleArchive

COMPILERS = {"arm64": "aarch64-linux-gnu-gcc", "riscv64": "riscv64-linux-gnu-gcc"}
OPTIONS = {
    "arm64": ("-mgeneral-regs-only", "-mno-outline-atomics"),
    "riscv64": ("-mcmodel=medany", "-march=rv64imac", "-mabi=lp64"),
}
WORDS = (
    "-g -O2 -ffreestanding -fno-pic -fno-pie -fno-stack-protector "
    "-fno-asynchronous-unwind-tables"
).split()
# struct module as far as it matters; sections that the loader insists on
FRAME = """\
#include "{source}"
__attribute__((section(".gnu.linkonce.this_module"), used)) static struct {{
	char first[{name}]; char name[56]; char second[{init} - {name} - 56];
	int (*init)(void); char third[{exit} - {init} - 8];
	void (*exit)(void); char rest[{size} - {exit} - 8];
}} __attribute__((packed)) this_module = {{
	.name = "{module}", .init = begin, .exit = finish
}};
asm(".pushsection .modinfo,\\"a\\"; .asciz \\"license=GPL\\", \\"name={module}\\", "
    "\\"vermagic={vermagic}\\"; .section __versions,\\"a\\"; .incbin \\"versions\\";"
    ".section .plt,\\"ax\\"; .byte 0; .section .init.plt,\\"a\\"; .byte 0;"
    ".section .text.ftrace_trampoline,\\"ax\\"; .byte 0;"
    ".section .init.text.ftrace_trampoline,\\"ax\\"; .byte 0;"
    ".section .got,\\"a\\"; .byte 0; .section .got.plt,\\"a\\"; .byte 0; .popsection");
"""


def build(folder: Path, kernel: LinuxKernel, source: Path) -> Path:
    """Build a module with the functions begin() and finish()."""
    arch = kernel.arch.name
    compiler = COMPILERS[arch]
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is missing (Debian: gcc-{compiler[:-4]})")
    btf = read_btf(kernel.saved_memory, kernel.symbols)
    assert btf is not None
    module = btf.layouts({"module": ("name", "init", "exit")})["module"]
    with ModuleArchive(os.path.join(kernel.folder, image.MODULES)) as archive:
        shipped = elf.ElfFile(archive.read("dummy"), kernel.arch.elf_machine)
    info, versions = (shipped.section(name) for name in (".modinfo", "__versions"))
    assert info is not None
    assert versions is not None
    (folder / "versions").write_bytes(shipped.contents(versions))
    words = shipped.contents(info).split(b"\0")
    vermagic = next(
        word[9:].decode() for word in words if word.startswith(b"vermagic=")
    )
    frame = FRAME.format(
        source=source,
        module=source.stem,
        vermagic=vermagic,
        size=module.size,
        **module.at,
    )
    (folder / "frame.c").write_text(frame)
    made = folder / f"{source.stem}.ko"
    command = [compiler, *WORDS, *OPTIONS[arch], "-c", "frame.c", "-o", str(made)]
    subprocess.run(command, check=True, cwd=folder)
    return made
