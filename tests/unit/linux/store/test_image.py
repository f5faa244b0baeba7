# SPDX-License-Identifier: GPL-2.0-or-later
"""What is kept with a booted kernel."""

import json

import pytest

from kpfs.linux.errors import UnfitError
from kpfs.linux.store import image

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
