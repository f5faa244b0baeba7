# SPDX-License-Identifier: GPL-2.0-or-later
"""The modules of a kernel's package, which are kept with its image.

Document: modprobe(8), modinfo(8).
"""

from __future__ import annotations

import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Iterator

from kpfs.engine.errors import KernelError
from kpfs.guest.loader.elf import ElfFile
from kpfs.linux.errors import UnfitError

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


class Modules:
    """Modules in an archive, by their names."""

    def __init__(self, path: str) -> None:
        """path: the archive that kpfs.linux.make.make has written; UnfitError."""
        try:
            self._archive = zipfile.ZipFile(path)
        except zipfile.BadZipFile:
            raise UnfitError(f"{path}: the archive of modules is damaged") from None
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
        from kpfs.linux.package.packages import MAX_UNPACKED, unpack, zstd

        path = self.path(name)
        try:
            if self._archive.getinfo(path).file_size > MAX_UNPACKED:
                raise EOFError
            data = self._archive.read(path)
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

    def is_builtin(self, name: str) -> bool:
        """Whether the kernel has it without a module."""
        try:
            lines = self._archive.read("modules.builtin").decode().splitlines()
        except KeyError:
            return False
        return module_name(name) in map(module_name, lines)

    def needed(self, name: str) -> Iterator[tuple[str, bytes]]:
        """The modules that one needs, and itself at the end: names and files.

        Each comes behind those that it needs; KeyError where one is not there.
        """
        seen: set[str] = set()

        def walk(name: str) -> Iterator[tuple[str, bytes]]:
            name = module_name(name)
            if name in seen:
                return
            seen.add(name)
            data = self.read(name)
            for words in modinfo(data, "depends"):
                for other in filter(None, words.split(",")):
                    yield from walk(other)
            yield name, data

        return walk(name)
