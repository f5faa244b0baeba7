# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels in the trees that they were built in."""

import os

import pytest

from kpfs.linux.errors import UnfitError
from kpfs.linux.package import packages, tree

CONFIG = "CONFIG_X86_64=y\nCONFIG_MODULES=y\n"
FILES = {
    ".config": CONFIG,
    "arch/x86/boot/bzImage": "kernel",
    "modules.order": "fs/fat/fat.ko\nkernel/trace/sample.ko\n",
    "modules.builtin": "fs/ext4/ext4.ko\n",
    "modules.builtin.modinfo": "ext4.license=GPL",
    "fs/fat/fat.ko": "fat",
    "kernel/trace/sample.ko": "sample",
    "fs/old/left_from_an_earlier_build.ko": "old",
}


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_nobody_writes_is_not_waited_for(tmp_path, name):
    write(tmp_path, FILES)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    if not name.startswith("fs/old"):
        with pytest.raises(UnfitError, match=f"{name}: it is no ordinary file"):
            tree.read_tree(str(tmp_path))
    if packages.is_module_file(os.path.basename(name)):
        with pytest.raises(OSError, match="no ordinary file"):
            packages.read_folder(str(tmp_path))


def test_modules_are_where_they_would_be_installed(tmp_path):
    write(tmp_path, FILES)
    found = tree.read_tree(str(tmp_path))
    modules = {
        "kernel/fs/fat/fat.ko": b"fat",
        "kernel/kernel/trace/sample.ko": b"sample",
        "modules.order": b"kernel/fs/fat/fat.ko\nkernel/kernel/trace/sample.ko\n",
        "modules.builtin": b"kernel/fs/ext4/ext4.ko\n",
        "modules.builtin.modinfo": b"ext4.license=GPL",
    }
    assert found == packages.KernelFiles(b"kernel", CONFIG, modules, str(tmp_path))
    # since 6.3
    write(tmp_path, {"modules.order": FILES["modules.order"].replace(".ko", ".o")})
    assert tree.read_tree(str(tmp_path)) == found


def test_a_kernel_without_modules_for_arm64(tmp_path):
    files = {".config": "CONFIG_ARM64=y\n", "arch/arm64/boot/Image": "kernel"}
    write(tmp_path, files)
    found = tree.read_tree(str(tmp_path))
    assert (found.vmlinuz, found.modules) == (b"kernel", {})


@pytest.mark.parametrize(
    ("missing", "why"),
    [
        (".config", r"\.config: No such file"),
        ("arch/x86/boot/bzImage", "bzImage: No such file"),
        ("fs/fat/fat.ko", "fat.ko: No such file"),
    ],
)
def test_a_tree_that_is_not_built(tmp_path, missing, why):
    write(tmp_path, {name: text for name, text in FILES.items() if name != missing})
    with pytest.raises(UnfitError, match=why):
        tree.read_tree(str(tmp_path))


def test_a_kernel_for_another_architecture(tmp_path):
    write(tmp_path, {".config": "CONFIG_S390=y\n"})
    with pytest.raises(UnfitError, match="no kernel for X86_64, ARM64, RISCV"):
        tree.read_tree(str(tmp_path))
