# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels by name, in a folder of their own."""

import os
import time
from argparse import ArgumentParser

import pytest

from kpfs.base.errors import SetupError
from kpfs.commands import kernel as kernel_command
from kpfs.linux.errors import UnfitError
from kpfs.linux.store import image, store


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path


def make(name, text):
    with store.new_folder(name) as folder, open(f"{folder}/text", "w") as file:
        file.write(text)


def read(name):
    with open(f"{store.folder(name)}/text") as file:
        return file.read()


def test_made_replaced_removed():
    assert store.names() == []
    make("6.1", "old")
    make("b", "other")
    assert (store.names(), read("6.1")) == (["6.1", "b"], "old")
    with open(f"{store.folder('6.1')}/text") as older:
        make("6.1", "new")
        assert (read("6.1"), older.read()) == ("new", "old")
    store.remove_folder(store.folder("6.1"))
    assert store.names() == os.listdir(store.place()) == ["b"]


def test_a_full_disk_is_told_by_the_name_of_the_folder(home):
    def write():
        with store.new_folder("b"), open("/dev/full", "wb", buffering=0) as file:
            file.write(b"text")

    with pytest.raises(SetupError, match=rf"^{home}/\S+: No space left on device$"):
        write()


def test_failure_leaves_the_old_kernel():
    make("a", "old")
    with pytest.raises(ZeroDivisionError), store.new_folder("a"):
        raise ZeroDivisionError
    assert read("a") == "old"
    assert os.listdir(store.place()) == ["a"]


def test_two_at_once():
    with store.new_folder("a") as first, store.new_folder("a") as second:
        assert first != second
    assert os.listdir(store.place()) == ["a"]


def test_remains_of_a_killed_make_go():
    with store.new_folder("a") as folder:
        left = os.path.join(store.place(), f"{store.NEW}left")
        os.mkdir(left)
        for path in (folder, left):
            os.utime(path, (0, 0))
        with store.new_folder("b"):
            assert not os.path.exists(left)
            assert os.path.exists(folder)
    assert store.names() == ["a", "b"]


def test_no_such_kernel():
    with pytest.raises(UnfitError, match=r"^no kernel a; those .* none yet$"):
        store.folder("a")
    make("b", "")
    with pytest.raises(UnfitError, match="those that are there: b"):
        store.folder("a")


@pytest.mark.parametrize(
    ("name", "to_use", "words"),
    [
        ("6.12", True, r" \(kpfs kernel make 6\.12\); those that are there: 6\.1"),
        ("6.6", True, r": did you mean 6\.1\? Those that are there: 6\.1"),
        ("6.6-cloud", True, r": did you mean .* \(kpfs kernel make 6\.1-cloud\)\? T.*"),
        (
            "6.99",
            True,
            r" \(kpfs kernel make 6\.99, if 'kpfs kernel list --available' has .*",
        ),
        ("24.04", True, r": did you mean ubuntu:24\.04 \(kpfs kernel make .*"),
        ("v6.1", True, r": did you mean 6\.1\? Those that are there: 6\.1"),
        ("v6.1", False, r": did you mean 6\.1\? Those that are there: 6\.1"),
        (
            "sid",
            True,
            r": did you mean debian:sid \(kpfs kernel make debian:sid\)\? T.*",
        ),
        ("sid", False, "; those that are there: 6.1"),
    ],
)
def test_what_a_missing_kernel_may_be(name, to_use, words):
    make("6.1", "")
    with pytest.raises(UnfitError, match=f"^no kernel {name}{words}$"):
        store.folder(name, to_use=to_use)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-a", "a b", "a\n"])
def test_what_is_no_name(name):
    with pytest.raises(UnfitError, match="no name for a kernel"):
        store.folder(name)


def test_those_used_least_lately_go_first(capsys):
    for name, used in (("a", 3_000), ("b", 1_000), ("c", 2_000)):
        make(name, "x" * (1 << 20))
        path = f"{store.folder(name)}/{image.META}"
        with open(path, "w"):
            os.utime(path, (time.time() - used, 0))
    assert [name for name, _ in store.by_use()] == ["b", "c", "a"]
    parser = ArgumentParser()
    kernel_command.add_arguments(parser)

    def prune(*words):
        kernel_command.main(parser.parse_args(["prune", *words]))
        return capsys.readouterr().out

    assert prune("--unused", "1", "--size", "3") == ""
    assert prune("--size", "2") == "a: 1 MiB\n"
    assert prune("--unused", "0") == "b: 1 MiB\nc: 1 MiB\n"
    with pytest.raises(SetupError, match="which ones"):
        prune()


def test_files_that_kernels_share_count_once(capsys):
    for name, used in (("a", 1_000), ("b", 2_000)):
        make(name, "x" * (1 << 20))
        if name == "b":
            os.link(f"{store.folder('a')}/shared", f"{store.folder('b')}/shared")
        else:
            with open(f"{store.folder('a')}/shared", "wb") as file:
                file.write(os.urandom(2 << 20))
        path = f"{store.folder(name)}/{image.META}"
        with open(path, "w"):
            os.utime(path, (time.time() - used, 0))
    assert [store.size(store.folder(name)) >> 20 for name in ("a", "b")] == [3, 3]
    parser = ArgumentParser()
    kernel_command.add_arguments(parser)
    for limit, removed in (("4", ""), ("3", "b: 1 MiB\n")):
        kernel_command.main(parser.parse_args(["prune", "--size", limit]))
        assert capsys.readouterr().out == removed


def test_list_names_broken_kernels():
    make("a", "")
    [(name, wrong)] = store.metas()
    assert name == "a"
    assert "no kernel of kpfs" in str(wrong)
    assert store.size(store.folder("a")) >= 0
