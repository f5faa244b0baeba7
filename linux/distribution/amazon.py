# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels of Amazon Linux: 2023 is 6.1, 2023-6.12 a later one."""

from collections.abc import Sequence
from types import MappingProxyType

from kpfs.linux.distribution import fetch
from kpfs.linux.distribution.rpm_archive import RpmDistribution
from kpfs.linux.errors import UnfitError


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
        return [self._first(url) for url in lists]

    def _first(self, url: str) -> str:
        words = fetch.read(url).decode("utf-8", "replace").split()
        certified = self._mirror.startswith("https:")
        if not words or (certified and not words[0].startswith("https:")):
            raise UnfitError(f"{url}: its index is damaged")
        return words[0].rstrip("/")
