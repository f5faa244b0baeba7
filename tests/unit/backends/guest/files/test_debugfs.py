# SPDX-License-Identifier: GPL-2.0-or-later
"""debug/ of the mount: what is shown of a module's entries."""

import stat

import pytest

from kpfs.backends.guest.files.debugfs import DebugfsDir, DebugfsFile
from kpfs.backends.guest.root.debugfs import DebugfsEntry
from tests.there import code, stand_in, there
from tests.unit.fakes import FakeKernel


@pytest.fixture
def kernel():
    """A kernel where one module has a directory with a file in it."""
    kernel = FakeKernel()
    root = kernel.debugfs.root
    mine = root.children["mine"] = DebugfsEntry("mine", stat.S_IFDIR | 0o755, root)
    mine.children["hits"] = DebugfsEntry("hits", stat.S_IFREG | 0o444, mine)
    return kernel


def test_names_types_and_modes(kernel):
    root = DebugfsDir(stand_in(kernel))
    assert list(root.names()) == ["mine"]
    assert root.type_of("mine") == stat.S_IFDIR
    mine = there(root.lookup("mine"))
    assert isinstance(mine, DebugfsDir)
    assert mine.mode == stat.S_IFDIR | 0o755
    assert mine.type_of("hits") == stat.S_IFREG
    hits = there(mine.lookup("hits"))
    assert isinstance(hits, DebugfsFile)
    assert hits.mode == stat.S_IFREG | 0o444
    assert mine.lookup("hits") is hits
    assert mine.lookup("misses") is None


def test_removed_entry(kernel):
    root = DebugfsDir(stand_in(kernel))
    first = there(root.lookup("mine"))
    entry = kernel.debugfs.root.children.pop("mine")
    assert root.lookup("mine") is None
    assert list(root.names()) == []
    kernel.debugfs.root.children["mine"] = DebugfsEntry("mine", entry.mode, None)
    assert root.lookup("mine") is not first


def test_a_file_that_the_guest_has_not(kernel):
    file = DebugfsFile(stand_in(kernel), DebugfsEntry("hits", stat.S_IFREG, None))
    assert code(file.open, 0) == "ENOENT"
