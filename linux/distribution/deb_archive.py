# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads archives of .deb packages: those of Debian and of Ubuntu.

Format: DebianRepository/Format of Debian's wiki, deb822(5).  How old an index is does
not matter here: who holds one back hides a newer kernel, and no more.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kpfs.linux.distribution import fetch, signature
from kpfs.linux.distribution.offer import Access, RemoteFile, listed_file
from kpfs.linux.errors import UnfitError
from kpfs.linux.package.compression import decompress

_CHECKSUMS = re.compile(r"^SHA256:\n((?: .*\n)*)", re.M)
_BY_HASH = re.compile(r"^Acquire-By-Hash: yes$", re.M)
KERNELS = r"linux-(?:image|binary|modules|base)-.*"
_FIELD = re.compile(r"^(\w[\w-]*): *(.*)$", re.M)
_PART = re.compile(r"linux-(?:image|binary|modules|base)-(?:extra-)?\d[^\s,|(:]*")


class Package(NamedTuple):
    """A package of a kernel, or of a part of one."""

    name: str
    version: str
    suite: str
    depends: tuple[str, ...]  # names of those of the same kernel
    file: RemoteFile


class Suite(NamedTuple):
    mirror: str  # URL without a slash at its end
    name: str


def packages(
    suite: Suite,
    architecture: str,
    keys: signature.Keys,
    access: Access,
    wanted: str = KERNELS,
) -> dict[str, Package]:
    """Return the packages of kernels in a suite, by name.

    wanted: a regular expression for the names, if others are wanted.
    Raises MissingError if the archive has no such suite, UnfitError.
    """
    place = f"{suite.mirror}/dists/{suite.name}"
    path = f"main/binary-{architecture}/Packages.xz"
    if access.signed:
        release = fetch.read(f"{place}/InRelease")
        text = signature.checked(release, keys, f"{place}/InRelease")
        index = _read_index(text.decode("utf-8", "replace"), place, path)
    else:
        index = fetch.read(f"{place}/{path}")
    return _parse(decompress(index, f"{place}/{path}"), suite, wanted)


def _read_index(release: str, place: str, path: str) -> bytes:
    """Read an index that a release names.  Raises UnfitError."""
    block = _CHECKSUMS.search(release + "\n")
    for line in block[1].splitlines() if block else ():
        words = line.split()
        if len(words) == 3 and words[2] == path:
            file = listed_file(place, path, words[1], words[0])
            if _BY_HASH.search(release):
                # while an archive changes, the plain name may have another index
                folder = os.path.dirname(file.url)
                with contextlib.suppress(UnfitError):  # a mirror may lack it
                    by_hash = f"{folder}/by-hash/SHA256/{file.digest}"
                    return fetch.read_checked(file._replace(url=by_hash))
            return fetch.read_checked(file)
    raise fetch.MissingError(f"{place}: it has no {path}")


def _parse(index: bytes, suite: Suite, wanted: str) -> dict[str, Package]:
    found = {}
    # debug information, of gigabytes, is not wanted
    begin = re.compile(rf"^Package: (?:{wanted})(?<!-dbg)$".encode(), re.M)
    index += b"\n\n"
    for match in begin.finditer(index):
        stanza = index[match.start() : index.index(b"\n\n", match.start())]
        fields = dict(_FIELD.findall(stanza.decode("utf-8", "replace")))
        try:
            told = fields["Filename"], fields["Size"], fields["SHA256"]
            file = listed_file(suite.mirror, *told)
            parts = tuple(_PART.findall(fields.get("Depends", "")))
            row = Package(fields["Package"], fields["Version"], suite.name, parts, file)
        except KeyError as error:
            why = f"{fields.get('Package', 'a package')} has no {error.args[0]}"
            raise UnfitError(f"{suite.mirror}: its index is damaged: {why}") from None
        found[row.name] = row
    return found


def with_parts(package: Package, others: Mapping[str, Package]) -> list[Package]:
    """Return a package and those of the same kernel that it depends on."""
    found = {package.name: package}
    waiting = [package]
    while waiting:
        for name in waiting.pop().depends:
            if name not in found and name in others:
                found[name] = others[name]
                waiting.append(others[name])
    return list(found.values())


def missing(packages: Sequence[Package]) -> tuple[str, ...]:
    """Return the names that packages depend on and that are not among them.

    linux-base-RELEASE does not count: a kernel and its modules work without.
    """
    there = {package.name for package in packages}
    wanted = (name for package in packages for name in package.depends)
    return tuple(
        name
        for name in dict.fromkeys(wanted)
        if name not in there and not name.startswith("linux-base-")
    )


def files(packages: Iterable[Package]) -> tuple[RemoteFile, ...]:
    return tuple(package.file for package in packages)
