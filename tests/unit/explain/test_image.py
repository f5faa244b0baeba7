# SPDX-License-Identifier: GPL-2.0-or-later
"""A dump of a kernel; what it answers decides the verdicts in tests/verdicts."""

from pathlib import Path

import pytest

from kpfs.base.errors import MemoryFault
from kpfs.explain.image import DumpedImage, read_functions

SAMPLE = Path(__file__).parents[2] / "data" / "optim"


def test_a_function_without_bytes():
    image = DumpedImage(SAMPLE)
    lacking = read_functions(SAMPLE / "more-functions.tsv")[0]
    with pytest.raises(MemoryFault):
        image.read(lacking.addr, 1)
    with pytest.raises(MemoryFault):
        image.ftrace_location(lacking.addr, lacking.addr)
    image.add([lacking])
    assert image.read(lacking.addr, 4) == lacking.code[:4]
