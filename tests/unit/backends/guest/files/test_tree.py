# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of files: paths as Linux has them; recorded cases have the modes."""

import stat

import pytest

from kpfs.backends.guest.files.tree import TABLE
from kpfs.backends.guest.tree import build
from kpfs.backends.guest.vfs import linux_path, mount_path
from kpfs.config import Config
from kpfs.fs.node import Dir, File, walk
from tests.there import stand_in
from tests.unit.fakes import FakeKernel


@pytest.fixture(scope="module")
def root():
    return build(stand_in(FakeKernel()))


def test_every_row_is_there_and_of_its_kind(root):
    absent = Config().absent()
    for path, mode, _ in TABLE:
        if path in absent:
            continue
        node = walk(root, path)
        assert isinstance(node, Dir if stat.S_ISDIR(mode) else File), path
        assert node.size == 0


def test_sysctl_has_the_block_size_of_procfs(root):
    assert walk(root, "/sys/debug/kprobes-optimization").blksize == 1024
    assert walk(root, "/kprobes/enabled").blksize == 4096


@pytest.mark.parametrize(
    ("path", "linux"),
    [
        ("/kprobes/list", "/sys/kernel/debug/kprobes/list"),
        ("/sys/debug/kprobes-optimization", "/proc/sys/debug/kprobes-optimization"),
        ("/tracing/events/kprobes/e/id", "/sys/kernel/tracing/events/kprobes/e/id"),
        ("/kallsyms", "/proc/kallsyms"),
        ("/kmsg", "/proc/kmsg"),
        ("/machine/syscall", "/sys/kernel/debug/kpfs/machine/syscall"),
        ("/", "/"),
    ],
)
def test_linux_path(path, linux):
    assert linux_path(path) == linux
    assert mount_path(linux).rstrip("/") == path.rstrip("/")
