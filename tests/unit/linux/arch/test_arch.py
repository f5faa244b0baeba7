# SPDX-License-Identifier: GPL-2.0-or-later
"""Properties of all architectures."""

import pytest

from kpfs.base import abi
from kpfs.linux.arch.arch import fits
from kpfs.linux.arch.arches import ARCHES


@pytest.mark.parametrize("arch", ARCHES.values(), ids=ARCHES)
def test_all_that_images_keep_is_a_field_of_the_board(arch):
    words = {arch.board_field(name) for name in arch.kept}
    assert len(words) == len(arch.kept)
    assert max(words) < abi.Board.SIZE
    ends = {arch.cpu_field(name) + 8 for name in arch.kept_of_cpu}
    ends |= {arch.cpu_field(name) + 8 * n for name, n in arch.kept_arrays.items()}
    assert max(ends) <= abi.Cpu.SIZE


@pytest.mark.parametrize(
    ("number", "bits", "result"),
    [(0, 1, True), (2, 1, False), (-1, 8, False), (True, 8, False), (0.0, 8, False)],
)
def test_numbers_of_so_many_bits(number, bits, result):
    assert fits(number, bits) is result
