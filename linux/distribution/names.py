# SPDX-License-Identifier: GPL-2.0-or-later
"""Guess the kernel meant by an unknown name: 6.1.0, v6.12, trixie, debian:12.

Nothing here asks an archive. A name is returned only if 'kpfs kernel make' knows it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator

from kpfs.linux.arch.arches import DEFAULT, PACKAGED, split_name

DEBIAN = {
    "10": "buster", "11": "bullseye", "12": "bookworm", "13": "trixie", "14": "forky",
    "stable": "trixie", "testing": "forky", "unstable": "sid",
}  # fmt: skip
DEBIAN_SUITES = frozenset({*DEBIAN.values(), "sid", "experimental"})
UBUNTU = {
    "20.04": "focal", "22.04": "jammy", "24.04": "noble", "25.10": "questing",
    "26.04": "resolute",
}  # fmt: skip
# The series of Debian's releases. Its archive has newer ones for a time, and no others.
_SERIES_OF_DEBIAN = (5, 10), (6, 1), (6, 12)
# what others call a distribution, or a part of one
_WHOSE = {
    "almalinux": "alma", "rhel": "alma", "rocky": "alma", "centos": "alma",
    "amazonlinux": "amazon", "al": "amazon", "amzn": "amazon",
    "archlinux": "arch", "suse": "opensuse", "fc": "fedora",
}  # fmt: skip
_WHOLE = {
    "arch": "arch:linux", "archlinux": "arch:linux", "debian": "debian:trixie",
    "ubuntu": "ubuntu:24.04", "opensuse": "opensuse:tumbleweed", "newest": "latest",
    "tumbleweed": "opensuse:tumbleweed", "stable": "debian:trixie",
}  # fmt: skip
_MACHINES = {"x86_64": "amd64", "x64": "amd64", "aarch64": "arm64", "arm": "arm64"}
_SERIES = re.compile(r"(\d+\.\d+)(?:\.\d+)*(?P<rest>(?:-[a-z]+)*)")
_OF_DISTRIBUTION = re.compile(r"([a-z]+)[ :._-]*(\d[\d.]*)(.*)")
_CLOSE = 0.75  # cutoff for difflib


def meant(name: str, there: Iterable[str] = ()) -> list[str]:
    """Return what a name may have meant, the likeliest first; none: nobody knows.

    there: names of kernels that were made.
    """
    found = [word for word in _spelled(name) if word != name]
    return found or difflib.get_close_matches(name, list(there), cutoff=_CLOSE)


def _spelled(name: str) -> Iterator[str]:
    """Return other spellings of a name that are right."""
    word = re.sub(r"^(linux|kernel)[-_ ]", "", name.strip().lower())
    word = re.sub(r"^v(?=\d)", "", word)
    base, dash, machine = word.rpartition("-")
    machine = _MACHINES.get(machine, machine)
    ending = ""
    if dash and machine in PACKAGED:
        word, ending = base, "" if machine == DEFAULT else f"-{machine}"
    for plain in _without_machine(word):
        yield plain + ending


def _without_machine(word: str) -> Iterator[str]:
    whose, colon, rest = word.rpartition(":")
    suite, _, flavour = rest.partition("-")
    flavour = f"-{flavour}" if flavour else ""
    if whose in ("", "debian") and suite in DEBIAN_SUITES:
        yield f"debian:{suite}{flavour}"
    elif whose in ("", "ubuntu") and suite in UBUNTU.values():
        yield f"ubuntu:{suite}{flavour}"
    elif not colon and suite in UBUNTU:
        yield f"ubuntu:{suite}{flavour}"
    elif not colon and word in _WHOLE:
        yield _WHOLE[word]
    elif whose in ("", "debian") and (found := _SERIES.fullmatch(rest)):
        for series in _there(found[1]):
            yield series + found["rest"]
    elif found := _OF_DISTRIBUTION.fullmatch(word):
        yield from _of_distribution(*found.groups())
    elif whose in ("debian", "ubuntu") and suite in DEBIAN:
        yield f"debian:{DEBIAN[suite]}{flavour}"


def _there(series: str) -> list[str]:
    """Return a series that Debian's archive may have, else those before and behind."""
    asked = tuple(map(int, series.split(".")))
    if asked in _SERIES_OF_DEBIAN or asked > max(_SERIES_OF_DEBIAN):
        return [series]
    near = [*sorted(s for s in _SERIES_OF_DEBIAN if s < asked)[-1:]]
    near += sorted(s for s in _SERIES_OF_DEBIAN if s > asked)[:1]
    return [f"{major}.{minor}" for major, minor in near]


def is_known(name: str) -> bool | None:
    """Return False for a series that Debian's archive has no more.

    None: only the archive knows, as it has newer series than Debian's releases.
    """
    found = _SERIES.fullmatch(split_name(name.removeprefix("debian:"))[0])
    if not found:
        return True
    series = tuple(map(int, found[1].split(".")))
    return None if series > max(_SERIES_OF_DEBIAN) else series in _SERIES_OF_DEBIAN


def _of_distribution(whose: str, version: str, rest: str) -> Iterator[str]:
    whose = _WHOSE.get(whose, whose)
    if whose == "debian":
        major = version.partition(".")[0]
        if major in DEBIAN:
            yield f"debian:{DEBIAN[major]}{rest}"
    elif whose in ("ubuntu", "fedora", "alma", "amazon"):
        yield f"{whose}:{version}{rest}"
    elif whose in ("opensuse", "leap"):
        yield "opensuse:tumbleweed"


def asked(words: Iterable[str]) -> str:
    """Return the question whether one of these was meant; "" if there is none."""
    some = " or ".join(words)
    return f"did you mean {some}?" if some else ""
