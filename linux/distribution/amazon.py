# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels of Amazon Linux: 2023 is 6.1, 2023-6.12 a later one."""

from collections.abc import Sequence
from types import MappingProxyType

from kpfs.linux.distribution import fetch
from kpfs.linux.distribution.rpm_archive import RpmDistribution


class Amazon(RpmDistribution):
    NAME = "amazon"
    VERSIONS = ("2023",)
    MIRROR = "https://cdn.amazonlinux.com"
    REPOSITORIES = ("al{version}/core/mirrors/latest/{arch}/mirror.list",)
    PACKAGES = MappingProxyType(
        {"": ("kernel",), "6.12": ("kernel6.12",), "6.18": ("kernel6.18",)}
    )

    def _repositories(self, version: str, arch: str) -> Sequence[str]:
        """Return what the list says, as the repository's place has a number in it."""
        lists = super()._repositories(version, arch)
        return [fetch.read(url).decode().split()[0].rstrip("/") for url in lists]
