# SPDX-License-Identifier: GPL-2.0-or-later
"""The ELF file of a kernel, with tables that are kept beside the image."""

import os

import pytest

from kpfs.base.elf import ElfFile
from kpfs.linux.memory.vmlinux import Vmlinux
from kpfs.linux.running.saved_kernel import TABLES, SavedKernel
from kpfs.linux.store import store
from tests import harness

pytestmark = pytest.mark.kernel


@pytest.fixture
def folder(tmp_path):
    """The folder of a kernel for which no tables are kept yet."""
    for entry in os.scandir(store.folder(harness.KERNEL)):
        if entry.name != TABLES:
            (tmp_path / entry.name).symlink_to(entry.path)
    return str(tmp_path)


def fail(_self):
    raise AssertionError


def test_tables_are_made_once(folder, monkeypatch):
    saved = SavedKernel(folder)  # keeps its file open
    whole, symbols = saved.vmlinux.content(), saved.vmlinux.for_debugger()
    assert len(whole) == saved.vmlinux.size
    monkeypatch.setattr(Vmlinux, "_rows", fail)
    monkeypatch.setattr(Vmlinux, "_frames", fail)
    other = SavedKernel(folder)
    assert other.vmlinux.size == len(whole)
    assert other.vmlinux.content() == whole
    assert other.vmlinux.for_debugger() == symbols


def test_a_debugger_gets_no_memory(folder):
    saved = SavedKernel(folder)
    whole = ElfFile(saved.vmlinux.content())
    symbols = ElfFile(saved.vmlinux.for_debugger())
    assert symbols.addresses() == whole.addresses()
    for name in (".text", ".debug_frame"):
        there, here = whole.section(name), symbols.section(name)
        assert there
        assert here
        assert (here.addr, here.size) == (there.addr, there.size)
    starts = {each.offset for each in symbols.sections if each.size}
    assert len(starts) == 4  # call frames, symbols, and two tables of names
