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


OUTSIDE = (
    "../secret", "/etc/passwd", "fs/../../secret", "fs/out/secret", "fs/out.ko", "..",
    "fs/fat/../../../tree/../secret",
)  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_nothing_is_read_outside_of_a_tree(tmp_path, name):
    folder = tmp_path / "tree"
    (tmp_path / "secret").write_text("mine")
    write(folder, {**FILES, "modules.order": f"fs/fat/fat.ko\n{name}\n"})
    (folder / "fs/out").symlink_to(tmp_path)
    (folder / "fs/out.ko").symlink_to(tmp_path / "secret")
    with pytest.raises(UnfitError, match="it leads out of the tree"):
        tree.read_tree(str(folder))


def test_links_within_a_tree_and_to_it_are_followed(tmp_path):
    write(tmp_path / "tree", FILES)
    (tmp_path / "tree/fs/fat/fat.ko").rename(tmp_path / "tree/fs/real.ko")
    (tmp_path / "tree/fs/fat/fat.ko").symlink_to("../real.ko")
    (tmp_path / "link").symlink_to("tree")
    assert tree.read_tree(str(tmp_path / "link")).modules["kernel/fs/fat/fat.ko"]


@pytest.mark.parametrize(
    "name", ["\udcff.ko", "\0.ko", "\x1b.ko", "x" * 300, "\u2028.ko"]
)
def test_odd_names_of_modules(tmp_path, name):
    write(tmp_path, FILES)
    (tmp_path / "modules.order").write_bytes(os.fsencode(name))
    with pytest.raises(UnfitError, match=r"No such file|embedded null|too long"):
        tree.read_tree(str(tmp_path))


def test_a_file_without_an_end(tmp_path, monkeypatch):
    write(tmp_path, FILES)
    for module in (packages, tree):
        monkeypatch.setattr(module, "MAX_UNPACKED", 1000)
    for name in ("arch/x86/boot/bzImage", "fs/fat/fat.ko"):
        os.truncate(tmp_path / name, 1 << 40)
        with pytest.raises(UnfitError, match="more than any kernel"):
            tree.read_tree(str(tmp_path))
        os.truncate(tmp_path / name, 10)
    os.truncate(tmp_path / "fs/fat/fat.ko", 1 << 40)
    with pytest.raises(UnfitError, match="more than any kernel"):
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
