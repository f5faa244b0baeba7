# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels of AlmaLinux, which are those of Red Hat Enterprise Linux."""

from types import MappingProxyType

from kpfs.linux.distribution.rpm_archive import RpmDistribution


class Alma(RpmDistribution):
    NAME = "alma"
    VERSIONS = ("10", "9", "8")
    MIRROR = "https://repo.almalinux.org/almalinux"
    REPOSITORIES = ("{version}/BaseOS/{arch}/os",)
    PACKAGES = MappingProxyType(
        {"": ("kernel-core", "kernel-modules-core", "kernel-modules")}
    )
