# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels of Arch Linux, for x86-64."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator

from kpfs.linux.distribution import fetch
from kpfs.linux.distribution.offer import Access, Offer, listed_file, newest
from kpfs.linux.errors import UnfitError
from kpfs.linux.package.compression import decompress
from kpfs.linux.package.packages import DAMAGED

MIRROR = "https://geo.mirror.pkgbuild.com"
_DATABASES = "core", "extra"
_KERNELS = "linux", "linux-lts", "linux-zen", "linux-hardened"
_FIELD = re.compile(r"%(\w+)%\n(.*)\n")


class ArchLinux:
    """The repositories of Arch Linux, for which the server's certificate vouches."""

    def __init__(self, access: Access) -> None:
        self._mirror = access.certified_place(MIRROR)

    def find(self, name: str) -> Offer:
        """Return the kernel of a package such as linux or linux-lts."""
        return newest(
            (offer for offer in self.available() if offer.name == f"arch:{name}"),
            name,
            "Arch Linux's archive",
        )

    def available(self) -> Iterator[Offer]:
        for found in fetch.each(self._database, list(_DATABASES)):
            yield from found

    def _database(self, name: str) -> list[Offer]:
        """Format: alpm-repo-db(7)"""
        place = f"{self._mirror}/{name}/os/x86_64"
        found = []
        try:
            data = decompress(fetch.read(f"{place}/{name}.db"), f"{place}/{name}.db")
            with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
                for member in archive:
                    file = archive.extractfile(member) if member.isfile() else None
                    if file and member.name.startswith("linux"):
                        row = dict(_FIELD.findall(file.read().decode()))
                        found += [self._offer(row, place, name)]
        except DAMAGED:
            raise UnfitError(f"{place}: its index is damaged") from None
        return [offer for offer in found if offer.name.partition(":")[2] in _KERNELS]

    @staticmethod
    def _offer(row: dict[str, str], place: str, suite: str) -> Offer:
        file = listed_file(place, row["FILENAME"], row["CSIZE"], row["SHA256SUM"])
        version = row["VERSION"]
        return Offer(f"arch:{row['NAME']}", version, version, suite, (file,))
