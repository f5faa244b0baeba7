# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels of Debian, from its archive, whatever this host is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from kpfs.linux.arch.arches import DEFAULT, PACKAGED, split_name
from kpfs.linux.distribution import deb_archive, fetch
from kpfs.linux.distribution.deb_archive import Package, Suite
from kpfs.linux.distribution.names import UBUNTU
from kpfs.linux.distribution.offer import Access, Offer, newest
from kpfs.linux.distribution.signature import Keys
from kpfs.linux.errors import UnfitError, UnknownNameError

MIRROR = "https://deb.debian.org/debian"
# where releases go some time after their support has ended
ARCHIVE, ARCHIVED = "https://archive.debian.org/debian", "bullseye"
KEYS = Keys(
    (
        "/usr/share/keyrings/debian-archive-keyring.pgp",
        "/usr/share/keyrings/debian-archive-keyring.gpg",
    ),
    "",
    frozenset(),
)
# These have the newest kernel of every series, and short indexes.
_SHORT = (
    "experimental", "forky-security", "forky-backports", "trixie-security",
    "trixie-backports", "bookworm-security", "bookworm-backports", "bullseye-security",
)  # fmt: skip
_LONG = "sid", "forky", "trixie", "bookworm", "bullseye"
_NAME = re.compile(
    r"(?:(?P<series>\d+\.\d+)|latest|(?P<suite>[a-z]+(?:-backports|-security)?))"
    r"(?:-(?P<flavour>cloud|rt|686))?"
)
# what names of kernels end in, where that is not the name of the packages' architecture
_OWN_NAMES = {
    "powerpc64le": "ppc64el",
    "armmp": "armhf",
    "686-pae": "i386",
    "686": "i386",
    "mips64r2el": "mips64el",
}
_FLAVOURS = {"686": "686"}  # those of them that name a further flavour
_ENDINGS = "|".join(sorted({*PACKAGED} - {*_OWN_NAMES.values()} | {*_OWN_NAMES}))
# linux-image-6.1.0-47-cloud-amd64, linux-image-6.12.107+deb12-amd64-unsigned
_PACKAGE = re.compile(
    r"linux-image-(?P<release>(?P<version>\d[0-9.+~a-z]*(?:-[0-9.a-z]*\d)?)"
    rf"(?:-(?P<flavour>cloud|rt))?-(?P<arch>{_ENDINGS}))(?P<unsigned>-unsigned)?"
)


class Debian:
    """The archives of Debian, of which each suite is read once."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._mirror = access.place(MIRROR)
        self._read = cache(self._packages)
        # what cannot be read need not matter; by architectures
        self._wrong: dict[str, UnfitError] = {}

    def find(self, name: str) -> Offer:
        """Return the newest kernel of a name such as 6.12, latest-cloud or sid-arm64.

        The release of a kernel and the name of its package are names, too.
        """
        rest, architecture = split_name(name)
        wanted = _plain(rest)
        if not wanted:
            return self._exact(name)
        suites: list[tuple[str, ...]]
        if wanted["suite"]:
            suites = [(wanted["suite"], f"{wanted['suite']}-security")]
        else:
            suites = [_SHORT] + [(suite,) for suite in _LONG if wanted["series"]]
        found = (
            [
                offer._replace(name=name)
                for offer in self._offers(some, architecture)
                if _matches(offer, wanted["series"], wanted["flavour"])
            ]
            for some in suites
        )
        try:
            return self._newest(found, name, architecture)
        except UnknownNameError as error:
            error.near = self._near(wanted, architecture)
            raise

    def _near(self, wanted: re.Match[str], architecture: str) -> list[str]:
        """Return the series before and behind one that the archive does not have."""
        if not wanted["series"]:
            return []
        series = {
            tuple(map(int, found[0].split(".")))
            for offer in self._offers(_SHORT, architecture)
            if (found := re.match(r"\d+\.\d+", offer.release))
            and _matches(offer, None, wanted["flavour"])
        }
        asked = tuple(map(int, wanted["series"].split(".")))
        near = [*sorted(s for s in series if s < asked)[-1:]]
        near += sorted(s for s in series if s > asked)[:1]
        flavour = f"-{wanted['flavour']}" if wanted["flavour"] else ""
        ending = flavour + (f"-{architecture}" if architecture != DEFAULT else "")
        return [f"{major}.{minor}{ending}" for major, minor in near]

    def _exact(self, name: str) -> Offer:
        wanted = _PACKAGE.fullmatch(f"linux-image-{name.removeprefix('linux-image-')}")
        if not wanted:
            raise UnknownNameError(
                f"{name} is no name of Debian's kernels, as 6.12-cloud is"
            )
        architecture = _OWN_NAMES.get(wanted["arch"], wanted["arch"])
        found = (
            [
                offer._replace(name=name)
                for offer in self._offers(some, architecture)
                if offer.release == wanted["release"]
            ]
            for some in (_SHORT, _LONG)
        )
        return self._newest(found, name, architecture)

    def _newest(
        self, found: Iterator[list[Offer]], name: str, architecture: str
    ) -> Offer:
        """Return the newest kernel of the first suites that have one.

        An index may still name packages that the archive has removed, as after the
        end of a release's support.
        """
        for offers in found:
            while offers:
                best = newest(offers, name, "")
                if all(fetch.each(fetch.is_there, list(best.files))):
                    return best
                offers.remove(best)
        if architecture in self._wrong:
            raise self._wrong[architecture]
        return newest([], name, "Debian's archive")

    def available(self) -> Iterator[Offer]:
        """Return the newest of each series and flavour, of every architecture.

        Raises UnfitError behind them if no suite of an architecture can be read.
        """
        for architecture in PACKAGED:
            best: dict[str, Offer] = {}
            offers = [*self._offers(_SHORT, architecture)]
            for offer in offers or self._offers(_LONG, architecture):
                found = _PACKAGE.fullmatch(f"linux-image-{offer.release}")
                assert found
                series = ".".join(found["version"].split(".")[:2]).partition("+")[0]
                arch = architecture if architecture != DEFAULT else ""
                parts = series.partition("-")[0], _flavour(found), arch
                name = "-".join(filter(None, parts))
                row = offer._replace(name=name)
                best[name] = newest([row, best.get(name, row)], name, "")
            if best:  # else what cannot be read does matter
                self._wrong.pop(architecture, None)
            yield from best.values()
        for error in self._wrong.values():
            raise error

    def _offers(self, suites: tuple[str, ...], architecture: str) -> Iterator[Offer]:
        """Return all kernels of some suites; those that are signed come first."""
        read = fetch.each(lambda suite: self._read(suite, architecture), list(suites))
        found: dict[str, Offer] = {}
        for packages in read:
            for package in sorted(packages.values(), key=lambda row: len(row.name)):
                match = _PACKAGE.fullmatch(package.name)
                if not match or match["release"] in found:
                    continue
                parts = deb_archive.with_parts(package, packages)
                if any(_PACKAGE.fullmatch(part.name) for part in parts[1:]):
                    continue  # it has no kernel itself, and stands for the newest
                found[match["release"]] = Offer(
                    "",
                    match["release"],
                    package.version,
                    package.suite,
                    deb_archive.files(parts),
                    deb_archive.missing(parts),
                )
        yield from found.values()

    def _packages(self, suite: str, architecture: str) -> dict[str, Package]:
        """Return what a suite has, which is nothing if there is no such suite."""
        mirrors = [self._mirror]
        if suite.startswith(ARCHIVED) and not self._access.mirror:
            mirrors.append(ARCHIVE)
        for mirror in mirrors:
            if suite.endswith("-security"):
                mirror = f"{mirror.removesuffix('/debian')}/debian-security"
            place = Suite(mirror, suite)
            try:
                return deb_archive.packages(place, architecture, KEYS, self._access)
            except fetch.MissingError:
                continue
            except UnfitError as error:
                self._wrong.setdefault(architecture, error)
                break
        return {}


def is_name(name: str) -> bool:
    """Return True if a name may be that of a kernel of Debian, without debian:."""
    exact = f"linux-image-{name.removeprefix('linux-image-')}"
    return bool(_plain(split_name(name)[0]) or _PACKAGE.fullmatch(exact))


def _plain(name: str) -> re.Match[str] | None:
    """Match 6.1, 6.12-cloud, latest-rt or trixie-backports. 24.04 is Ubuntu's."""
    found = _NAME.fullmatch(name)
    return None if found and found["series"] in UBUNTU else found


def _flavour(package: re.Match[str]) -> str | None:
    """Return the flavour in a package's name, as names of kernels have it."""
    return package["flavour"] or _FLAVOURS.get(package["arch"])


def _matches(offer: Offer, series: str | None, flavour: str | None) -> bool:
    found = _PACKAGE.fullmatch(f"linux-image-{offer.release}")
    assert found
    if _flavour(found) != flavour:
        return False
    return not series or bool(re.match(re.escape(series) + r"(?!\d)", found["version"]))
