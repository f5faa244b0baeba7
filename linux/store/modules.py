# SPDX-License-Identifier: GPL-2.0-or-later
"""The modules of a kernel's package, which are kept with its image.

Document: modprobe(8), modinfo(8).
"""

from __future__ import annotations

import contextlib
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Iterable
from functools import cached_property

from kpfs.engine.errors import KernelError
from kpfs.guest.loader.elf import ElfFile
from kpfs.linux.errors import UnfitError
from kpfs.linux.store.aliases import Aliases, normalized

ALIASES = "aliases"  # beside the archive
_FILE = re.compile(r"(?P<name>[^/]+)\.ko(?P<packing>\.xz|\.gz|\.zst)?$")


def module_name(word: str) -> str:
    """What the kernel calls a module of that file or name."""
    name = _FILE.search(os.path.basename(word))
    return (name["name"] if name else word).replace("-", "_")


def modinfo(module: bytes, key: str) -> list[str]:
    """The values that a module has under a name in .modinfo."""
    try:
        image = ElfFile(module)
        section = image.section(".modinfo")
    except KernelError:
        raise UnfitError("the module is damaged") from None
    words = module[section.offset :][: section.size] if section else b""
    found = (word.partition(b"=") for word in words.split(b"\0"))
    return [value.decode() for name, _, value in found if name.decode() == key]


def unpacked(path: str, data: bytes) -> bytes:
    """A module's file as it is without its packing; UnfitError."""
    from kpfs.linux.package.packages import unpack, zstd

    try:
        match path.rpartition(".")[2]:
            case "xz":
                return unpack(lzma.LZMADecompressor(), data)
            case "gz":
                return unpack(zlib.decompressobj(31), data)
            case "zst":
                return zstd(data)
    except (lzma.LZMAError, zlib.error, EOFError):
        raise UnfitError(f"{path}: the module is damaged") from None
    return data


def alias_table(modules: Iterable[tuple[str, bytes]]) -> str:
    """A line ``PATTERN MODULE`` for each other name that modules have."""
    rows = (
        f"{normalized(pattern)} {module_name(name)}\n"
        for name, data in modules
        for pattern in modinfo(data, "alias")
    )
    return "".join(sorted(rows))


class Modules:
    """Modules in an archive, by their names."""

    def __init__(self, path: str) -> None:
        """path: the archive that kpfs.linux.make.make has written; UnfitError."""
        try:
            self._archive = zipfile.ZipFile(path)
        except zipfile.BadZipFile:
            raise UnfitError(f"{path}: the archive of modules is damaged") from None
        self._path = path
        self._files = {
            module_name(name): name
            for name in self._archive.namelist()
            if _FILE.search(name)
        }

    def __enter__(self) -> Modules:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def __contains__(self, name: str) -> bool:
        return module_name(name) in self._files

    def path(self, name: str) -> str:
        """Where a module lies below /lib/modules/RELEASE."""
        return self._files[module_name(name)]

    def read(self, name: str) -> bytes:
        """A module's file, unpacked; UnfitError where that fails."""
        from kpfs.linux.package.packages import MAX_UNPACKED

        path = self.path(name)
        if self._archive.getinfo(path).file_size > MAX_UNPACKED:
            raise UnfitError(f"{path}: the module is damaged")
        return unpacked(path, self._archive.read(path))

    def is_builtin(self, name: str) -> bool:
        """Whether the kernel has it without a module."""
        return module_name(name) in self._builtin

    @cached_property
    def _builtin(self) -> frozenset[str]:
        try:
            lines = self._archive.read("modules.builtin").decode().splitlines()
        except KeyError:
            return frozenset()
        return frozenset(map(module_name, lines))

    def names(self) -> list[str]:
        return list(self._files)

    def depends(self, name: str) -> list[str]:
        """The modules that one needs itself; KeyError: there is no such."""
        words = modinfo(self.read(name), "depends")
        return [module_name(word) for row in words for word in row.split(",") if word]

    def softdeps(self, name: str) -> list[str]:
        """The lines of a module that say what is loaded before and after it."""
        return modinfo(self.read(name), "softdep")

    def aliases(self) -> Aliases:
        """Their other names, which are found out once and kept beside the archive."""
        kept = os.path.join(os.path.dirname(self._path), ALIASES)
        try:
            with open(kept, encoding="utf-8") as file:
                return Aliases(file.read())
        except OSError:
            text = alias_table((name, self.read(name)) for name in self._files)
            _keep(text, kept)
            return Aliases(text)

    def builtin_aliases(self) -> Aliases:
        """The other names of what needs no module."""
        try:
            rows = self._archive.read("modules.builtin.modinfo").split(b"\0")
        except KeyError:
            return Aliases("")
        found = []
        for row in rows:
            key, _, pattern = row.decode("latin-1").partition("=")
            name, _, what = key.rpartition(".")
            if what == "alias":
                found.append(f"{normalized(pattern)} {name}\n")
        return Aliases("".join(found))


def _keep(text: str, path: str) -> None:
    """Write a file that somebody else may write too, if that is allowed."""
    made = f"{path}.{os.getpid()}"
    try:
        with open(made, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(made, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(made)
