# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of distributions, and what the names of their kernels mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

from kpfs.linux.distribution import debian, names
from kpfs.linux.distribution.arch_linux import ArchLinux
from kpfs.linux.distribution.debian import Debian
from kpfs.linux.distribution.offer import Access, Distribution, Offer
from kpfs.linux.distribution.rpm_archive import RPM_NAMES, RpmDistribution
from kpfs.linux.distribution.ubuntu import Ubuntu
from kpfs.linux.errors import UnfitError, UnknownNameError

DEFAULT = "debian"  # whose names need no "debian:"
DISTRIBUTIONS: dict[str, Callable[[Access], Distribution]] = {
    "debian": Debian,
    "ubuntu": Ubuntu,
    **{row.distribution: partial(RpmDistribution, row) for row in RPM_NAMES},
    "arch": ArchLinux,
}
_PLAIN = re.compile(r"latest\b.*|(linux-image-)?\d+\.\d.*")


def is_name(name: str) -> bool:
    """Return True if a name tells of a distribution's kernel: 6.12, fedora:43."""
    whose, colon, rest = name.rpartition(":")
    if colon and whose != DEFAULT:
        return whose in DISTRIBUTIONS
    return debian.is_name(rest) and bool(colon or _PLAIN.fullmatch(name))


def find(name: str, access: Access = Access()) -> Offer:  # noqa: B008 (immutable)
    """Return the newest kernel of a name.  Raises UnfitError."""
    whose, _, rest = name.rpartition(":")
    try:
        return distribution(whose or DEFAULT, access).find(rest)._replace(name=name)
    except UnknownNameError as error:
        likely = error.near or names.meant(name)
        raise UnfitError(f"{error}; {names.asked(likely)}".removesuffix("; ")) from None


def available(whose: str, access: Access) -> Iterator[Offer]:
    """Return the kernels of a distribution, by the names that find them."""
    yield from distribution(whose, access).available()


def distribution(name: str, access: Access) -> Distribution:
    if name not in DISTRIBUTIONS:
        known = ", ".join(DISTRIBUTIONS)
        raise UnknownNameError(f"{name} is no distribution that is known: {known}")
    return DISTRIBUTIONS[name](access)
