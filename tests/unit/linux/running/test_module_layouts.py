# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.linux.running.module_layouts: the tables of a module.

tests/integration/linux/test_layouts.py asks kernels.
"""

import pytest

from kpfs.base.data_model import LITTLE_32, LITTLE_64
from kpfs.base.elf import Section
from kpfs.linux.running.module_layouts import find_table
from kpfs.linux.running.trial import Trial

TABLE, AT, COUNT = 0x7FFF_1000, 24, 62


class Module(Trial):
    """Looks at numbers alone."""

    def __init__(self, model):
        self.model, self.long = model, model.long


@pytest.mark.parametrize(
    ("model", "name", "row"),
    [
        (LITTLE_64, "__jump_table", 16),
        (LITTLE_64, "__jump_table", 24),  # addresses, as on mips64
        (LITTLE_32, "__jump_table", 12),
        (LITTLE_64, "__ex_table", 8),
        (LITTLE_64, "__bug_table", 12),
    ],
)
def test_a_table_and_the_number_of_its_rows(model, name, row):
    words = [0] * 12
    words[AT // model.long :] = TABLE, COUNT, 0, 0
    raw = model.struct(f"{len(words)}L").pack(*words)
    section = Section(name, 0, 0, 0, 0, COUNT * row, 0, 0, 0, 0)
    assert find_table(Module(model), raw, TABLE, section) == (AT, AT + model.long)
