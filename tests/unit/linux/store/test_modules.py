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


def test_a_module_comes_behind_those_that_it_needs(modules):
    needed = list(modules.needed("kprobe-example"))
    assert [name for name, _ in needed] == [NAMES[2], NAMES[1], NAMES[0]]
    assert all(data.startswith(b"\x7fELF") for _, data in needed)
    assert modinfo(needed[1][1], "depends") == [NAMES[2]]


def test_a_module_that_is_not_there(modules):
    with pytest.raises(KeyError, match="nothing"):
        list(modules.needed("lost"))


@pytest.mark.parametrize("name", ["damaged", "text"])
def test_damage(modules, name):
    with pytest.raises(UnfitError, match="damaged"):
        list(modules.needed(name))
