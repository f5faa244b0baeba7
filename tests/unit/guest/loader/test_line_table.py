# SPDX-License-Identifier: GPL-2.0-or-later
"""Line numbers of what this compiler makes, as objdump reads them."""

import os
import re
import shutil
import subprocess
from itertools import pairwise

import pytest

from kpfs.base import elf
from kpfs.base.errors import KernelError
from kpfs.guest.images import IMAGE_DIR
from kpfs.guest.loader.line_table import spans

HEADER = "static int __attribute__((noinline)) twice(int a) { return 2 * a; }\n"
SOURCE = """\
#include "near.h"
int outside;
static int cold(int a) { return a + 1; }
__attribute__((noinline)) int first(int a)
{
	for (int i = 0; i < a; i++)
		outside += twice(i);
	return cold(a);
}
__attribute__((section(".init.text"))) int second(void) { return first(9); }
"""


def compiled(folder, *options, prefix="", machine=elf.EM_X86_64):
    """prefix: of a compiler for another machine."""
    for tool in (f"{prefix}gcc", "objdump"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is missing (Debian: gcc binutils)")
    (folder / "near.h").write_text(HEADER)
    (folder / "t.c").write_text(SOURCE)
    words = f"{prefix}gcc", "-O2", "-c", *options, "t.c", "-o", "t.o"
    subprocess.run(words, cwd=folder, check=True)
    return elf.ElfFile((folder / "t.o").read_bytes(), machine)


def places(file):
    """Give each section with code an address of its own."""
    return {
        number: 0x10000 * number
        for number, section in enumerate(file.sections)
        if section.flags & elf.SHF_EXECINSTR
    }


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_lines_of_a_relocatable_file(tmp_path, version):
    check_lines(compiled(tmp_path, f"-gdwarf-{version}"), tmp_path, version)


@pytest.mark.parametrize(
    ("prefix", "machine"),
    [
        ("aarch64-linux-gnu-", elf.EM_AARCH64),
        ("riscv64-linux-gnu-", elf.EM_RISCV),
        ("s390x-linux-gnu-", elf.EM_S390),
        ("powerpc64le-linux-gnu-", elf.EM_PPC64),
        ("arm-linux-gnueabihf-", elf.EM_ARM),
        ("i686-linux-gnu-", elf.EM_386),
        ("mips64el-linux-gnuabi64-", elf.EM_MIPS),
    ],
)
def test_lines_of_other_machines(tmp_path, prefix, machine):
    marm = ("-marm",) * (machine == elf.EM_ARM)
    file = compiled(tmp_path, "-gdwarf-4", "-O0", *marm, prefix=prefix, machine=machine)
    check_lines(file, tmp_path, 4)


def check_lines(file, tmp_path, version):
    found = spans(file, places(file))
    names = {os.path.basename(span.file) for span in found}
    assert names == {"t.c", "near.h"}
    if version == 5:
        assert {os.path.dirname(span.file) for span in found} == {str(tmp_path)}
    where = places(file)
    for name, line in (("first", 5), ("second", 10)):
        (symbol,) = (s for s in file.symbols() if s.name == name)
        start = where[symbol.shndx] + symbol.value
        inside = [s for s in found if start <= s.start < start + symbol.size]
        assert inside[0].start == start
        assert inside[0].line in (line, line - 1)
        assert inside[-1].end == start + symbol.size
        for one, other in pairwise(inside):
            assert one.end == other.start
    assert {s.line for s in found if s.file.endswith("near.h")} == {1}


def test_lines_of_the_guest_kernel_are_those_of_objdump():
    if not shutil.which("objdump"):
        pytest.skip("objdump is missing (Debian: binutils)")
    path = f"{IMAGE_DIR}/vmlinux.debug"
    with open(path, "rb") as image:
        found = spans(elf.ElfFile(image.read()), {})
    assert len(found) > 10_000
    words = "objdump", "--dwarf=decodedline", path
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    theirs: dict[int, tuple[str, int]] = {}
    for shown in text.splitlines():
        row = re.match(r"(\S+\.[chS])\s+(\d+)\s+(0x[0-9a-f]+)", shown)
        if row:  # the last one of several at one address holds
            theirs[int(row[3], 16)] = row[1], int(row[2])
    checked = 0
    for span in found:
        name, line = theirs[span.start]
        assert line == span.line
        checked += os.path.basename(name) == os.path.basename(span.file)
    assert checked > 0.9 * len(found)


def test_damage_is_refused(tmp_path):
    file = compiled(tmp_path, "-g")
    section = file.section(".debug_line")
    data = bytearray(file.data)
    data[section.offset + 4 : section.offset + 6] = b"\x63\0"
    with pytest.raises(KernelError, match="version 99"):
        spans(elf.ElfFile(bytes(data)), places(file))


def test_a_file_without_debug_information_has_none(tmp_path):
    file = compiled(tmp_path)
    assert spans(file, places(file)) == []
