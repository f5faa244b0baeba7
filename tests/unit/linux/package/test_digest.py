# SPDX-License-Identifier: GPL-2.0-or-later

import json

import pytest

from kpfs.linux.errors import UnfitError
from kpfs.linux.package import oci
from kpfs.linux.package.digest import checked_digest
from tests.unit.linux.distribution.test_offer import VALUES


@pytest.mark.parametrize("digest", VALUES["digest"])
def test_an_image_with_a_wild_digest(tmp_path, digest):
    (tmp_path / "index.json").write_text(
        json.dumps({"manifests": [{"digest": f"sha256:{digest}", "size": 3}]})
    )
    (tmp_path / "outside").write_text("own")
    with pytest.raises(UnfitError, match="the image is damaged: a digest is not 64"):
        oci.read_image(str(tmp_path), "mine")


def test_a_digest_has_the_length_of_its_algorithm():
    assert checked_digest("sha256", "aB" * 32) == "ab" * 32
    assert checked_digest("sha512", "aB" * 64) == "ab" * 64
    for algorithm, digits in (("sha256", 128), ("sha512", 64), ("sha256", 0)):
        with pytest.raises(ValueError, match="a digest is not"):
            checked_digest(algorithm, "a" * digits)


@pytest.mark.parametrize("algorithm", [*VALUES["algorithm"], None])
def test_only_two_algorithms_make_digests(algorithm):
    with pytest.raises(ValueError, match="no digest by SHA-256 or SHA-512"):
        checked_digest(algorithm, "ab" * 32)
