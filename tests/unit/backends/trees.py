# SPDX-License-Identifier: GPL-2.0-or-later
"""A Tree of each kind, over a kernel that is not booted, with the same files."""

import os
from types import SimpleNamespace

import pytest

from kpfs.backends.guest.files.tree import build
from kpfs.backends.guest.tree import GuestTree
from kpfs.backends.linux.tree import LinuxTree, OwnFiles
from kpfs.linux.running.files import OpenFiles
from tests.there import stand_in
from tests.unit.backends.host_kernel import HOST_MACHINE, HostKernel
from tests.unit.fakes import FakeInfo, FakeKernel

KINDS = "guest", "linux"


def guest_tree(_folder):
    kernel = stand_in(FakeKernel())
    kernel.trace = SimpleNamespace(events=SimpleNamespace(group=lambda name: {}))
    kernel.start = lambda wake: None
    return GuestTree(kernel, build(kernel, FakeInfo(kernel.lock)))


def linux_tree(folder):
    if os.uname().machine != HOST_MACHINE:
        pytest.skip("other system calls")
    kprobes = folder / "sys/kernel/debug/kprobes"
    kprobes.mkdir(parents=True)
    (kprobes / "enabled").write_text("1\n")
    for name in ("list", "blacklist"):
        (kprobes / name).touch()
    kernel = stand_in(HostKernel(folder))
    own = OwnFiles(kernel, stand_in(FakeInfo(kernel.lock)))
    return LinuxTree(kernel, OpenFiles(kernel), own)


MAKE = {"guest": guest_tree, "linux": linux_tree}


def child(tree, folder, name):
    """The entry of a name, which may be missing."""
    return tree.entry(folder, name, tree.look_up(folder, name))
