# SPDX-License-Identifier: GPL-2.0-or-later
"""Long texts that are kept are those that the guest itself makes.

Tests kpfs.linux.running.ready.
"""

import os

import pytest

from kpfs.base import syscall_numbers as nr
from kpfs.linux.running.files import MountedFile, OpenFiles
from kpfs.linux.running.machine import Op
from kpfs.linux.store import image
from tests import harness
from tests.integration.linux.conftest import Process

pytestmark = pytest.mark.kernel

KALLSYMS = "/proc/kallsyms"
FUNCTIONS = "/sys/kernel/tracing/available_filter_functions"
SIZE = 128 << 10
EVENTS = "/sys/kernel/tracing/kprobe_events"
SETUID, SETUID32 = 105, 213


class Reader:
    """Reads as a mount does, and counts the bytes that the guest has given."""

    def __init__(self, linux):
        self.linux = linux
        self.files = OpenFiles(linux)
        self.taken = 0

    def read(self, process, path, size=SIZE):
        opened = MountedFile(os.O_RDONLY, process.task, process.open(path))
        opened.ready = self.linux.ready.reader(path.encode())
        if opened.ready is None:
            pytest.skip("the kernel was made by an older kpfs")
        content = b""
        with self.linux.lock:
            while data := self.files.read(process.task, opened, size, len(content)):
                content += data
            self.taken = opened.pos
        process.call(Op(nr.CLOSE, (next(iter(opened.fds.values())),)))
        return content.decode()


@pytest.fixture
def reader(linux):
    return Reader(linux)


@pytest.mark.parametrize("path", [KALLSYMS, FUNCTIONS])
def test_the_same_bytes(reader, shell, path):
    own = shell.read(path)
    assert reader.read(shell, path) == own
    assert 0 < reader.taken < len(own) / 10
    assert reader.read(shell, path, 9_999) == own


def test_symbols_of_probes(reader, shell):
    before = reader.read(shell, KALLSYMS)
    shell.echo(EVENTS, "p:e vfs_read+5")
    after = reader.read(shell, KALLSYMS)
    assert "kprobe_insn_page" not in before
    assert "kprobe_insn_page\t[__builtin__kprobes]" in after
    assert after == shell.read(KALLSYMS)


@pytest.mark.parametrize(
    ("name", "point"),
    harness.on_each(((harness.ARMHF, "vfs_read+8"), (harness.I386, "vfs_read+5"))),
)
def test_symbols_of_kernels_of_32_bits(boot, name, point):
    linux = boot(name)
    reader, root, other = (
        Reader(linux),
        *(Process(linux, 4_000_001 + n) for n in (0, 1)),
    )
    assert other.call(Op(SETUID32, (1000,), native=True)).results == [0]
    hidden = reader.read(other, KALLSYMS)
    assert reader.taken < len(hidden) / 10
    assert hidden == other.read(KALLSYMS)
    assert hidden.startswith("00000000 ")
    assert "kprobe_insn_page" not in reader.read(root, KALLSYMS)
    root.echo(EVENTS, f"p:e {point}")
    shown = reader.read(root, KALLSYMS)
    assert "kprobe_insn_page\t[__builtin__kprobes]" in shown
    assert shown == root.read(KALLSYMS)


def test_addresses_are_hidden_from_users(reader, process):
    root, other = process(), process()
    assert other.call(Op(SETUID, (1000,))).results == [0]
    own = other.read(KALLSYMS)
    assert not own.strip("0").startswith("f")
    assert "\nffffffff" not in own
    assert reader.read(other, KALLSYMS) == own
    assert "\nffffffff" in reader.read(root, KALLSYMS)
    root.echo("/proc/sys/kernel/kptr_restrict", "2")
    assert reader.read(root, KALLSYMS) == own


def test_each_read_is_a_call_of_the_guest(reader, shell):
    hist = "/sys/kernel/tracing/kprobe_profile"

    def hits():
        return int(shell.read(hist).split()[1])

    shell.echo(EVENTS, "p:e vfs_read")
    reader.read(shell, FUNCTIONS)
    shell.echo("/sys/kernel/tracing/events/kprobes/e/enable", "1")
    before = hits()
    reader.read(shell, FUNCTIONS, 100_000)
    pieces = os.path.getsize(os.path.join(reader.linux.folder, image.FUNCTIONS)) / 1e5
    assert hits() - before > pieces
