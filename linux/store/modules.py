# SPDX-License-Identifier: GPL-2.0-or-later
"""The modules of a kernel's package, which are kept with its image.

Document: modprobe(8), modinfo(8).
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import IO

from kpfs.base.errors import KernelError
from kpfs.guest.loader.elf import ElfFile
from kpfs.linux.errors import UnfitError
from kpfs.linux.package.compression import MAX_UNPACKED, decompress
from kpfs.linux.store import depmod
from kpfs.linux.store.aliases import Aliases, normalized

TABLES = "tables"  # of depmod, beside the archive
BUILTIN, ORDER = "modules.builtin", "modules.order"
BUILTIN_INFO = "modules.builtin.modinfo"
_TIME = (1980, 1, 1, 0, 0, 0)
_EXPORT = "__ksymtab_"  # what symbols begin with that say what a module exports
_ALIAS = "alias "  # what lines of modules.alias begin with
_FILE = re.compile(r"(?P<name>[^/]+)\.ko(?P<packing>\.xz|\.gz|\.zst)?$")


def module_name(word: str) -> str:
    """What the kernel calls a module of that file or name."""
    name = _FILE.search(os.path.basename(word))
    return (name["name"] if name else word).replace("-", "_")


def modinfo(module: bytes, key: str) -> list[str]:
    """The values that a module has under a name in .modinfo."""
    words = _strings(_elf(module), ".modinfo")
    found = (word.partition("=") for word in words)
    return [value for name, _, value in found if name == key]


def _elf(module: bytes) -> ElfFile:
    try:
        return ElfFile(module)
    except KernelError:
        raise UnfitError("the module is damaged") from None


def _strings(image: ElfFile, name: str) -> list[str]:
    """Those of a section, each of which ends with NUL."""
    section = image.section(name)
    words = image.data[section.offset :][: section.size] if section else b""
    return [word.decode("utf-8", "replace") for word in words.split(b"\0") if word]


def unpacked(path: str, data: bytes) -> bytes:
    """Return a module's file without its compression.  Raises UnfitError."""
    packed = path.endswith((".xz", ".gz", ".zst"))
    return decompress(data, f"{path}: the module") if packed else data


def tables(paths: Iterable[str], read: Callable[[str], bytes]) -> dict[str, bytes]:
    """What depmod would make of the files of a package, which read() reads."""
    paths = list(paths)
    order = _lines_of(read(ORDER)) if ORDER in paths else []
    rank = {module_name(path): number for number, path in enumerate(order)}
    files = sorted(
        (path for path in paths if _FILE.search(path)),
        key=lambda path: (rank.get(module_name(path), len(rank)), path),
    )
    return depmod.tables(
        _described(files, read),
        map(module_name, _lines_of(read(BUILTIN)) if BUILTIN in paths else ()),
        builtin_aliases(read(BUILTIN_INFO) if BUILTIN_INFO in paths else b""),
    )


def _lines_of(data: bytes) -> list[str]:
    return data.decode("utf-8", "replace").splitlines()


def _described(
    files: Iterable[str], read: Callable[[str], bytes]
) -> Iterator[depmod.Module]:
    """What modules say of themselves; those that are damaged are left out."""
    for path in files:
        try:
            image = _elf(unpacked(path, read(path)))
        except UnfitError:
            continue
        info: dict[str, list[str]] = {}
        for word in _strings(image, ".modinfo"):
            key, _, value = word.partition("=")
            info.setdefault(key, []).append(value)
        needed = ",".join(info.get("depends", [])).split(",")
        yield depmod.Module(
            name=module_name(path),
            path=path,
            depends=[module_name(word) for word in needed if word],
            aliases=info.get("alias", []),
            softdeps=info.get("softdep", []),
            symbols=[
                word.removeprefix(_EXPORT)
                for word in _strings(image, ".strtab")
                if word.startswith(_EXPORT)
            ],
        )


def builtin_aliases(data: bytes) -> list[tuple[str, str]]:
    """Pattern and name of modules.builtin.modinfo."""
    rows = []
    for row in data.split(b"\0"):
        key, _, pattern = row.decode("latin-1").partition("=")
        name, _, what = key.rpartition(".")
        if what == "alias":
            rows.append((pattern, name))
    return rows


def write_archive(files: Mapping[str, bytes], path: str | IO[bytes]) -> None:
    """An archive that is the same whenever it is made."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name])


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
            lines = _lines_of(self._archive.read(BUILTIN))
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
        """Their other names."""
        lines = self.content(depmod.ALIAS).decode().splitlines()
        rows = (line.removeprefix(_ALIAS).rpartition(" ") for line in lines)
        return Aliases("".join(f"{normalized(row[0])} {row[2]}\n" for row in rows))

    def builtin_aliases(self) -> Aliases:
        """The other names of what needs no module."""
        try:
            rows = builtin_aliases(self._archive.read(BUILTIN_INFO))
        except KeyError:
            return Aliases("")
        return Aliases("".join(f"{normalized(row[0])} {row[1]}\n" for row in rows))

    # ---- files, as /lib/modules/RELEASE has them
    def sizes(self) -> dict[str, int]:
        """Path and size of each."""
        with self._tables() as made:
            rows = (*made.infolist(), *self._archive.infolist())
        return {row.filename: row.file_size for row in rows}

    def content(self, path: str) -> bytes:
        """The bytes of one, packed as it is; KeyError, UnfitError."""
        try:
            if path in self._archive.namelist():
                return self._archive.read(path)
            with self._tables() as made:
                return made.read(path)
        except (zipfile.BadZipFile, zlib.error, OSError):
            raise UnfitError(f"{path}: the archive of modules is damaged") from None

    def _tables(self) -> zipfile.ZipFile:
        """Those of depmod, which are made once and kept beside the archive."""
        kept = os.path.join(os.path.dirname(self._path), TABLES)
        with contextlib.suppress(OSError, zipfile.BadZipFile):
            return zipfile.ZipFile(kept)
        made = io.BytesIO()
        write_archive(tables(self._archive.namelist(), self._archive.read), made)
        _keep(made.getvalue(), kept)
        return zipfile.ZipFile(made)


def _keep(data: bytes, path: str) -> None:
    """Write a file that somebody else may write too, if that is allowed."""
    made = f"{path}.{os.getpid()}"
    try:
        fd = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        os.replace(made, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(made)
