# SPDX-License-Identifier: GPL-2.0-or-later
"""Variables on the stack are those that the compiler tells of (DWARF 4 and 5)."""

import random
import shutil
import subprocess

import pytest

from kpfs.base import elf
from kpfs.linux.memory.stack_variables import frames

SOURCE = """
struct pair { long a, b; };
typedef const volatile char text[3][8];
void use(const volatile void *p);
static inline __attribute__((always_inline)) void inner(void)
{
	struct pair pair;

	use(&pair);
}
int outer(int given)
{
	text words;
	long many[2][5];
	register int none = given;

	use(words);
	use(many);
	inner();
	return none;
}
int without(int given) { return given + 1; }
"""
pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc")


@pytest.fixture(params=(4, 5))
def built(request, tmp_path):
    source, built = tmp_path / "a.c", tmp_path / "a.o"
    source.write_text(SOURCE)
    options = "-O1", f"-gdwarf-{request.param}", "-ffunction-sections"
    command = ["gcc", *options, "-c", "-o", str(built), str(source)]
    subprocess.run(command, check=True)
    return built.read_bytes()


def test_variables_have_their_sizes_and_places(built):
    file = elf.ElfFile(built)
    (found,) = frames(file)
    assert (found.name, file.sections[found.section].name) == ("outer", ".text.outer")
    sizes = {each.name: each.size for each in found.variables}
    assert sizes == {"words": 24, "many": 80, "pair": 16}
    ends = [each.offset + each.size for each in found.variables]
    begins = [each.offset for each in found.variables]
    assert all(end <= begin for end, begin in zip(ends, begins[1:], strict=False))
    assert max(ends) <= -8  # the return address


def test_a_file_that_is_damaged_or_has_no_debug_information_has_none(built):
    file = elf.ElfFile(built)
    rng = random.Random(1)
    section = file.section(".debug_info")
    assert section is not None
    for _ in range(300):
        damaged = bytearray(built)
        for _ in range(3):
            at = section.offset + rng.randrange(section.size)
            damaged[at] = rng.randrange(256)
        frames(elf.ElfFile(bytes(damaged)))
    assert frames(elf.ElfFile(built.replace(b".debug_info", b".nodebuginf"))) == []
