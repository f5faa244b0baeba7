# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads a kernel out of a container image: an OCI layout, as a folder or an archive.

``index.json`` names manifests, or further indexes, by the digests of their blobs; a
manifest names layers, archives of which each covers those before it.

Spec: https://github.com/opencontainers/image-spec
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from kpfs.linux.arch.arches import split_name
from kpfs.linux.errors import UnfitError
from kpfs.linux.package.compression import MAX_UNPACKED
from kpfs.linux.package.digest import checked_digest
from kpfs.linux.package.packages import (
    DAMAGED,
    TOO_LARGE,
    KernelFiles,
    read_regular,
    sort_files,
    tar_files,
)

INDEX = "index.json"
_TAG = "org.opencontainers.image.ref.name"
_MAX_JSON = 4 << 20  # bytes, as registries have it
_MAX_DOCUMENTS, _MAX_LAYERS = 100, 1000
_COVERS, _COVERS_ALL = ".wh.", ".wh..wh..opq"
_REFERENCE = re.compile(
    "(docker(-archive|-daemon)?|containers-storage|dir|oci(-archive)?):"
)

ReadFile = Callable[[str, int], bytes]  # by a path in the layout, and at most so much


class _Image(NamedTuple):
    """A manifest, and what the documents that led there say of it."""

    digest: str
    size: int
    platform: str  # "linux/arm64", or "" if nothing tells it


def read_image(where: str, name: str) -> KernelFiles:
    """Read a kernel from FILE_OR_DIR[:TAG], or from what skopeo calls a reference.

    name: of the kernel that is made; its end tells the architecture.  Raises UnfitError
    if the image is damaged or holds no kernel.
    """
    architecture = split_name(name)[1]  # Go calls them the same
    path, tag = where, ""
    if not os.path.exists(where) and ":" in where:
        path, _, tag = where.rpartition(":")
    if not os.path.exists(path) and _REFERENCE.match(where):
        with tempfile.TemporaryDirectory(prefix="kpfs-image-") as folder:
            _copy(where, architecture, folder)
            return _read_layout(folder, "", architecture)._replace(origin=where)
    files = _read_layout(path, tag, architecture)
    return files._replace(origin=os.path.basename(os.path.normpath(where)))


def _copy(reference: str, architecture: str, folder: str) -> None:
    """Have skopeo copy an image into a folder."""
    if not shutil.which("skopeo"):
        raise UnfitError(f"{reference}: skopeo is missing, which would copy the image")
    platform = "--override-os", "linux", "--override-arch", architecture
    command = "skopeo", *platform, "copy", "--quiet", reference, f"oci:{folder}:kernel"
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="surrogateescape",
    )
    if done.returncode:
        last = done.stderr.strip().split("\n")[-1]
        said = re.search(r'msg="(.*)"', last)
        why = said[1] if said else last
        raise UnfitError(f"{reference}: skopeo cannot copy it: {why}")


def _read_layout(path: str, tag: str, architecture: str) -> KernelFiles:
    try:
        read = _folder(path) if os.path.isdir(path) else _archive(path)
        image = _choose(_images(read, tag), architecture)
        files = sort_files(_files(read, image), "").complete()
    except OSError as error:
        raise UnfitError(f"{error.filename or path}: {error.strerror}") from None
    except (*DAMAGED, RecursionError):
        raise UnfitError(f"{path}: the image is damaged") from None
    except UnfitError as error:
        raise UnfitError(f"{path}: {error}") from None
    if not files.vmlinuz:
        raise UnfitError(f"{path}: the image holds no kernel (boot/vmlinuz)")
    return files


# ---- files of the layout
def _folder(path: str) -> ReadFile:
    def read(name: str, most: int) -> bytes:
        return read_regular(os.path.join(path, name), most)

    return read


def _archive(path: str) -> ReadFile:
    with open(path, "rb") as file:
        found = {
            name.removeprefix("./"): data
            for name, data in tar_files(file)
            if re.match(r"(\./)?(index\.json$|blobs/)", name)
        }

    def read(name: str, most: int) -> bytes:
        if name not in found:
            raise UnfitError(f"there is no {name}")
        return found[name][:most]

    return read


def _blob(read: ReadFile, digest: str, size: int) -> bytes:
    """Return a blob.  Raises UnfitError if it is not the one that digest names."""
    algorithm, _, hexadecimal = digest.partition(":")
    try:
        checked = checked_digest(algorithm, hexadecimal)
    except ValueError as error:
        raise UnfitError(f"the image is damaged: {error}") from None
    if not 0 <= size <= MAX_UNPACKED:
        raise UnfitError(TOO_LARGE)
    data = read(f"blobs/{algorithm}/{hexadecimal}", size + 1)
    if len(data) != size or hashlib.new(algorithm, data).hexdigest() != checked:
        raise UnfitError(f"the blob {digest} is damaged")
    return data


def _document(data: bytes) -> dict[str, Any]:
    found = json.loads(data)
    if not isinstance(found, dict):
        raise ValueError("no object")
    return found


# ---- indexes and manifests
def _images(read: ReadFile, tag: str) -> list[_Image]:
    """Return the images of a tag, or of the only one that there is."""
    index = read(INDEX, _MAX_JSON + 1)
    if len(index) > _MAX_JSON:
        raise UnfitError(TOO_LARGE)
    rows = _document(index)["manifests"]
    tags = sorted({row.get("annotations", {}).get(_TAG, "") for row in rows} - {""})
    if tag:
        rows = [row for row in rows if row.get("annotations", {}).get(_TAG) == tag]
        if not rows:
            raise UnfitError(f"no tag {tag}; those that are there: {', '.join(tags)}")
    elif len(tags) > 1:
        raise UnfitError(f"which tag? Those that are there: {', '.join(tags)}")
    images, left = [], _MAX_DOCUMENTS
    while rows:
        row, left = rows.pop(), left - 1
        if left < 0:
            raise UnfitError("the image is damaged: it has too many parts")
        digest, size = row["digest"], row["size"]
        if size > _MAX_JSON:
            raise UnfitError(TOO_LARGE)
        document = _document(_blob(read, digest, size))
        if "manifests" in document:
            rows += document["manifests"]
            continue
        platform = row.get("platform")
        if platform is None:
            config = document["config"]
            if config["size"] > _MAX_JSON:
                raise UnfitError(TOO_LARGE)
            platform = _document(_blob(read, config["digest"], config["size"]))
        images.append(_Image(digest, size, _platform(platform)))
    return images


def _platform(words: Mapping[str, str]) -> str:
    return f"{words.get('os', 'linux')}/{words.get('architecture', '')}"


def _choose(images: list[_Image], architecture: str) -> _Image:
    """Return the only image, or that of an architecture.  Raises UnfitError."""
    if len({image.digest for image in images}) == 1:
        return images[0]
    for image in images:
        if image.platform == f"linux/{architecture}":
            return image
    there = ", ".join(sorted({image.platform for image in images})) or "none"
    raise UnfitError(
        f"the image is not there for linux/{architecture}, only for: {there}"
    )


# ---- layers
def _files(read: ReadFile, image: _Image) -> Iterator[tuple[str, bytes]]:
    """Return the files that a container of the image would have.

    Layers are read from the last to the first, to know what a later one covers.
    """
    layers = _document(_blob(read, image.digest, image.size))["layers"]
    if len(layers) > _MAX_LAYERS:
        raise UnfitError("the image is damaged: it has too many parts")
    covered: set[str] = set()
    left = MAX_UNPACKED
    for layer in reversed(layers):
        blob = _blob(read, layer["digest"], layer["size"])
        covers: set[str] = set()
        for path, data in tar_files(io.BytesIO(blob)):
            name = os.path.normpath(path).lstrip("/")
            left -= len(data)
            if left < 0:
                raise UnfitError(TOO_LARGE)
            folder, last = os.path.split(name)
            if last == _COVERS_ALL:
                covers.add(folder)
            elif last.startswith(_COVERS):
                covers.add(os.path.join(folder, last.removeprefix(_COVERS)))
            elif not _is_below(name, covered):
                covers.add(name)
                yield name, data
        covered |= covers


def _is_below(name: str, covered: set[str]) -> bool:
    """Return True if a name, or a folder that it is in, is covered."""
    while name not in covered and name:
        name = os.path.dirname(name)
    return name in covered
