# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels of Ubuntu, from its archive."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kpfs.linux.arch.arches import DEFAULT, split_name
from kpfs.linux.distribution import deb_archive, fetch
from kpfs.linux.distribution.deb_archive import Package, Suite
from kpfs.linux.distribution.names import UBUNTU
from kpfs.linux.distribution.offer import Access, Offer, newest
from kpfs.linux.distribution.signature import Keys
from kpfs.linux.errors import UnfitError, UnknownNameError

MIRROR = "https://archive.ubuntu.com/ubuntu"
PORTS = "https://ports.ubuntu.com/ubuntu-ports"
_KEYS = Keys(
    ("/usr/share/keyrings/ubuntu-archive-keyring.gpg",),
    f"{MIRROR}/project/ubuntu-archive-keyring.gpg",
    frozenset({"F6ECB3762474EDA9D21B7022871920D1991BC93C"}),  # the key of 2018
)
_POCKETS = "-security", "-updates", ""
# 24.04, noble-aws, 24.04-generic-hwe-24.04
_NAME = re.compile(r"(?P<suite>\d\d\.\d\d|[a-z]+)(?:-(?P<flavour>[a-z0-9.-]+))?")
_RELEASE = re.compile(r"linux-image-(?:unsigned-)?(\d\S*)")


class Ubuntu:
    """The archive of Ubuntu; a kernel is what linux-image-FLAVOUR stands for."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def find(self, name: str) -> Offer:
        """Return the newest kernel of 24.04, noble-aws, 24.04-arm64 and the like."""
        rest, architecture = split_name(name)
        wanted = _NAME.fullmatch(rest)
        if not wanted:
            raise UnknownNameError(
                f"{name} is no name of Ubuntu's kernels, as 24.04 is"
            )
        suite = UBUNTU.get(wanted["suite"], wanted["suite"])
        package = f"linux-image-{wanted['flavour'] or 'generic'}"
        offers = self._offers(suite, package, architecture)
        return newest(offers, name, "Ubuntu's archive")._replace(name=f"ubuntu:{name}")

    def available(self) -> Iterator[Offer]:
        """Return the kernel that each release is installed with.

        Raises UnfitError if no release can be read.
        """
        found = list(fetch.each(self._first, list(UBUNTU)))
        errors = [one for one in found if isinstance(one, UnfitError)]
        if len(errors) == len(found):
            raise errors[0]
        yield from (one for one in found if isinstance(one, Offer))

    def _first(self, version: str) -> Offer | UnfitError:
        try:
            return self.find(version)
        except UnfitError as error:  # the archive may have it no more
            return error

    def _offers(self, suite: str, package: str, architecture: str) -> Iterator[Offer]:
        mirror = self._access.place(MIRROR if architecture == DEFAULT else PORTS)

        def read(pocket: str) -> dict[str, Package]:
            place = Suite(mirror, f"{suite}{pocket}")
            try:
                return deb_archive.packages(place, architecture, _KEYS, self._access)
            except fetch.MissingError:
                return {}

        found = fetch.each(read, list(_POCKETS))
        # a suite need not have again what another has
        all_ = {
            name: row for packages in reversed(found) for name, row in packages.items()
        }
        for packages in found:
            if package in packages:
                parts = deb_archive.with_parts(packages[package], all_)
                release = next(
                    filter(None, (_RELEASE.match(row.name) for row in parts)), None
                )
                if release:
                    row = packages[package]
                    files = deb_archive.files(parts)
                    yield Offer("", release[1], row.version, row.suite, files)
