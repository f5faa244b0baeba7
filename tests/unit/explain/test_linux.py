# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables of a Linux kernel that cannot be judged.

integration/linux/test_explain.py asks kernels.
"""

from types import SimpleNamespace

import pytest

from kpfs.base.errors import SetupError
from kpfs.explain.linux import UnprobedTables
from kpfs.linux.arch.arches import ARCHES
from kpfs.linux.memory.symbols import CoreSymbols
from tests.there import stand_in


def test_a_kernel_without_symbols_of_data_is_refused(tmp_path):
    (tmp_path / "symbols").write_text("c000000000000000 T _stext\n")
    saved = SimpleNamespace(
        folder="/made/6.1-ppc64el",
        memory=None,
        symbols=CoreSymbols(str(tmp_path / "symbols")),
        structures=None,
        arch=ARCHES["ppc64"],
    )
    with pytest.raises(SetupError, match=r"6\.1-ppc64el was built without"):
        UnprobedTables(stand_in(saved))
