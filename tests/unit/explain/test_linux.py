# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables of a Linux kernel: which cannot be judged, and how rows are told.

integration/linux/test_explain.py asks kernels.
"""

import struct
from types import SimpleNamespace

import pytest

from kpfs.base.data_model import LITTLE_64
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


TABLE, TEXT, FIXUP = 0x9000, 0x1000, 0x2000


class Exceptions(UnprobedTables):
    """A kernel of which only the exception table and the text are known."""

    def __init__(self, raw):
        self._raw = raw
        self._live = stand_in(SimpleNamespace(model=LITTLE_64))

    def _section(self, name):
        return TABLE, self._raw

    def is_text(self, addr):
        return TEXT <= addr < TABLE

    def layout(self):
        return self._layout("ex_table", ("ii", "iii", "LL"), is_sorted=True)


@pytest.mark.parametrize("row", ["ii", "iii"])
def test_rows_of_exceptions_are_told_by_their_order(row):
    """Fixups and handlers lead into text as well as the places that come first."""
    targets = [
        target
        for number in range(60)
        for target in (TEXT + 16 * number, FIXUP, FIXUP + 64)[: len(row)]
    ]
    raw = b"".join(
        struct.pack("<i", target - TABLE - 4 * at) for at, target in enumerate(targets)
    )
    assert Exceptions(raw).layout() == row
