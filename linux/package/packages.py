# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads kernels out of the packages of distributions, without the tools of these."""

from __future__ import annotations

import errno
import io
import lzma
import os
import re
import stat
import struct
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, NamedTuple

from kpfs.linux.errors import UnfitError
from kpfs.linux.package.compression import MAX_UNPACKED, ZSTD, decompress, too_large

_AR_MAGIC, _AR_HEADER = b"!<arch>\n", 60
_RPM_MAGIC, _RPM_LEAD, _RPM_HEADER = b"\xed\xab\xee\xdb", 96, b"\x8e\xad\xe8"
_CPIO_HEADER = 110
TOO_LARGE = too_large("the package")
_HEX, _DECIMAL = re.compile(rb"[0-9A-Fa-f]{8}"), re.compile(rb"\d+ *")

# errors of the standard library for damaged files; those of the second line are faults
# in it
DAMAGED = (
    *(lzma.LZMAError, zlib.error, tarfile.TarError, EOFError, ValueError),
    *(struct.error, OverflowError, IndexError, KeyError, TypeError, AttributeError),
)

_KERNEL = re.compile(r"boot/(vmlinu[xz]-|vmlinuz$)|lib/modules/[^/]+/vmlinuz$")
_CONFIG = re.compile(r"boot/config(-|$)|lib/modules/[^/]+/config$")
_FILES = tarfile.REGULAR_TYPES
_LONGEST = 1 << 20  # bytes
_MAX_FILE = 1 << 30


class KernelFiles(NamedTuple):
    """The files of a kernel that kpfs needs."""

    vmlinuz: bytes
    config: str
    modules: dict[str, bytes]  # by their paths below /lib/modules/RELEASE
    origin: str = ""  # name of the package
    # further modules, which are unpacked meanwhile; may raise UnfitError
    rest: Iterable[tuple[str, bytes]] = ()

    def complete(self) -> KernelFiles:
        """Return these files with all modules read.  Raises UnfitError."""
        return self._replace(modules={**self.modules, **dict(self.rest)}, rest=())


def read_packages(paths: Sequence[str]) -> KernelFiles:
    """Read the files of a kernel from one package, or several.

    Fedora has modules, Ubuntu has modules and configuration, in packages of their own.
    The packages have to stay there until the rest is read. Raises UnfitError if there
    is no kernel in them, or if there are two.
    """
    files = sort_files(_entries(paths), " ".join(map(os.path.basename, paths)))
    if not files.vmlinuz:
        raise UnfitError("the package holds no kernel (boot/vmlinuz-*)")
    return files


def _entries(paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Return the files in packages, with their names.  Raises UnfitError."""
    of_kernel = ""
    for path in paths:
        for name, data in _package_files(path):
            if _KERNEL.match(_place(name)):
                if of_kernel not in ("", path):
                    raise UnfitError(f"{path}: that is a second kernel")
                of_kernel = path
            yield name, data


def _package_files(path: str) -> Iterator[tuple[str, bytes]]:
    try:
        with open(path, "rb") as file:
            magic = file.read(8)
            file.seek(0)
            if magic == _AR_MAGIC:
                yield from _deb_files(file)
                return
            if magic.startswith(_RPM_MAGIC):
                yield from _rpm_files(file.read(_MAX_FILE))
                return
            if magic.startswith(ZSTD):  # as Arch Linux packs
                yield from tar_files(file)
                return
    except OSError as error:
        raise UnfitError(f"{path}: {error.strerror}") from None
    except DAMAGED:
        raise UnfitError(f"{path}: the package is damaged") from None
    raise UnfitError(f"{path}: neither a .deb nor an .rpm nor a .pkg.tar.zst")


def read_folder(folder: str) -> dict[str, bytes]:
    """Read the modules below a folder such as /lib/modules/RELEASE."""
    modules: dict[str, bytes] = {}
    left = MAX_UNPACKED
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if is_module_file(name):
                data = read_regular(path, left + 1)
                left -= len(data)
                if left < 0:
                    raise UnfitError(f"{folder}: {TOO_LARGE}")
                modules[os.path.relpath(path, folder)] = data
    return modules


def read_regular(path: str, most: int = -1) -> bytes:
    """Return what a file of a folder has, or so many bytes of it; OSError.

    Nobody has named the file, so it may be anything, as a FIFO that nobody writes to.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "it is no ordinary file", path)
        return file.read(most)


def is_module_file(name: str) -> bool:
    """Return True for a module, or a list of modules that the build has made."""
    return re.search(r"\.ko(\.xz|\.gz|\.zst)?$", name) is not None or name in (
        "modules.builtin",
        "modules.builtin.modinfo",
        "modules.order",
    )


def sort_files(entries: Iterable[tuple[str, bytes]], origin: str) -> KernelFiles:
    """Return those files that a kernel needs of all that there are, by their names.

    Modules that come behind both kernel and configuration are the rest.
    """
    vmlinuz, config, modules = b"", "", {}
    entries = iter(entries)
    for name, data in entries:
        place = _place(name)
        if _KERNEL.match(place):
            vmlinuz = data
        elif _CONFIG.match(place):
            config = data.decode("utf-8", "replace")
        elif path := _path_of_module(place):
            modules[path] = data
        if vmlinuz and config:
            break
    rest = (
        (path, data)
        for name, data in entries
        if (path := _path_of_module(_place(name)))
    )
    return KernelFiles(vmlinuz, config, modules, origin, rest)


def _place(name: str) -> str:
    return name.lstrip("./").removeprefix("usr/")


def _path_of_module(place: str) -> str:
    """Return the path below /lib/modules/RELEASE; "" for any other file."""
    below = re.match(r"lib/modules/[^/]+/(.*)", place)
    return below[1] if below and is_module_file(os.path.basename(place)) else ""


# ---- .deb: an ar archive with a tar archive in it
def _deb_files(file: IO[bytes]) -> Iterator[tuple[str, bytes]]:
    file.seek(len(_AR_MAGIC))
    while len(header := file.read(_AR_HEADER)) == _AR_HEADER:
        if not _DECIMAL.fullmatch(header, 48, 58):  # int() would take "-1"
            raise ValueError("no size")
        name, size = header[:16].decode().strip().rstrip("/"), int(header[48:58])
        if name.startswith("data.tar"):
            yield from tar_files(file, size)
            return
        file.seek(size + size % 2, os.SEEK_CUR)
    raise UnfitError("the package holds no files")


def tar_files(file: IO[bytes], size: int = -1) -> Iterator[tuple[str, bytes]]:
    """Return the regular files of an archive, packed in whatever way, with their names.

    size: of the archive, which begins where the file stands.  Raises UnfitError if they
    are too large, and one of DAMAGED.
    """
    data: IO[bytes] = file
    magic = file.read(len(ZSTD))
    file.seek(-len(magic), os.SEEK_CUR)
    if magic == ZSTD:
        data = io.BytesIO(decompress(file.read(size), "the package", MAX_UNPACKED))
    left = MAX_UNPACKED
    with tarfile.open(fileobj=data, mode="r|*", tarinfo=_Member) as archive:
        stream = archive.fileobj
        for member in archive:
            # members that are no files may be large, too
            if stream.tell() > MAX_UNPACKED:
                raise UnfitError(TOO_LARGE)
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                left -= member.size
                if left < 0:
                    raise UnfitError(TOO_LARGE)
                yield member.name, content.read()


class _Member(tarfile.TarInfo):
    """A member whose long name and attributes, which tarfile reads whole, are short."""

    def _proc_member(self, tarfile: Any) -> Any:
        if self.type not in _FILES and self.size > _LONGEST:
            raise ValueError("a name or attributes that long")
        return super()._proc_member(tarfile)  # type: ignore[misc]


# ---- .rpm: headers, then a cpio archive
def _rpm_files(data: bytes) -> Iterator[tuple[str, bytes]]:
    at = _RPM_LEAD
    for padded in (True, False):
        if data[at : at + 3] != _RPM_HEADER:
            raise UnfitError("the package is damaged")
        entries = int.from_bytes(data[at + 8 : at + 12], "big")
        at += 16 + 16 * entries + int.from_bytes(data[at + 12 : at + 16], "big")
        at += -at % 8 if padded else 0
    yield from _cpio_files(decompress(data[at:], "the package", MAX_UNPACKED))


def _cpio_files(data: bytes) -> Iterator[tuple[str, bytes]]:
    at = 0
    while data[at : at + 5] == b"07070":
        words = [data[at + 6 + 8 * i : at + 14 + 8 * i] for i in range(13)]
        if not all(map(_HEX.fullmatch, words)):  # int() would take "-1"
            raise ValueError("no number")
        fields = [int(word, 16) for word in words]
        mode, size, length = fields[1], fields[6], fields[11]
        name = data[at + _CPIO_HEADER : at + _CPIO_HEADER + length - 1].decode()
        start = at + _CPIO_HEADER + length
        start += -start % 4
        if name == "TRAILER!!!":
            return
        if mode & 0o170000 == 0o100000:
            yield name, data[start : start + size]
        at = start + size
        at += -at % 4
