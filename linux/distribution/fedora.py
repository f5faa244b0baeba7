# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels of Fedora."""

from types import MappingProxyType

from kpfs.linux.distribution.rpm_archive import RpmDistribution


class Fedora(RpmDistribution):
    NAME = "fedora"
    VERSIONS = ("43", "42")
    MIRROR = "https://dl.fedoraproject.org/pub/fedora/linux"
    REPOSITORIES = (
        "updates/{version}/Everything/{arch}",
        "releases/{version}/Everything/{arch}/os",
    )
    PACKAGES = MappingProxyType(
        {"": ("kernel-core", "kernel-modules-core", "kernel-modules")}
    )
