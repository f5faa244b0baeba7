# SPDX-License-Identifier: GPL-2.0-or-later
"""The data kept with a booted kernel."""

import json

import pytest

from kpfs.base import abi
from kpfs.emulator import x86_registers
from kpfs.linux.arch import x86
from kpfs.linux.arch.arches import X86_64
from kpfs.linux.board.board import MAX_RAM
from kpfs.linux.errors import UnfitError
from kpfs.linux.store import image

WORDS = "state", "since", "timer", "apic_start", "apic_period", "nmi", "cr2"
KALLSYMS = b"""ffffffff81000010 T panic
ffffffff81000020 t panic_other
ffffffffc0000000 t panic	[module]
ffffffff81000030 t set_memory_x
"""


def test_symbols_of_the_kernel_itself():
    found = image.symbol_table(KALLSYMS, ("panic", "set_memory_x", "none"))
    assert found == {"panic": 0xFFFFFFFF81000010, "set_memory_x": 0xFFFFFFFF81000030}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no kernel of kpfs"),
        ("[]", "no kernel of kpfs"),
        (json.dumps({"version": 0, "cpu_model": 0, "agent": ""}), "another version"),
    ],
)
def test_an_image_of_somebody_else(tmp_path, text, why):
    (tmp_path / image.META).write_text(text)
    with pytest.raises(UnfitError, match=why):
        image.read_meta(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "imported", "told"),
    [
        ("6.12+cpus=2", "", r"6\.12\+cpus=2: .* \(kpfs kernel make 6\.12\+cpus=2\)$"),
        ("fedora:43", "", r"\(kpfs kernel make fedora:43\)$"),
        ("mine", "", r"\(kpfs kernel make mine, with the options .*\)$"),
        (".new", "/a/file", "^/a/file: this is no kernel of kpfs$"),
    ],
)
def test_the_command_that_makes_it_anew(tmp_path, name, imported, told):
    with pytest.raises(UnfitError, match=told):
        image.read_meta(str(tmp_path / name), imported)


def processor(**other):
    """A processor of an image."""
    kept = [x86_registers.GENERAL, x86_registers.CONTROL, x86.FPU, x86_registers.MSRS]
    fields = {
        "registers": {name: 0 for names in kept for name in names},
        "tables": {name: [0, 0, 0, 0] for name in x86.TABLES},
        "words": dict.fromkeys(WORDS, 0),
        "arrays": {"apic": [0] * abi.NR_APIC_REGS, "pending": [0] * 4},
        "mode": abi.MODE_USER,
    }
    return list({**fields, **other}.values())


def sound():
    """The description of a sound image."""
    return {
        "version": image.VERSION,
        "release": "6.1.0-9-amd64",
        "memory": 1 << 20,
        "append": "",
        "cpu_model": X86_64.cpu_model,
        "agent": image.agent_digest(X86_64),
        "pause": 1,
        "words": dict.fromkeys(X86_64.kept, 0),
        "processors": [processor(), processor(mode=abi.MODE_KERNEL)],
        "panic": 0,
        "digest": "",
        "origin": "linux-image.deb",
    }


REGISTERS, TABLES, ZEROES, *_ = processor()


def test_a_sound_image(tmp_path):
    (tmp_path / image.META).write_text(json.dumps(sound()))
    assert image.read_meta(str(tmp_path)).memory == 1 << 20


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("release", "../../../home/me"),  # it becomes the name of a folder
        ("release", 6),
        ("origin", "\033]0;title\007"),
        ("memory", 0),
        ("memory", MAX_RAM + 4096),
        ("memory", 1 << 20 | 1),
        ("memory", "4096"),
        ("memory", True),
        ("pause", -1),
        ("panic", 1 << 64),
        ("processors", []),
        ("processors", [processor()] * (abi.MAX_CPUS + 1)),
        ("processors", [[]]),
        ("processors", [processor(registers={})]),
        ("processors", [processor(), processor(registers={**REGISTERS, "rax": 0.5})]),
        ("processors", [processor(tables={**TABLES, "idtr": [0, 0, 0]})]),
        ("processors", [processor(tables={**TABLES, "idtr": [1 << 16, 0, 0, 0]})]),
        ("processors", [processor(words={**ZEROES, "context": 4096})]),
        ("processors", [processor(words={**ZEROES, "state": 4})]),
        ("processors", [processor(arrays={"apic": [0] * 65, "pending": [0] * 4})]),
        ("processors", [processor(mode=1)]),
        ("processors", [processor(mode=0.0)]),
        ("processors", [processor(words={**ZEROES, "timer": (1 << 64) - 2})]),
        ("words", {**sound()["words"], "now": 1 << 63}),
        # what the board has of the host
        ("words", {**sound()["words"], "ram": 4096}),
        ("words", {**sound()["words"], "debug": 4096}),
        ("words", {**sound()["words"], "current": 2}),
        ("more", 1),
    ],
)
def test_an_image_that_a_machine_cannot_be_given(tmp_path, name, value):
    (tmp_path / image.META).write_text(json.dumps({**sound(), name: value}))
    with pytest.raises(UnfitError, match="damaged"):
        image.read_meta(str(tmp_path))


def test_a_description_of_endless_depth(tmp_path):
    (tmp_path / image.META).write_text("[" * 100_000)
    with pytest.raises(UnfitError, match="no kernel of kpfs"):
        image.read_meta(str(tmp_path))


def test_an_image_that_says_too_little(tmp_path):
    fields = sound()
    del fields["processors"]
    (tmp_path / image.META).write_text(json.dumps(fields))
    with pytest.raises(UnfitError, match="damaged"):
        image.read_meta(str(tmp_path))
