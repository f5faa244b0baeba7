# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernels that a distribution offers, and the protocol of a distribution."""

from __future__ import annotations

import os
import re
import urllib.parse
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from kpfs.linux.errors import UnfitError, UnknownNameError
from kpfs.linux.package.digest import checked_digest

INSECURE = "--insecure-no-signature"
MAX_FILE = 1 << 30  # bytes, of which no package of a kernel has a quarter
_LONGEST_NAME = 200  # bytes; its folder on this host takes up to 255
_SAFE = "/%:@!$&'()*+,;=~"  # what stays as it is in a URL; archives may have quoted


class Access(NamedTuple):
    """How archives are asked."""

    mirror: str = ""  # URL in place of the distribution's own
    signed: bool = True  # False: take what no signature vouches for

    def place(self, own: str) -> str:
        """Return the URL of an archive without a last slash.  own: its usual one."""
        return (self.mirror or own).rstrip("/")

    def certified_place(self, own: str) -> str:
        """Return place() of an archive for which only its server's certificate vouches.

        Raises UnfitError if it has none.
        """
        place = self.place(own)
        if self.signed and not place.startswith("https:"):
            raise UnfitError(f"{place}: without https, say {INSECURE}")
        return place


class RemoteFile(NamedTuple):
    """A file of an archive, and how to know it again."""

    url: str
    size: int  # bytes
    digest: str  # hexadecimal
    algorithm: str = "sha256"

    @property
    def name(self) -> str:
        return os.path.basename(self.url)


def listed_file(
    place: str, path: str, size: str, digest: str, algorithm: str = "sha256"
) -> RemoteFile:
    """Return a file that an index lists, by its path below place.

    Everything that a server says of a file comes through here: its name and its digest
    become names of files on this host. Raises UnfitError.
    """
    url = f"{place}/{urllib.parse.quote(path, _SAFE)}"
    name = os.path.basename(url)
    try:
        if name in ("", ".", "..") or len(name) > _LONGEST_NAME:
            raise ValueError("that is no name of a file")
        if not re.fullmatch(r"[0-9]{1,18}", size) or int(size) > MAX_FILE:
            raise ValueError(f"its size is not a number up to {MAX_FILE}")
        return RemoteFile(url, int(size), checked_digest(algorithm, digest), algorithm)
    except ValueError as error:
        why = f"{name[:_LONGEST_NAME]}: {error}"
        raise UnfitError(f"{place}: its index is damaged: {why}") from None


class Offer(NamedTuple):
    """A kernel that a distribution offers."""

    name: str  # by which it is made
    release: str  # as uname -r will say it
    version: str  # its package's
    suite: str  # where it was found
    files: tuple[RemoteFile, ...]
    missing: tuple[str, ...] = ()  # packages of it that the archive has no more

    @property
    def origin(self) -> str:
        """Return the origin that the image of these files' kernel will name."""
        return " ".join(file.name for file in self.files)


class Distribution(Protocol):
    """One of the distributions; an object may keep what it has read of archives."""

    def find(self, name: str) -> Offer:
        """Return the newest kernel of a name.  Raises UnfitError."""
        ...

    def available(self) -> Iterable[Offer]:
        """Return the kernels that have names."""
        ...


def rank(version: str) -> tuple[list[int], bool, list[int]]:
    """Return what sorts versions: numbers, no candidate, numbers of the rest.

    7.3~rc7-1 comes before 7.3-1, and that before 7.3.4-1~bpo13+1.
    """
    found = re.match(r"[\d.]*", version)
    assert found
    rest = version[found.end() :]
    return _numbers(found[0]), not re.match(r"~?-?rc", rest), _numbers(rest)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"[0-9]{1,18}", text)]


def newest(offers: Iterable[Offer], name: str, where: str) -> Offer:
    """Return the newest of some kernels, of those that are whole if there are any.

    Raises UnfitError if there is none.
    """
    best = max(
        offers, key=lambda offer: (not offer.missing, rank(offer.version)), default=None
    )
    if best is None:
        raise UnknownNameError(
            f"{where} has no kernel {name}; 'kpfs kernel list --available' names those "
            "that are there"
        )
    return best
