# SPDX-License-Identifier: GPL-2.0-or-later
"""Another command is named where one cannot work."""

import errno
import os

import pytest

from kpfs.host import instead, mounts, namespaces
from kpfs.linux.store import store

INSIDE = "'kpfs run --kernel 6.12 --inside'"
BOTH = f"{INSIDE} and 'kpfs matrix' do without"


@pytest.fixture(autouse=True)
def made(monkeypatch):
    """The names of the kernels that were made, a list to change."""
    names = ["5.10", "6.12"]
    monkeypatch.setattr(store, "names", lambda: names)
    return names


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["5.10", "6.12"], "6.12"),
        (["5.10"], "5.10"),
        ([], "6.12 --make"),
        (["6.12-arm64", "6.1-cloud"], "6.1-cloud"),
        (["6.12-arm64", "6.12-riscv64"], "6.12 --make"),
    ],
)
def test_the_kernel_is_one_that_is_there(made, names, words):
    made[:] = names
    assert instead.inside() == f"'kpfs run --kernel {words} --inside'"


def test_the_other_command_is_named_if_it_works(monkeypatch):
    monkeypatch.setattr(mounts, "FUSE_DEVICE", os.devnull)
    monkeypatch.setattr(instead, "can_mount", lambda: True)
    assert instead.of_run() == f"'kpfs mount' and {INSIDE} do without"
    assert instead.of_mount(namespaces=True) == f"'kpfs run' and {INSIDE} do without"
    assert instead.of_mount(namespaces=False) == BOTH
    monkeypatch.setattr(instead, "can_mount", lambda: False)
    assert instead.of_run() == BOTH
    monkeypatch.setattr(mounts, "FUSE_DEVICE", "/none")
    assert instead.of_mount(namespaces=True) == instead.of_both() == BOTH


@pytest.mark.parametrize(("error", "can"), [(errno.EPERM, False), (errno.ENODEV, True)])
def test_root_may_lack_the_right_to_mount(monkeypatch, error, can):
    def mount(*_):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(mounts, "FUSE_DEVICE", os.devnull)
    monkeypatch.setattr(mounts, "mount", mount)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert instead.can_mount() == can


def test_an_ordinary_user_needs_a_helper(monkeypatch, tmp_path):
    monkeypatch.setattr(mounts, "FUSE_DEVICE", os.devnull)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(instead, "MTAB", str(tmp_path))
    monkeypatch.setattr(mounts, "fusermount", lambda: "")
    assert not instead.can_mount()
    monkeypatch.setattr(mounts, "fusermount", lambda: "/bin/fusermount")
    assert instead.can_mount()
    monkeypatch.setattr(instead, "MTAB", str(tmp_path / "none"))
    assert not instead.can_mount()


@pytest.mark.parametrize("answer", [None, OSError(errno.EPERM, "no")])
def test_namespaces_are_tried_in_another_process(monkeypatch, answer):
    def enter():
        if answer:
            raise answer

    monkeypatch.setattr(namespaces, "enter_namespaces", enter)
    assert namespaces.can_be_made() == (answer is None)
