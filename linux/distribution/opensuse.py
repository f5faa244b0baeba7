# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels of openSUSE: tumbleweed is the newest."""

from types import MappingProxyType

from kpfs.linux.distribution.rpm_archive import RpmDistribution


class OpenSuse(RpmDistribution):
    NAME = "opensuse"
    VERSIONS = ("tumbleweed", "15.6")
    MIRROR = "https://download.opensuse.org"
    REPOSITORIES = (
        "{version}/repo/oss",
        "distribution/leap/{version}/repo/oss",
        "update/leap/{version}/oss",
    )
    PACKAGES = MappingProxyType({"": ("kernel-default",)})
