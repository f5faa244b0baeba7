# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules of a kernel where kmod's programs find them."""

import os
import shutil
import threading

import pytest

from kpfs.base.programs import search_path
from kpfs.linux.store import kmod
from kpfs.linux.store.modules import keep, write_archive
from tests.harness import ROOT

RELEASE = "6.1.0-test"
SHIPPED = ROOT / "guest" / "image" / "modules"
needs_kmod = pytest.mark.skipif(
    shutil.which("depmod", path=search_path()) is None, reason="no kmod"
)


def module(name, info):
    """A shipped module, in whose .modinfo a line is another one."""
    data = (SHIPPED / f"{name}.ko").read_bytes()
    at = data.index(b"description=")
    end = data.index(b"\0", at)
    assert len(info) <= end - at
    return data[:at] + info.ljust(end - at, b"\0") + data[end:]


@pytest.fixture
def folder(tmp_path):
    """A kernel's, with one module that needs another one."""
    folder = tmp_path / "kernel"
    folder.mkdir()
    files = {
        "kernel/kprobe_example.ko": module(
            "kprobe_example", b"depends=kretprobe_example"
        ),
        "kernel/kretprobe_example.ko": module("kretprobe_example", b"alias=my-[ab]"),
        "kernel/jprobe_example.ko": module("jprobe_example", b"softdep=pre: my-a"),
        "modules.builtin": b"kernel/lib/crc-t10dif.ko\n",
        "modules.order": b"",
    }
    write_archive(files.items(), str(folder / "modules"), threading.Event())
    return folder


@pytest.fixture
def bare(monkeypatch):
    """A host without kmod."""
    monkeypatch.setattr(kmod, "search_path", lambda: "")


def order(folder, name):
    return kmod.load_order(str(folder), RELEASE, name)


@needs_kmod
@pytest.mark.parametrize("used", [False, True])
def test_a_read_only_kernel_that_was_used_needs_no_cache(folder, monkeypatch, used):
    before = kmod.install(str(folder), RELEASE) if used else ""
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    place = kmod.install(str(folder), RELEASE)
    assert (place == before, (folder / "cache").exists()) == (used, not used)


def test_files_are_unpacked_once(folder, bare):
    place = kmod.install(str(folder), RELEASE)
    assert place == f"{folder}/installed/lib/modules/{RELEASE}"
    assert sorted(os.listdir(place)) == ["kernel", "modules.builtin", "modules.order"]
    os.unlink(folder / "modules")
    assert kmod.install(str(folder), RELEASE) == place
    assert os.listdir(folder) == ["installed"]


@needs_kmod
def test_depmod_runs_once(folder):
    table = os.path.join(kmod.install(str(folder), RELEASE), "modules.dep")
    with open(table) as file:
        assert "kernel/kprobe_example.ko:\n" in file
    os.utime(table, (0, 0))
    kmod.install(str(folder), RELEASE)
    assert os.stat(table).st_mtime == 0


def test_images_of_one_archive_share_what_is_unpacked(folder, bare):
    name = "kernel/kprobe_example.ko"
    place = kmod.install(str(folder), RELEASE)
    for other, makes in (("shared", os.link), ("copied", shutil.copy)):
        beside = folder.with_name(other)
        beside.mkdir()
        makes(folder / "modules", beside / "modules")
        found = kmod.install(str(beside), RELEASE)
        shared = os.path.samefile(f"{place}/{name}", f"{found}/{name}")
        assert shared == (makes == os.link)


@pytest.mark.parametrize("writable", [True, False])
def test_modules_that_are_files(folder, writable, monkeypatch, tmp_path):
    """Depmod adds its tables, or they are made elsewhere."""
    os.unlink(folder / "modules")
    files = [("kernel/a.ko.xz", b"packed"), ("modules.order", b"")]
    keep(files, str(folder / "modules"), RELEASE, threading.Event())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "access", lambda *_: writable)
    place = kmod.install(str(folder), RELEASE)
    with open(f"{place}/kernel/a.ko.xz", "rb") as file:
        assert file.read() == b"packed"
    assert place.startswith(str(folder)) == writable
    assert os.listdir(folder) == ["modules"]
    there = os.path.exists(folder / "modules/lib/modules" / RELEASE / "modules.dep")
    assert there <= writable


def test_folder_that_cannot_be_written(folder, bare, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "access", lambda *_: False)
    place = kmod.install(str(folder), RELEASE)
    assert place.startswith(str(tmp_path / "cache/kpfs/kernel-"))
    assert os.path.exists(f"{place}/kernel/kprobe_example.ko")
    assert os.listdir(folder) == ["modules"]


def test_the_order_without_kmod(folder, bare):
    assert order(folder, "kprobe-example") == ["kretprobe_example", "kprobe_example"]
    assert order(folder, "crc-t10dif") == ["crc_t10dif"]
    assert order(folder, "my-a") == order(folder, "nothing") == []
    assert os.listdir(folder) == ["modules"]


@needs_kmod
def test_the_order_is_that_of_modprobe(folder):
    assert order(folder, "kprobe-example") == ["kprobe_example"]  # by its symbols
    assert order(folder, "crc-t10dif") == ["crc_t10dif"]
    assert order(folder, "my-b") == ["kretprobe_example"]
    assert order(folder, "jprobe_example") == ["kretprobe_example", "jprobe_example"]
    assert order(folder, "nothing") == []
