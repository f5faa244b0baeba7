# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel as one file."""

import hashlib
import os
import struct
import zlib

import pytest

from kpfs.linux.errors import UnfitError
from kpfs.linux.store import archive, image, store


@pytest.fixture
def exported(small_kernel, tmp_path):
    archive.export(small_kernel, str(tmp_path / "a.kpfs"))
    return tmp_path / "a.kpfs"


def contents(name):
    folder = store.folder(name)
    found = {}
    for entry in os.listdir(folder):
        with open(os.path.join(folder, entry), "rb") as file:
            found[entry] = file.read()
    return found


def test_there_and_back(exported):
    assert exported.stat().st_size < 0x8000
    assert archive.import_file(str(exported), "b").release == "6.1"
    assert contents("b") == contents("a")
    assert store.size(store.folder("b")) < 0x20000


def test_the_same_kernel_gives_the_same_file(exported, tmp_path):
    archive.export("a", str(tmp_path / "b"))
    assert (tmp_path / "b").read_bytes() == exported.read_bytes()


def damaged(raw):
    return raw[:-10] + bytes([raw[-10] ^ 1]) + raw[-9:]


def of_another_version(raw):
    return raw[:12] + struct.pack("<I", archive.VERSION + 1) + raw[16:]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda raw: raw[:-1], "cut short"),
        (lambda raw: raw[:20], "cut short"),
        (lambda raw: raw + b"0", "damaged"),
        (damaged, "damaged"),
        (of_another_version, "another version"),
        (lambda _: b"", "no kernel that kpfs has exported"),
        (lambda _: b"\x7fELF" * 100, "no kernel that kpfs has exported"),
    ],
)
def test_refused_import_leaves_nothing(exported, change, why):
    exported.write_bytes(change(exported.read_bytes()))
    with pytest.raises(UnfitError, match=why):
        archive.import_file(str(exported), "b")
    assert os.listdir(store.place()) == ["a"]


def test_a_failure_leaves_the_old_file(exported, monkeypatch):
    before = exported.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archive, "_pack", fail)
    with pytest.raises(OSError, match="No space"):
        archive.export("a", str(exported))
    assert exported.read_bytes() == before
    assert sorted(os.listdir(exported.parent)) == ["a.kpfs", "home"]


def packed(*files):
    """Return names, sizes and pieces of exported files."""
    raw = b""
    for name, size, pieces in files:
        raw += (
            bytes([len(name)]) + name.encode() + struct.pack("<QQ", size, len(pieces))
        )
        for at, data in pieces:
            raw += struct.pack("<QQ", at, len(data)) + data
    data = zlib.compress(raw)
    head = (archive.MAGIC, archive.VERSION, len(data), hashlib.sha256(data).digest())
    return struct.pack("<12sIQ32s", *head) + data


@pytest.mark.parametrize(
    "files",
    [
        [("../evil", 1, [(0, b"x")])],
        [("/etc/evil", 1, [(0, b"x")])],
        [(image.RAM, 10, [(8, b"beyond")])],
        [(image.RAM, 1 << 60, [])],
        [(image.RAM, 10, [((1 << 64) - 1, b"xx")])],
        # one place again and again takes no room in the file, but time without end
        [(image.RAM, 10, [(0, b"xx"), (1, b"xx")])],
        [(image.META, 1, []), (image.META, 1, [])],
        [(image.SYMBOLS, 1, []), (image.META, 1, [])],
        [(image.META, 1, [])],  # and no memory
    ],
)
def test_a_malicious_file_is_refused(tmp_path, files):
    (tmp_path / "evil").write_bytes(packed(*files))
    with pytest.raises(UnfitError, match="damaged"):
        archive.import_file(str(tmp_path / "evil"), "b")
    assert os.listdir(store.place()) == []


def test_the_cap_of_a_file_is_told(tmp_path):
    big = (image.META, 2 << 20, [(0, b"x")])
    path = tmp_path / "a.kpfs"
    path.write_bytes(packed(big))
    with pytest.raises(UnfitError, match=r"meta\.json .*more than any kernel \(1 MiB"):
        archive.import_file(str(path), "b")


@pytest.mark.parametrize("name", [image.SYMBOLS, image.CONFIG, image.RAM])
def test_an_image_that_lacks_a_file_is_refused(small_kernel, tmp_path, name):
    os.unlink(f"{store.folder(small_kernel)}/{name}")
    archive.export(small_kernel, str(tmp_path / "a.kpfs"))
    with pytest.raises(UnfitError, match="damaged"):
        archive.import_file(str(tmp_path / "a.kpfs"), "b")
    assert store.names() == ["a"]
