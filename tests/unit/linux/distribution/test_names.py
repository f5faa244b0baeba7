# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels are found for names that no kernel has."""

import pytest

from kpfs.linux.distribution import distributions, names

MEANT = {
    "6.1.0": "6.1",
    "6.12.107": "6.12",
    "v6.12": "6.12",
    "V6.12": "6.12",
    "linux-6.12": "6.12",
    "6.12-aarch64": "6.12-arm64",
    "6.1.0-cloud": "6.1-cloud",
    "6.12-x86_64": "6.12",
    "trixie": "debian:trixie",
    "bookworm-cloud": "debian:bookworm-cloud",
    "debian12": "debian:bookworm",
    "debian:12": "debian:bookworm",
    "debian-12.5": "debian:bookworm",
    "Debian 13": "debian:trixie",
    "debian:13-cloud": "debian:trixie-cloud",
    "Debian:sid": "debian:sid",
    "debian": "debian:trixie",
    "jammy": "ubuntu:jammy",
    "24.04": "ubuntu:24.04",
    "ubuntu24.04": "ubuntu:24.04",
    "ubuntu-24.04-aws": "ubuntu:24.04-aws",
    "fedora43": "fedora:43",
    "rocky:9": "alma:9",
    "al2023": "amazon:2023",
    "arch": "arch:linux",
    "tumbleweed": "opensuse:tumbleweed",
}


@pytest.mark.parametrize(("name", "meant"), MEANT.items())
def test_what_a_name_means(name, meant):
    assert names.meant(name)[0] == meant
    assert distributions.is_name(meant)


@pytest.mark.parametrize("name", ["6.12", "6.1-cloud", "latest", "debian:sid", "mine"])
def test_names_that_mean_themselves_or_nothing(name):
    assert names.meant(name) == []


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("6.6", ["6.1", "6.12"]),
        ("v6.6.30", ["6.1", "6.12"]),
        ("debian:6.11-cloud", ["6.1-cloud", "6.12-cloud"]),
        ("6.6-arm64", ["6.1-arm64", "6.12-arm64"]),
        ("4.19", ["5.10"]),
    ],
)
def test_series_that_no_archive_has(name, near):
    """Nobody is asked: of old series Debian keeps those of its releases."""
    assert names.meant(name) == near
    assert all(names.is_known(one) for one in near)
    assert names.is_known(name.removeprefix("v").removesuffix(".30")) is False


def test_a_slip_of_the_pen():
    assert names.meant("6.12-clowd", ["6.1", "6.12-cloud"]) == ["6.12-cloud"]
    assert names.asked(["a", "b"]) == "did you mean a or b?"
    assert names.asked([]) == ""


@pytest.mark.parametrize(
    "name",
    ["6.1.0", "v6.12", "trixie", "debian:12", "Debian:sid", "nosuch", "foo:1", "24.04"],
)
def test_names_of_nobody(name):
    assert not distributions.is_name(name)


@pytest.mark.parametrize(
    "name",
    ["6.6", "latest-rt", "debian:sid-arm64", "fedora:43", "linux-image-6.1.0-9-amd64"],
)
def test_names_of_somebody(name):
    assert distributions.is_name(name)
