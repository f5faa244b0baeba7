# SPDX-License-Identifier: GPL-2.0-or-later
"""What modprobe.d says of modules.

Document: modprobe.d(5).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from fnmatch import fnmatchcase

from kpfs.linux.store.aliases import normalized

FOLDERS = (
    "/etc/modprobe.d",
    "/run/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
)


class ModprobeConf:
    """Lines of the form ``COMMAND NAME REST``, in their order."""

    def __init__(self, text: str = "", cmdline: str = "") -> None:
        """cmdline: of the kernel, which may have MODULE.PARAMETER=VALUE in it."""
        self._rows: list[tuple[str, str, str]] = []
        for line in text.replace("\\\n", " ").splitlines():
            command, _, rest = line.strip().partition(" ")
            name, _, rest = rest.strip().partition(" ")
            if name and not command.startswith("#"):
                self._rows.append((command, normalized(name), rest.strip()))
        self._read_cmdline(cmdline)

    def _read_cmdline(self, cmdline: str) -> None:
        for word in cmdline.split():
            key, _, value = word.partition("=")
            module, dot, parameter = key.partition(".")
            if key in ("modprobe.blacklist", "module_blacklist"):
                rows = (("blacklist", normalized(n), "") for n in value.split(","))
                self._rows.extend(rows)
            elif dot and module and parameter:
                option = f"{parameter}={value}" if value else parameter
                self._rows.append(("options", normalized(module), option))

    def _of(self, command: str, name: str) -> list[str]:
        return [
            rest
            for kind, pattern, rest in self._rows
            if kind == command and fnmatchcase(name, pattern)
        ]

    def aliases(self, word: str) -> list[str]:
        """The modules that a word stands for."""
        found = self._of("alias", normalized(word))
        return list(dict.fromkeys(normalized(name) for name in found))

    def options(self, name: str) -> list[str]:
        """Parameters for a module."""
        return self._of("options", name)

    def is_blacklisted(self, name: str) -> bool:
        return bool(self._of("blacklist", name))

    def command(self, kind: str, name: str) -> str:
        """What is run instead; kind: install or remove.  "": nothing."""
        return next(iter(self._of(kind, name)), "")

    def softdeps(self, name: str) -> list[str]:
        """The first line about a module, if there is one."""
        return self._of("softdep", name)[:1]


def read_conf(folders: Iterable[str] = FOLDERS, cmdline: str = "") -> ModprobeConf:
    """Files *.conf by their names; of several of one name, that of the first folder."""
    files: dict[str, str] = {}
    for folder in folders:
        if os.path.isfile(folder):
            files.setdefault(os.path.basename(folder), folder)
            continue
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            if name.endswith(".conf"):
                files.setdefault(name, os.path.join(folder, name))
    text = ""
    for _, path in sorted(files.items()):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                text += file.read() + "\n"
        except OSError:
            continue
    return ModprobeConf(text, cmdline)


def parameters(words: Iterable[str]) -> str:
    """Parameters as the kernel takes them: with quotes around what has spaces."""
    return " ".join(
        f'{key}{sign}"{value}"' if " " in value and '"' not in value else word
        for word in words
        for key, sign, value in (word.partition("="),)
    )
