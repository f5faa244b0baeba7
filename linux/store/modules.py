# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel's modules, beside its image; see modinfo(8).

Most distributions pack each module. Such modules are files below a root directory, as
kmod's programs look for them, and images of one package share them by hard links.
Modules that are not packed are kept in an archive, each packed by zstd, which makes a
third of their size of them.
Exports, and images of older versions of kpfs, have archives of all modules.
"""

from __future__ import annotations

import lzma
import os
import re
import shutil
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from threading import Event
from typing import NamedTuple

from kpfs.base.elf import ANY_MACHINE, ElfFile
from kpfs.base.errors import KernelError
from kpfs.linux.errors import UnfitError
from kpfs.linux.package.compression import (
    MAX_UNPACKED,
    ZSTD,
    decompress,
    too_large,
    zstd_packer,
)
from kpfs.linux.package.packages import is_module_file, read_regular

_BUILTIN = "modules.builtin"
_PLACE = "lib/modules"  # below the root directory
MAX_MODULE = 256 << 20  # bytes of a module's file
_TIME = (1980, 1, 1, 0, 0, 0)
_LEVEL = 1  # zstd's: a third of the time that zlib's takes, and 0.28 of the size
_MAX_NEEDED = 1000  # modules that one depends on
# errors of zipfile and zlib for damaged archives; several are their own faults
_DAMAGED = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, EOFError, ValueError),
    *(struct.error, NotImplementedError, RuntimeError, OverflowError, KeyError),
    *(IndexError, lzma.LZMAError, LookupError),
)
_UNPACKED = ".ko"
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
    pack = zstd_packer(_LEVEL)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files:
            if given_up.is_set():
                return
            if name in archive.NameToInfo:
                raise UnfitError(f"the package has two files {name}")
            entry = zipfile.ZipInfo(name, _TIME)
            if name.endswith(_UNPACKED):
                data = pack(data)
            elif not _FILE.search(name):
                entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)


def keep(
    files: Iterable[tuple[str, bytes]], path: str, release: str, given_up: Event
) -> None:
    """Keep modules, by paths and contents, at a path where nothing is yet.

    given_up: when it is set, the rest is not wanted.
    """
    files = iter(files)
    first: list[tuple[str, bytes]] = []  # files up to the first module
    for each in files:
        first.append(each)
        if module := _FILE.search(each[0]):
            if module["packing"]:
                _write_tree(chain(first, files), place(path, release), given_up)
                return
            break
    write_archive(chain(first, files), path, given_up)


def place(path: str, release: str) -> str:
    """Return where the modules are that are kept as files at a path."""
    return os.path.join(path, _PLACE, release)


def _write_tree(
    files: Iterable[tuple[str, bytes]], folder: str, given_up: Event
) -> None:
    """Write the files below a folder that does not exist; OSError, UnfitError."""
    made = ""
    for name, data in files:
        if given_up.is_set():
            return
        path = os.path.normpath(os.path.join(folder, name))
        try:
            if not path.startswith(f"{folder}/"):
                raise ValueError
            if (parent := os.path.dirname(path)) != made:
                os.makedirs(parent, exist_ok=True)
                made = parent
            with open(path, "xb") as file:
                file.write(data)
        except (FileExistsError, NotADirectoryError):
            raise UnfitError(f"the package has two files {name}") from None
        except ValueError:
            raise UnfitError(f"the package has a file {name!r}") from None


def share(path: str, new: str) -> None:
    """Give an image the modules of another one, by hard links; OSError.

    Neither writes into a file: depmod puts new ones in their places.
    """
    if os.path.isdir(path):
        shutil.copytree(path, new, copy_function=os.link)
    else:
        os.link(path, new)


def as_archive(path: str, new: str) -> str:
    """Return the path of an archive of modules, which is written at new if need be."""
    if not os.path.isdir(path):
        return path
    write_archive(ModuleArchive(path).files(), new, Event())
    return new


def as_files(path: str, release: str) -> None:
    """Keep the modules of an archive as files if all are packed; OSError.

    A damaged archive stays, for the errors of those that use it.
    """
    new = f"{path}.new"
    try:
        with ModuleArchive(path) as archive:
            if not archive.is_packed:
                return
            archive.unpack(place(new, release))
    except UnfitError:
        shutil.rmtree(new, ignore_errors=True)
        return
    os.unlink(path)
    os.rename(new, path)


class _Size(NamedTuple):
    """The part of ZipInfo that ModuleArchive uses."""

    file_size: int


class _Tree:
    """Files below lib/modules/RELEASE of a root, with the methods of ZipFile."""

    def __init__(self, root: str) -> None:
        above = os.path.join(root, _PLACE)
        self._top = os.path.join(above, *os.listdir(above)[:1])

    def namelist(self) -> list[str]:
        """Return the sorted paths of all modules and lists of them."""
        return sorted(
            os.path.join(folder, name)[len(self._top) + 1 :]
            for folder, _, names in os.walk(self._top)
            for name in names
            if is_module_file(name)
        )

    def getinfo(self, name: str) -> _Size:
        return _Size(os.stat(os.path.join(self._top, name)).st_size)

    def read(self, name: str) -> bytes:
        return read_regular(os.path.join(self._top, name))

    def link(self, folder: str, names: Iterable[str]) -> None:
        """Make links to files below a folder."""
        for name in names:
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(os.path.join(self._top, name), path)

    def close(self) -> None:
        """Do nothing: nothing is open."""


class ModuleArchive:
    """The files below /lib/modules/RELEASE.  Names of modules may have - for _."""

    def __init__(self, path: str) -> None:
        """Open what keep() or write_archive() wrote.  UnfitError: it is damaged."""
        self._path = path
        self._archive: zipfile.ZipFile | _Tree
        try:
            is_tree = os.path.isdir(path)
            self._archive = _Tree(path) if is_tree else zipfile.ZipFile(path)
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

    @property
    def is_packed(self) -> bool:
        """True if the package has packed each of its modules."""
        return not any(name.endswith(_UNPACKED) for name in self._files.values())

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield all paths and contents.  Raises UnfitError."""
        return ((name, self._file(name)) for name in self._archive.namelist())

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
        if path.endswith(_UNPACKED):
            return data
        return decompress(data, f"{path}: the module")

    def _file(self, path: str) -> bytes:
        """Unpack a file.  Raises UnfitError."""
        try:
            if self._archive.getinfo(path).file_size > MAX_MODULE:
                raise UnfitError(too_large(f"{self._path}: {path}", MAX_MODULE))
            data = self._archive.read(path)
        except (*_DAMAGED, OSError):
            raise self._damaged() from None
        if path.endswith(_UNPACKED) and data.startswith(ZSTD):
            return decompress(data, f"{self._path}: {path}", MAX_MODULE)
        return data

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
        archive = self._archive
        names = [
            name
            for name in archive.namelist()
            if is_module_file(os.path.basename(name))
        ]
        os.makedirs(folder)
        if isinstance(archive, _Tree):
            archive.link(folder, names)
        else:
            _write_tree(self._some(names), folder, Event())

    def _some(self, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield some files as files() does, up to MAX_UNPACKED bytes."""
        size = 0
        for name in names:
            data = self._file(name)
            size += len(data)
            if size > MAX_UNPACKED:
                raise UnfitError(too_large(self._path))
            yield name, data
