# SPDX-License-Identifier: GPL-2.0-or-later
"""Messages about a kernel before it is booted."""

from types import SimpleNamespace

import pytest

from kpfs.linux.arch.arches import ARCHES
from kpfs.linux.errors import UnfitError
from kpfs.linux.make import make
from kpfs.linux.package import packages
from kpfs.linux.store import image


def test_a_kernel_without_symbols_of_kprobes_is_refused():
    text = "1 T register_kprobe\n1 T tracing_open_generic\n"
    with pytest.raises(UnfitError, match=r"built without KPROBE_EVENTS$"):
        make.check_symbols(text.encode())
    with pytest.raises(UnfitError, match="built without KALLSYMS"):
        make.check_symbols(b"")
    make.check_symbols((text + "1 t trace_kprobe_create\n").encode())


def test_memory_has_limits(monkeypatch):
    kernel = SimpleNamespace(arch=ARCHES["x86"])
    monkeypatch.setattr(make, "parse", lambda _image: kernel)
    with pytest.raises(UnfitError, match="memory: "):
        make.make("a", packages.KernelFiles(b"", "", {}), memory=1)


def test_an_image_with_parameters_shares_the_modules(tmp_path):
    archive, folder = tmp_path / "archive", tmp_path / "folder"
    archive.write_bytes(b"modules")
    folder.mkdir()
    files = packages.KernelFiles(b"", "", {"a.ko": b""})
    with make._packing(files, str(folder), "6.1", str(archive)):
        pass
    assert (folder / image.MODULES).samefile(archive)
