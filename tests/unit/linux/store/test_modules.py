# SPDX-License-Identifier: GPL-2.0-or-later
"""The modules that are kept with an image: found by name, read, behind their needs."""

import lzma
import zipfile

import pytest

from kpfs.linux.errors import UnfitError
from kpfs.linux.store.modules import Modules, modinfo, module_name
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
    return Modules(str(path))


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
    assert modules.depends("kprobe-example") == [NAMES[1], NAMES[2]]
    assert modules.depends("kretprobe_example") == []
    assert modules.softdeps("kprobe_example") == []
    assert modinfo(modules.read("jprobe_example"), "depends") == [NAMES[2]]
    with pytest.raises(KeyError, match="nothing"):
        modules.depends("nothing")


@pytest.mark.parametrize("name", ["damaged", "text"])
def test_a_module_that_is_damaged(modules, name):
    with pytest.raises(UnfitError, match="damaged"):
        modules.depends(name)


def with_info(info):
    """A shipped module with one more entry of .modinfo."""
    data = (SHIPPED / "kprobe_example.ko").read_bytes()
    at = data.index(b"description=")
    end = data.index(b"\0", at)
    return data[:at] + info.ljust(end - at, b"x") + data[end:]


def test_tables_are_kept_beside_the_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "modules", "w") as archive:
        alias = with_info(b"alias=my-[a-c]*\0")
        archive.writestr("kernel/kprobe_example.ko", alias)
        rows = b"ext4.alias=fs-ext3\0ext4.license=GPL\0crc.alias=crc-x\0"
        archive.writestr("modules.builtin.modinfo", rows)
    with Modules(str(tmp_path / "modules")) as modules:
        assert modules.aliases().lookup("my-bx") == ["kprobe_example"]
        assert modules.builtin_aliases().lookup("fs-ext3") == ["ext4"]
    kept = tmp_path / "tables"
    with zipfile.ZipFile(kept) as archive:
        text = "alias my-[a-c]* kprobe_example\n"
        assert archive.read("modules.alias").decode() == text
    with zipfile.ZipFile(kept, "w") as archive:
        archive.writestr("modules.alias", "alias other thing\n")
    assert modules.aliases().lookup("other") == ["thing"]


def test_files_are_those_of_the_archive_and_the_tables(modules):
    sizes = modules.sizes()
    assert {name for name in sizes if "/" not in name} == {
        *("modules.alias", "modules.alias.bin", "modules.builtin"),
        *("modules.builtin.alias.bin", "modules.builtin.bin", "modules.dep"),
        *("modules.dep.bin", "modules.softdep", "modules.symbols"),
        "modules.symbols.bin",
    }
    assert all(len(modules.content(name)) == size for name, size in sizes.items())
    assert lzma.decompress(modules.content("kernel/jprobe_example.ko.xz"))
    # damaged ones are left out, and who needs what is not there is not
    assert modules.content("modules.dep").decode().splitlines() == [
        "kernel/a/kprobe-example.ko: kernel/jprobe_example.ko.xz "
        "kernel/kretprobe_example.ko",
        "kernel/jprobe_example.ko.xz: kernel/kretprobe_example.ko",
        "kernel/kretprobe_example.ko:",
        "kernel/lost.ko:",
    ]
    with pytest.raises(KeyError):
        modules.content("none")


def test_a_damaged_archive_is_told(modules, tmp_path):
    path = tmp_path / "modules"
    data = path.read_bytes()
    at = data.index(b"\x7fELF")
    path.write_bytes(data[:at] + bytes(64) + data[at + 64 :])
    with pytest.raises(UnfitError, match="damaged"):
        modules.content("kernel/a/kprobe-example.ko")
