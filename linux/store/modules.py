# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel's modules, in an archive beside its image; see modinfo(8)."""

from __future__ import annotations

import lzma
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable
from threading import Event

from kpfs.base.elf import ANY_MACHINE, ElfFile
from kpfs.base.errors import KernelError
from kpfs.linux.errors import UnfitError
from kpfs.linux.package.compression import MAX_UNPACKED, decompress, too_large
from kpfs.linux.package.packages import is_module_file

_BUILTIN = "modules.builtin"
MAX_MODULE = 256 << 20  # bytes of a module's file
_TIME = (1980, 1, 1, 0, 0, 0)
_LEVEL = 1  # zlib's; said for each file, as ZipFile ignores its own for a ZipInfo
_MAX_NEEDED = 1000  # modules that one depends on
# errors of zipfile and zlib for damaged archives; several are their own faults
_DAMAGED = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, EOFError, ValueError),
    *(struct.error, NotImplementedError, RuntimeError, OverflowError, KeyError),
    *(IndexError, lzma.LZMAError, LookupError),
)
_FILE = re.compile(r"(?P<name>[^/]+)\.ko(?P<packing>\.xz|\.gz|\.zst)?$")


def module_name(word: str) -> str:
    """Return the kernel's name for a module, given its file or name."""
    name = _FILE.search(os.path.basename(word))
    return (name["name"] if name else word).replace("-", "_")


def modinfo(module: bytes, key: str) -> list[str]:
    """Return the values that a module's .modinfo has for a key.  Raises UnfitError."""
    try:
        image = ElfFile(module, ANY_MACHINE)
    except KernelError:
        raise UnfitError("the module is damaged") from None
    section = image.section(".modinfo")
    rows = image.data[section.offset :][: section.size] if section else b""
    found = (row.decode("utf-8", "replace").partition("=") for row in rows.split(b"\0"))
    return [value for name, _, value in found if name == key]


def write_archive(
    files: Iterable[tuple[str, bytes]], path: str, given_up: Event
) -> None:
    """Write an archive of paths and contents.  It does not depend on the time.

    given_up: when it is set, the rest is not wanted.
    """
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files:
            if given_up.is_set():
                return
            if name in archive.NameToInfo:
                raise UnfitError(f"the package has two files {name}")
            entry = zipfile.ZipInfo(name, _TIME)
            module = _FILE.search(name)
            if not (module and module["packing"]):
                entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data, compresslevel=_LEVEL)


class ModuleArchive:
    """The files below /lib/modules/RELEASE.  Names of modules may have - for _."""

    def __init__(self, path: str) -> None:
        """Open what write_archive() wrote.  Raises UnfitError if it is damaged."""
        self._path = path
        try:
            self._archive = zipfile.ZipFile(path)
        except _DAMAGED:
            raise self._damaged() from None
        self._files = {
            module_name(name): name
            for name in self._archive.namelist()
            if _FILE.search(name)
        }

    def _damaged(self) -> UnfitError:
        return UnfitError(f"{self._path}: the archive of modules is damaged")

    def __enter__(self) -> ModuleArchive:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def __contains__(self, name: str) -> bool:
        return module_name(name) in self._files

    def is_builtin(self, name: str) -> bool:
        """Return True if the kernel has a module without loading it."""
        if _BUILTIN not in self._archive.namelist():
            return False
        lines = self._file(_BUILTIN).decode("utf-8", "replace").splitlines()
        return module_name(name) in map(module_name, lines)

    def path(self, name: str) -> str:
        """Return a module's path below /lib/modules/RELEASE.  Raises KeyError."""
        return self._files[module_name(name)]

    def read(self, name: str) -> bytes:
        """Unpack a module's file; KeyError: no such module; UnfitError."""
        path = self.path(name)
        data = self._file(path)
        if path.endswith(".ko"):
            return data
        return decompress(data, f"{path}: the module")

    def _file(self, path: str) -> bytes:
        """Unpack a file.  Raises UnfitError."""
        try:
            if self._archive.getinfo(path).file_size > MAX_MODULE:
                raise UnfitError(too_large(f"{self._path}: {path}", MAX_MODULE))
            return self._archive.read(path)
        except (*_DAMAGED, OSError):
            raise self._damaged() from None

    def needed(self, name: str) -> list[str]:
        """Return the modules that a module depends on, in the order to load them.

        Raises KeyError if one of them is missing, and UnfitError.
        """
        order: dict[str, None] = {}
        found: dict[str, list[str]] = {}  # module -> those that it depends on
        todo = [name]
        while todo:
            each = todo[-1]
            if each not in found:
                if len(found) > _MAX_NEEDED:
                    raise self._damaged()
                words = ",".join(modinfo(self.read(each), "depends")).split(",")
                found[each] = list(map(module_name, filter(None, words)))
            others = [other for other in found[each] if other not in found]
            if others:
                todo.append(others[0])
            else:
                order[todo.pop()] = None
        del order[name]
        return list(order)

    def unpack(self, folder: str) -> None:
        """Write the modules and their lists below a folder; UnfitError, OSError.

        A stranger's archive may hold other files, as tables that programs of the host
        would believe.
        """
        rows = [
            row
            for row in self._archive.infolist()
            if is_module_file(os.path.basename(row.filename))
        ]
        if sum(row.file_size for row in rows) > MAX_UNPACKED:
            raise UnfitError(too_large(self._path))
        os.makedirs(folder)
        try:
            self._archive.extractall(folder, rows)
        except _DAMAGED:
            raise self._damaged() from None
