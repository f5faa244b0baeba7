# SPDX-License-Identifier: GPL-2.0-or-later
"""The modules that are kept with an image."""

import lzma
import os
import threading
import zipfile

import pytest

from kpfs.linux.errors import UnfitError
from kpfs.linux.store import modules as archives
from kpfs.linux.store.modules import ModuleArchive, modinfo, module_name
from tests.harness import ROOT

SHIPPED = ROOT / "guest" / "image" / "modules"
NAMES = ("kprobe_example", "jprobe_example", "kretprobe_example")


def depending(name, depends):
    """A shipped module, whose "depends=" says something else."""
    data = (SHIPPED / f"{name}.ko").read_bytes()
    assert data.count(b"description=") == 1
    at = data.index(b"description=")
    end = data.index(b"\0", at)
    assert len(depends) + len(b"depends=") <= end - at
    return data[:at] + (b"depends=" + depends).ljust(end - at, b"\0") + data[end:]


@pytest.fixture
def modules(tmp_path):
    path = tmp_path / "modules"
    first, second, third = NAMES
    with zipfile.ZipFile(path, "w") as archive:
        needs_two = depending(first, b"%b,%b" % (second.encode(), third.encode()))
        archive.writestr("kernel/a/kprobe-example.ko", needs_two)
        needs_one = depending(second, third.encode())
        archive.writestr("kernel/jprobe_example.ko.xz", lzma.compress(needs_one))
        archive.writestr("kernel/kretprobe_example.ko", depending(third, b""))
        archive.writestr("kernel/lost.ko", depending(first, b"nothing"))
        archive.writestr("kernel/damaged.ko.xz", b"no archive")
        archive.writestr("kernel/text.ko", b"no module")
        archive.writestr("modules.builtin", "kernel/lib/crc-t10dif.ko\n")
    return ModuleArchive(str(path))


def test_modules_that_are_not_packed_are_packed_and_come_back(tmp_path):
    data = (SHIPPED / f"{NAMES[0]}.ko").read_bytes()
    path = str(tmp_path / "modules")
    files = [("kernel/a.ko", data), ("modules.order", b"kernel/a.ko\n" * 100)]
    archives.write_archive(files, path, threading.Event())
    assert all(e.compress_size < e2 for e, e2 in zip_sizes(path, files))
    with ModuleArchive(path) as archive:
        assert archive.read("a") == data
        assert [*archive.files()] == files
        archive.unpack(str(tmp_path / "out"))
    for name, content in files:
        assert (tmp_path / "out" / name).read_bytes() == content


def zip_sizes(path, files):
    """Return each entry of an archive, with the size of what it was made of."""
    entries = zipfile.ZipFile(path).infolist()
    return zip(entries, (len(data) for _, data in files), strict=True)


@pytest.mark.parametrize("limit", ["MAX_MODULE", "MAX_UNPACKED"])
def test_a_module_that_unpacks_to_too_much(tmp_path, monkeypatch, limit):
    path = str(tmp_path / "modules")
    files = [(f"kernel/{name}.ko", bytes(800)) for name in "ab"]
    archives.write_archive(files, path, threading.Event())
    monkeypatch.setattr(archives, limit, 700 if limit == "MAX_MODULE" else 1500)
    with (
        ModuleArchive(path) as archive,
        pytest.raises(UnfitError, match="more than any"),
    ):
        archive.unpack(str(tmp_path / "out"))


PACKED = {
    "modules.order": b"kernel/a.ko\n",
    "kernel/a.ko.xz": lzma.compress(b"a"),
    "kernel/b/c-d.ko.xz": lzma.compress(b"c"),
}


@pytest.fixture
def tree(tmp_path):
    """Path of packed modules."""
    path = str(tmp_path / "tree")
    archives.keep(PACKED.items(), path, "6.1", threading.Event())
    return path


def test_packed_modules_are_files(tree):
    place = archives.place(tree, "6.1")
    with open(f"{place}/kernel/a.ko.xz", "rb") as file:
        assert lzma.decompress(file.read()) == b"a"
    with open(f"{place}/modules.dep", "w") as file:  # as depmod does
        file.write("of this host")
    with ModuleArchive(tree) as modules:
        assert modules.read("c_d") == b"c"
        assert modules.path("c-d") == "kernel/b/c-d.ko.xz"
        assert not modules.is_builtin("a")
        assert dict(modules.files()) == PACKED
        os.unlink(f"{place}/kernel/a.ko.xz")
        with pytest.raises(UnfitError, match="damaged"):
            modules.read("a")


def test_other_modules_are_an_archive(tmp_path):
    path = str(tmp_path / "modules")
    files = [("modules.order", b""), ("a.ko", b"a"), ("b.ko.xz", lzma.compress(b"b"))]
    archives.keep(files, path, "6.1", threading.Event())
    assert os.path.isfile(path)
    assert list(ModuleArchive(path).files()) == files
    archives.as_files(path, "6.1")
    assert os.path.isfile(path)


@pytest.mark.parametrize("second", ["a.ko.xz", "./a.ko.xz", "a.ko.xz/b.ko.xz"])
def test_two_files_of_one_name(tmp_path, second):
    files = [("a.ko.xz", b"a"), (second, b"b")]
    with pytest.raises(UnfitError, match="two files"):
        archives.keep(files, str(tmp_path / "m"), "6.1", threading.Event())


@pytest.mark.parametrize("name", ["../mine.ko.xz", "/mine.ko.xz", "mine\0.ko.xz"])
def test_a_name_that_leads_elsewhere(tmp_path, name):
    files = [("a.ko.xz", b"a"), (name, b"b")]
    with pytest.raises(UnfitError, match="has a file"):
        archives.keep(files, str(tmp_path / "m"), "6.1", threading.Event())
    assert not list(tmp_path.rglob("mine*"))


def test_images_share_modules(tree, tmp_path):
    for path in (tree, archives.as_archive(tree, str(tmp_path / "packed"))):
        shared = f"{path}-shared"
        archives.share(path, shared)
        with ModuleArchive(path) as old, ModuleArchive(shared) as new:
            assert dict(new.files()) == dict(old.files()) == PACKED
    module = "lib/modules/6.1/kernel/a.ko.xz"
    assert os.path.samefile(f"{tree}/{module}", f"{tree}-shared/{module}")


def test_from_files_to_an_archive_and_back(tree, tmp_path):
    path = archives.as_archive(tree, str(tmp_path / "packed"))
    assert archives.as_archive(path, "") == path
    archives.as_files(path, "6.2")
    with ModuleArchive(path) as modules:
        assert dict(modules.files()) == PACKED
    assert os.listdir(f"{path}/lib/modules") == ["6.2"]


def test_a_damaged_archive_stays(tree, tmp_path):
    path = archives.as_archive(tree, str(tmp_path / "packed"))
    with open(path, "r+b") as file:
        file.seek(60)
        file.write(bytes(100))
    archives.as_files(path, "6.1")
    assert os.path.isfile(path)
    assert sorted(os.listdir(tmp_path)) == ["packed", "tree"]


def test_names():
    assert module_name("kernel/lib/crc-t10dif.ko.xz") == "crc_t10dif"
    assert module_name("crc-t10dif") == "crc_t10dif"


def test_what_there_is(modules):
    assert "kprobe_example" in modules
    assert "kprobe-example" in modules
    assert "none" not in modules
    assert modules.path("kprobe_example") == "kernel/a/kprobe-example.ko"
    assert modules.is_builtin("crc_t10dif")
    assert not modules.is_builtin("kprobe_example")


def test_what_a_module_says_of_itself(modules):
    assert modinfo(modules.read("jprobe_example"), "depends") == [NAMES[2]]
    assert modules.needed("kprobe-example") == [NAMES[2], NAMES[1]]
    assert modules.needed("kretprobe_example") == []
    with pytest.raises(KeyError, match="nothing"):
        modules.needed("lost")


@pytest.mark.parametrize("name", ["damaged", "text"])
def test_a_module_that_is_damaged(modules, name):
    with pytest.raises(UnfitError, match="damaged"):
        modules.needed(name)


def test_all_files_unpacked(modules, tmp_path):
    modules.unpack(str(tmp_path / "a/b"))
    packed = (tmp_path / "a/b/kernel/jprobe_example.ko.xz").read_bytes()
    assert lzma.decompress(packed) == modules.read("jprobe_example")
    assert (tmp_path / "a/b/modules.builtin").exists()


def test_an_archive_that_is_damaged(modules, tmp_path, monkeypatch):
    path = tmp_path / "modules"
    data = path.read_bytes()
    at = data.index(b"\x7fELF")
    path.write_bytes(data[:at] + bytes(64) + data[at + 64 :])
    with pytest.raises(UnfitError, match="damaged"):
        modules.read("kprobe_example")
    with pytest.raises(UnfitError, match="damaged"):
        modules.unpack(str(tmp_path / "new"))
    path.write_bytes(b"no archive")
    with pytest.raises(UnfitError, match="damaged"):
        ModuleArchive(str(path))
    monkeypatch.setattr(archives, "MAX_UNPACKED", 1000)
    with pytest.raises(UnfitError, match="damaged"):
        modules.read("kprobe_example")


def test_other_files_are_left_out(tmp_path):
    """Programs of the host would believe a stranger's tables of depmod."""
    with zipfile.ZipFile(tmp_path / "a", "w") as made:
        for name in ("kernel/b.ko", "modules.dep", "modules.order", "etc/x.conf"):
            made.writestr(name, "text")
    with ModuleArchive(str(tmp_path / "a")) as archive:
        archive.unpack(str(tmp_path / "out"))
    found = sorted(path.name for path in (tmp_path / "out").rglob("*.*"))
    assert found == ["b.ko", "modules.order"]


def test_a_method_that_zipfile_lacks_is_damage(tmp_path):
    path = tmp_path / "a"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("b.ko", "text")
    raw = bytearray(path.read_bytes())
    for mark, behind in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
        raw[raw.index(mark) + behind] = 77
    path.write_bytes(raw)
    with (
        ModuleArchive(str(path)) as archive,
        pytest.raises(UnfitError, match="damaged"),
    ):
        archive.read("b")


def test_a_long_chain_of_modules_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "modinfo", lambda data, _key: [data.decode()])
    with zipfile.ZipFile(tmp_path / "a", "w") as made:
        for number in range(3000):
            made.writestr(f"m{number}.ko", f"m{number + 1}")
    with ModuleArchive(str(tmp_path / "a")) as archive:
        with pytest.raises(UnfitError, match="damaged"):
            archive.needed("m0")
        with pytest.raises(KeyError):
            archive.needed("m2900")
