# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads repositories of .rpm packages, for the distributions that have such.

Few of them sign their index, so the certificate of the server vouches for it, and its
checksums for the packages.

Format: repomd.xml and primary.xml of createrepo_c
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from xml.etree import ElementTree

from kpfs.linux.arch.arches import split_name
from kpfs.linux.distribution import fetch
from kpfs.linux.distribution.offer import (
    Access,
    Offer,
    RemoteFile,
    listed_file,
    newest,
)
from kpfs.linux.errors import UnfitError
from kpfs.linux.package.compression import decompress
from kpfs.linux.package.packages import DAMAGED

_REPO = "{http://linux.duke.edu/metadata/repo}"
_COMMON = "{http://linux.duke.edu/metadata/common}"
_NAMES = {
    "amd64": "x86_64",
    "arm64": "aarch64",
    "riscv64": "riscv64",
    "s390x": "s390x",
    "ppc64el": "ppc64le",
}


class Rpm(NamedTuple):
    name: str
    version: str  # with its release, as 6.12.5-200.fc41
    file: RemoteFile


class RpmNames(NamedTuple):
    """Names that a distribution of .rpm packages gives things."""

    distribution: str
    versions: Sequence[str]  # the newest one that is known first
    mirror: str
    # below the mirror, with {version} and {arch}; or lists that name such places
    repositories: Sequence[str]
    # the packages of a kernel by flavours; the first has its version
    packages: Mapping[str, Sequence[str]]


_LIST = "/mirror.list"
_SPLIT = {"": ("kernel-core", "kernel-modules-core", "kernel-modules")}
RPM_NAMES = (
    RpmNames(
        "fedora",
        ("43", "42"),
        "https://dl.fedoraproject.org/pub/fedora/linux",
        (
            "updates/{version}/Everything/{arch}",
            "releases/{version}/Everything/{arch}/os",
        ),
        _SPLIT,
    ),
    RpmNames(
        "opensuse",
        ("tumbleweed", "15.6"),
        "https://download.opensuse.org",
        (
            "{version}/repo/oss",
            "distribution/leap/{version}/repo/oss",
            "update/leap/{version}/oss",
        ),
        {"": ("kernel-default",)},
    ),
    RpmNames(
        "alma",  # its kernels are those of Red Hat Enterprise Linux
        ("10", "9", "8"),
        "https://repo.almalinux.org/almalinux",
        ("{version}/BaseOS/{arch}/os",),
        _SPLIT,
    ),
    RpmNames(
        "amazon",
        ("2023",),
        "https://cdn.amazonlinux.com",
        ("al{version}/core/mirrors/latest/{arch}/mirror.list",),
        {"": ("kernel",), "6.12": ("kernel6.12",), "6.18": ("kernel6.18",)},
    ),
)


class RpmDistribution:
    """A distribution of .rpm packages."""

    def __init__(self, names: RpmNames, access: Access) -> None:
        self._names = names
        self._mirror = access.certified_place(names.mirror)

    def find(self, name: str) -> Offer:
        """Return the newest kernel of VERSION[-FLAVOUR][-arm64]."""
        rest, architecture = split_name(name)
        version, _, flavour = rest.partition("-")
        whose, by_flavour = self._names.distribution, self._names.packages
        if flavour not in by_flavour:
            known = ", ".join(filter(None, by_flavour)) or "none"
            raise UnfitError(f"{whose}:{name}: flavours there: {known}")
        arch = _NAMES[architecture]
        urls = self._repositories(version, arch)
        read = fetch.each(lambda url: _packages(url, arch), list(urls))
        packages = [row for rows in read for row in rows]
        offers = self._offers(packages, by_flavour[flavour], arch)
        found = newest(offers, name, f"{whose}'s archive")
        return found._replace(name=f"{whose}:{name}", suite=version)

    def available(self) -> Iterator[Offer]:
        """Return the kernel of each version that is known."""
        for version in self._names.versions:
            yield self.find(version)

    def _repositories(self, version: str, arch: str) -> Sequence[str]:
        """Return the URLs of the repositories."""
        urls = [
            f"{self._mirror}/{path.format(version=version, arch=arch)}"
            for path in self._names.repositories
        ]
        return [self._first(url) if url.endswith(_LIST) else url for url in urls]

    def _first(self, url: str) -> str:
        """Return the first place that a list names."""
        words = fetch.read(url).decode("utf-8", "replace").split()
        certified = self._mirror.startswith("https:")
        if not words or (certified and not words[0].startswith("https:")):
            raise UnfitError(f"{url}: its index is damaged")
        return words[0].rstrip("/")

    @staticmethod
    def _offers(
        packages: Sequence[Rpm], wanted: Sequence[str], arch: str
    ) -> Iterator[Offer]:
        files = {(row.name, row.version): row.file for row in packages}
        for row in packages:
            if row.name == wanted[0]:
                parts = (files.get((name, row.version)) for name in wanted)
                there = tuple(file for file in parts if file)
                yield Offer("", f"{row.version}.{arch}", row.version, "", there)


def _packages(repository: str, arch: str) -> list[Rpm]:
    """Return the packages of kernels in a repository; [] if there is none there."""
    try:
        index = fetch.read(f"{repository}/repodata/repomd.xml")
    except fetch.MissingError:
        return []
    try:
        file = _primary(index, repository)
        text = decompress(fetch.read_checked(file), file.url)
        return list(_parse(text, repository, arch))
    except (ElementTree.ParseError, LookupError, *DAMAGED):
        raise UnfitError(f"{repository}: its index is damaged") from None


def _primary(index: bytes, repository: str) -> RemoteFile:
    for data in ElementTree.fromstring(index).iter(f"{_REPO}data"):
        if data.get("type") == "primary":
            place = data.find(f"{_REPO}location").attrib["href"]  # type: ignore[union-attr]
            checksum = data.find(f"{_REPO}checksum")
            size = data.findtext(f"{_REPO}size", str(fetch.MAX_INDEX))
            return _file(repository, place, size, checksum)
    raise ValueError("no primary")


def _parse(text: bytes, repository: str, arch: str) -> Iterator[Rpm]:
    for _, row in ElementTree.iterparse(io.BytesIO(text)):
        if row.tag != f"{_COMMON}package":
            continue
        name = row.findtext(f"{_COMMON}name", "")
        if name.startswith("kernel") and row.findtext(f"{_COMMON}arch") == arch:
            version = row.find(f"{_COMMON}version").attrib  # type: ignore[union-attr]
            place = row.find(f"{_COMMON}location").attrib["href"]  # type: ignore[union-attr]
            size = row.find(f"{_COMMON}size").attrib["package"]  # type: ignore[union-attr]
            checksum = row.find(f"{_COMMON}checksum")
            file = _file(repository, place, size, checksum)
            yield Rpm(name, f"{version['ver']}-{version['rel']}", file)
        row.clear()


def _file(
    repository: str, place: str, size: str, checksum: ElementTree.Element | None
) -> RemoteFile:
    if checksum is None:
        raise ValueError("no checksum")
    digest, algorithm = (checksum.text or "").strip(), checksum.attrib["type"]
    return listed_file(repository, place, size, digest, algorithm)
