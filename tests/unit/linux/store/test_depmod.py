# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of modules, and that depmod itself makes the same."""

import re
import shutil
import subprocess
import zipfile

import pytest

from kpfs.linux.store import image, modules, store
from kpfs.linux.store.depmod import Module, tables
from tests import harness

RELEASE = "1.2.3"


def module(name, *depends, aliases=(), softdeps=(), symbols=()):
    return Module(name, f"kernel/{name}.ko", depends, aliases, softdeps, symbols)


def test_who_is_needed_by_others_is_loaded_first():
    made = tables(
        [module("a", "b", "c"), module("b", "d"), module("c", "d"), module("d")], [], []
    )
    first, *rest = made["modules.dep"].decode().splitlines()
    assert first.split()[0] == "kernel/a.ko:"
    assert sorted(first.split()[1:3]) == ["kernel/b.ko", "kernel/c.ko"]
    assert first.split()[3:] == ["kernel/d.ko"]
    assert rest == [
        "kernel/b.ko: kernel/d.ko", "kernel/c.ko: kernel/d.ko", "kernel/d.ko:"
    ]  # fmt: skip


def test_modules_in_a_circle_need_each_other():
    made = tables([module("a", "b"), module("b", "a")], [], [])
    assert b"kernel/a.ko: kernel/b.ko" in made["modules.dep"]


def test_other_names():
    made = tables(
        [module("a", aliases=["x-y", "p*"], softdeps=["pre: b"], symbols=["f"])],
        ["c"],
        [("fs-z", "c")],
    )
    assert made["modules.alias"] == b"alias x-y a\nalias p* a\n"
    assert b"_y\0" in made["modules.alias.bin"]  # in which names are as modprobe's
    assert made["modules.softdep"] == b"softdep a pre: b\n"
    assert made["modules.symbols"] == b"alias symbol:f a\n"


def lines(data):
    return sorted(row for row in data.decode().splitlines() if not row.startswith("#"))


@pytest.mark.kernel
def test_depmod_makes_the_same(monkeypatch, tmp_path):
    """Of a distribution's modules; the order of those that are alike may differ."""
    depmod = shutil.which("depmod", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if not depmod:
        pytest.skip("no depmod")
    monkeypatch.setenv("XDG_DATA_HOME", str(harness.kernels()))
    folder = tmp_path / "lib/modules" / RELEASE
    folder.mkdir(parents=True)
    archive = zipfile.ZipFile(f"{store.folder(harness.KERNEL)}/{image.MODULES}")
    names = [name for name in archive.namelist() if wanted(name)]
    with archive:
        archive.extractall(folder, names)
        made = modules.tables(names, archive.read)
    subprocess.run([depmod, "-b", str(tmp_path), RELEASE], check=True)
    for name in ("modules.alias.bin", "modules.builtin.bin"):
        assert made[name] == (folder / name).read_bytes()
    for name in ("modules.alias", "modules.softdep", "modules.symbols"):
        assert lines(made[name]) == lines((folder / name).read_bytes())
    assert [sorted(row.split()) for row in lines(made["modules.dep"])] == [
        sorted(row.split()) for row in lines((folder / "modules.dep").read_bytes())
    ]


def wanted(name):
    """A part of them, which all come to in the end."""
    return re.match("modules|kernel/(lib|crypto|fs|net|arch|drivers/(md|scsi))", name)
