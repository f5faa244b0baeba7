# SPDX-License-Identifier: GPL-2.0-or-later
"""Which modules are loaded for a name, and in which order.

Document: modprobe(8), modprobe.d(5); libkmod: kmod_module_new_from_lookup(),
kmod_module_probe_insert_module().
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple, Protocol

from kpfs.linux.store.aliases import Aliases, normalized
from kpfs.linux.store.modprobe_conf import ModprobeConf


class Package(Protocol):
    """The modules of a kernel: kpfs.linux.store.modules.Modules."""

    def __contains__(self, name: str) -> bool: ...
    def is_builtin(self, name: str) -> bool: ...
    def depends(self, name: str) -> list[str]: ...
    def softdeps(self, name: str) -> list[str]: ...
    def aliases(self) -> Aliases: ...
    def builtin_aliases(self) -> Aliases: ...


class Found(NamedTuple):
    """A module that a word stands for."""

    name: str
    by_alias: bool  # then a blacklist counts


class Step(NamedTuple):
    """A module to load."""

    name: str
    required: bool  # else it may fail


class Prober:
    """Finds that out; raises KeyError where a module is missing that another needs."""

    def __init__(self, package: Package, conf: ModprobeConf | None = None) -> None:
        self.package = package
        self.conf = conf or ModprobeConf()

    @cached_property
    def _aliases(self) -> Aliases:
        return self.package.aliases()

    @cached_property
    def _builtin_aliases(self) -> Aliases:
        return self.package.builtin_aliases()

    def lookup(self, word: str) -> list[Found]:
        """The modules that a word stands for; []: none."""
        name = normalized(word)
        if found := self.conf.aliases(name):
            return [Found(each, by_alias=True) for each in found]
        if name in self.package or self.package.is_builtin(name):
            return [Found(name, by_alias=False)]
        if self.conf.command("install", name) or self.conf.command("remove", name):
            return [Found(name, by_alias=False)]
        found = self._aliases.lookup(name) or self._builtin_aliases.lookup(name)
        return [Found(each, by_alias=True) for each in found]

    # ---- the order
    def needed(self, name: str) -> list[str]:
        """The modules that one needs, those first that others need."""
        order: dict[str, None] = {}

        def visit(name: str, above: tuple[str, ...]) -> None:
            for other in self.package.depends(name):
                if other not in order and other not in above:
                    visit(other, (*above, name))
            order[name] = None

        if name in self.package:
            visit(name, ())
            del order[name]
        return list(order)

    def softdeps(self, name: str) -> tuple[list[str], list[str]]:
        """What is loaded before and after a module, if it is there."""
        lines = self.conf.softdeps(name)
        if not lines and name in self.package:
            lines = self.package.softdeps(name)[:1]  # as modprobe, which has one line
        before: list[str] = []
        after: list[str] = []
        part = before
        for word in " ".join(lines).split():
            if word in ("pre:", "post:"):
                part = before if word == "pre:" else after
            else:
                part += [found.name for found in self.lookup(word)]
        return before, after

    def steps(self, name: str, *, ignore_command: bool = False) -> list[Step]:
        """All that is loaded for a module, itself among them.

        ignore_command: it comes alone, behind what it needs, without its softdeps.
        """
        must = {name, *self.needed(name)}
        order: dict[str, None] = {}
        visited: set[str] = set()

        def visit(name: str) -> None:
            if name in visited:
                return
            visited.add(name)
            for each in self.needed(name):
                with_softdeps(each)
            if ignore_command and name in must:
                order[name] = None
            else:
                with_softdeps(name)

        def with_softdeps(name: str) -> None:
            before, after = self.softdeps(name)
            for each in before:
                visit(each)
            order.setdefault(name)
            for each in after:
                visit(each)

        visit(name)
        return [Step(each, each in must) for each in order]
