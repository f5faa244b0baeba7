# SPDX-License-Identifier: GPL-2.0-or-later
"""What depmod makes of a kernel's modules: the tables of modprobe and modinfo.

Packages come without them, as each host runs depmod itself.
Document: depmod(8), modules.dep(5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kpfs.linux.store.aliases import normalized
from kpfs.linux.store.module_index import Row, index

DEP, ALIAS, SOFTDEP, SYMBOLS = (
    "modules.dep", "modules.alias", "modules.softdep", "modules.symbols",
)  # fmt: skip
BUILTIN, BUILTIN_ALIAS = "modules.builtin", "modules.builtin.alias"


class Module(NamedTuple):
    """What a module says of itself."""

    name: str
    path: str  # below /lib/modules/RELEASE
    depends: Sequence[str]  # names
    aliases: Sequence[str]
    softdeps: Sequence[str]
    symbols: Sequence[str]  # that it exports


def tables(
    modules: Iterable[Module],
    builtin: Iterable[str],
    builtin_aliases: Iterable[tuple[str, str]],
) -> dict[str, bytes]:
    """Files by their names.

    modules: in the order of modules.order; builtin: names of what needs no module;
    builtin_aliases: patterns and names.
    """
    there = {module.name: module for module in modules}
    rows = list(enumerate(there.values()))
    places = _places(there)
    dep = [(n, each.name, _dependencies(each, there, places)) for n, each in rows]
    alias = [(n, text, each.name) for n, each in rows for text in each.aliases]
    symbol = [(n, f"symbol:{s}", each.name) for n, each in rows for s in each.symbols]
    softdep = [(n, each.name, text) for n, each in rows for text in each.softdeps]
    return {
        DEP: "".join(f"{line}\n" for _, _, line in dep).encode(),
        f"{DEP}.bin": index(dep),
        ALIAS: _lines("alias", alias),
        f"{ALIAS}.bin": index((n, normalized(key), name) for n, key, name in alias),
        SYMBOLS: _lines("alias", symbol),
        f"{SYMBOLS}.bin": index(symbol),
        SOFTDEP: _lines("softdep", softdep),
        f"{BUILTIN}.bin": index((0, name, "") for name in builtin),
        f"{BUILTIN_ALIAS}.bin": index(
            (0, normalized(pattern), name) for pattern, name in builtin_aliases
        ),
    }


def _lines(word: str, rows: Iterable[Row]) -> bytes:
    return "".join(f"{word} {key} {value}\n" for _, key, value in rows).encode()


def _places(there: Mapping[str, Module]) -> dict[str, int]:
    """An order in which those that need others come before them."""
    users = dict.fromkeys(there, 0)
    for module in there.values():
        for name in module.depends:
            if name in users:
                users[name] += 1
    free = [name for name, count in users.items() if not count]
    places: dict[str, int] = {}
    while free:
        name = free.pop()
        places[name] = len(places)
        for other in there[name].depends:
            if other in users:
                users[other] -= 1
                if not users[other]:
                    free.append(other)
    return places


def _dependencies(
    module: Module, there: Mapping[str, Module], places: Mapping[str, int]
) -> str:
    """A line of modules.dep: those come last that are to be loaded first."""
    found, queue = {module.name}, [module.name]
    while queue:
        for name in there[queue.pop()].depends:
            if name in there and name not in found:
                found.add(name)
                queue.append(name)
    # in a circle nobody has a place
    order = sorted(
        found - {module.name}, key=lambda name: (places.get(name, len(places)), name)
    )
    return " ".join((f"{module.path}:", *(there[name].path for name in order)))
