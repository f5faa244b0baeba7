# SPDX-License-Identifier: GPL-2.0-or-later
"""base/abi.py is what scripts/asm-offsets makes of the headers.

That it is not changed by hand its digest sees: tests/integration/image/test_image.py.
"""

import subprocess

import pytest

from kpfs.base import abi
from kpfs.engine.arch.x86.regs import NAMES
from kpfs.guest.running.tasks import GuestInfo
from tests.modbox import ROOT, need_compiler

STRUCTURES = [value for value in vars(abi).values() if hasattr(value, "STRUCT")]


def fields(structure):
    return [n for n in vars(structure) if n.islower() and not n.startswith("__")]


def test_it_is_made_of_these_headers():
    need_compiler()
    made = subprocess.run(
        [ROOT / "scripts" / "asm-offsets"], capture_output=True, check=True
    )
    assert made.stdout == (ROOT / "kpfs" / "base" / "abi.py").read_bytes()


@pytest.mark.parametrize("structure", STRUCTURES, ids=lambda one: one.__name__)
def test_offsets_and_format_of_a_structure_agree(structure):
    """Bytes that are numbered: what is unpacked begins where the fields are."""
    code = structure.STRUCT
    offsets = [getattr(structure, name) for name in fields(structure)]
    places = range(offsets[0], offsets[0] + code.size)

    def first_bytes(shift):
        values = code.unpack(bytes(n >> shift & 0xFF for n in places))
        return [v[0] if isinstance(v, bytes) else v & 0xFF for v in values]

    digits = zip(first_bytes(0), first_bytes(8), first_bytes(16), strict=True)
    begins = {low | middle << 8 | high << 16 for low, middle, high in digits}
    assert offsets[0] + code.size <= structure.SIZE
    assert {at for at in offsets if at < offsets[0] + code.size} <= begins


def test_names_that_python_has_in_an_order_of_its_own():
    assert list(GuestInfo._fields) == fields(abi.KpfsGuestInfo)
    assert list(NAMES) == fields(abi.PtRegs)
