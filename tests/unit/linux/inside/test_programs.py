# SPDX-License-Identifier: GPL-2.0-or-later
"""The heads of programs."""

import os
import struct
import sys
from pathlib import Path

import pytest

from kpfs.base.elf import (
    EHDR_FORM,
    EM_386,
    EM_AARCH64,
    EM_ARM,
    EM_X86_64,
    MACHINES,
    MODELS,
    pack_segment,
    segment_size,
)
from kpfs.linux.arch.arches import ARCHES
from kpfs.linux.board.board import read_agent
from kpfs.linux.inside import programs
from kpfs.linux.inside.programs import read_head
from tests import harness


@pytest.mark.parametrize("arch", ARCHES.values(), ids=ARCHES)
def test_a_static_program(arch):
    assert read_head(read_agent(arch)[:4096]) == (arch.elf_machine, "")
    assert arch.elf_machine in MACHINES


def test_a_program_with_an_interpreter():
    _, interpreter = read_head(Path(sys.executable).read_bytes()[:4096])
    assert Path(interpreter).exists()


@pytest.mark.parametrize("model", MODELS.values())
def test_programs_of_either_size_and_byte_order(model):
    order, size = 1 + (model.order == "big"), segment_size(model)
    ident = (b"\x7fELF" + bytes((model.long // 4, order))).ljust(16, b"\0")
    ehdr, name = model.struct(EHDR_FORM), b"/lib/ld.so.1\0"

    def head(count):
        rest = ehdr.size, 0, 0, ehdr.size, size, count, 0, 0, 0
        return ehdr.pack(ident, 2, 40, 1, 0, *rest)

    segment = pack_segment(model, 3, 4, ehdr.size + size, 0, 0, len(name), 1)
    assert read_head(head(0) + segment + name) == (40, "")
    assert read_head(head(1) + segment + name) == (40, "/lib/ld.so.1")


@pytest.mark.parametrize(
    ("machine", "own", "why"),
    [
        (EM_386, EM_X86_64, "needs /none, which is not there"),
        (EM_ARM, EM_AARCH64, "needs /none, which is not there"),
        (
            EM_X86_64,
            EM_386,
            "is a program for x86-64, and this kernel runs",
        ),
        (EM_386, EM_AARCH64, "is a program for i386, and this kernel runs"),
    ],
)
def test_programs_of_32_bits_of_a_kernel_that_runs_both(
    monkeypatch, tmp_path, machine, own, why
):
    model = MODELS[1 if machine in (EM_386, EM_ARM) else 2, 1]
    ehdr, size, name = model.struct(EHDR_FORM), segment_size(model), b"/none\0"
    ident = (b"\x7fELF" + bytes((model.long // 4, 1))).ljust(16, b"\0")
    rest = ehdr.size, 0, 0, ehdr.size, size, 1, 0, 0, 0
    segment = pack_segment(model, 3, 4, ehdr.size + size, 0, 0, len(name), 1)
    it = tmp_path / "it"
    it.write_bytes(ehdr.pack(ident, 2, machine, 1, 0, *rest) + segment + name)
    monkeypatch.setattr(programs, "own_machine", lambda: own)
    assert programs.why_not_here(str(it)).startswith(f"{it} {why}")


@pytest.mark.parametrize(
    "head", [b"", b"\x7fELF", b"\x7fELF\x02\x09" + bytes(60), b"echo text\n"]
)
def test_no_program(head):
    with pytest.raises((KeyError, struct.error, IndexError)):
        read_head(head)


def test_what_the_host_refuses_is_told_without_a_kernel(tmp_path):
    """``kpfs run`` asks before each command; what Linux kernels need loads long."""
    (tmp_path / "script").write_text("#!/none\n")
    code = (
        "import sys\n"
        "from kpfs.linux.inside.programs import why_not_here\n"
        "print(why_not_here('script'))\n"
        "print([name for name in sys.modules if name.startswith('kpfs.linux.')])\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(harness.ROOT)}
    done = harness.run(sys.executable, "-c", code, cwd=tmp_path, env=environment)
    assert done.stdout.splitlines() == [
        "script needs /none, which is not there",
        "['kpfs.linux.inside', 'kpfs.linux.inside.programs']",
    ], done.stderr
