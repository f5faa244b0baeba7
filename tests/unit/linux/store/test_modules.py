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


def test_other_names_are_kept_beside_the_archive(tmp_path):
    data = (SHIPPED / "kprobe_example.ko").read_bytes()
    at = data.index(b"description=")
    end = data.index(b"\0", at)
    alias = b"alias=my-[a-c]*\0".ljust(end - at, b"x")
    with zipfile.ZipFile(tmp_path / "modules", "w") as archive:
        archive.writestr("kernel/kprobe_example.ko", data[:at] + alias + data[end:])
        rows = b"ext4.alias=fs-ext3\0ext4.license=GPL\0crc.alias=crc-x\0"
        archive.writestr("modules.builtin.modinfo", rows)
    with Modules(str(tmp_path / "modules")) as modules:
        assert modules.aliases().lookup("my-bx") == ["kprobe_example"]
        assert modules.builtin_aliases().lookup("fs-ext3") == ["ext4"]
    kept = tmp_path / "aliases"
    assert kept.read_text() == "my_[a-c]* kprobe_example\n"
    kept.write_text("other thing\n")
    assert modules.aliases().lookup("other") == ["thing"]
