# SPDX-License-Identifier: GPL-2.0-or-later
"""Ways to use kpfs with things to do there: a slice of ``scripts/campaign product``."""

import pytest

from tests.campaign.hunt import Hunt
from tests.campaign.product import DEEDS, Product, Try
from tests.harness import KERNEL

pytestmark = [pytest.mark.fuse, pytest.mark.guest]

SLICE = [Try("", way, deed) for way in ("mount", "run", "python") for deed in DEEDS[:4]]
LINUX = [Try(KERNEL, *each) for each in (("run", "refuse"), ("inside", "command"))]


@pytest.mark.parametrize(
    "each",
    [
        *(pytest.param(each, id=str(each)) for each in SLICE),
        *(pytest.param(each, id=str(each), marks=pytest.mark.kernel) for each in LINUX),
    ],
)
def test_a_slice(each, kpfs, tmp_path):
    place = tmp_path / "hunt"
    place.mkdir()
    Product(Hunt("product", 1, 0, 1, place)).one(each)
