# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests that have their mounts, kept for later starts.

Tests kpfs.linux.inside.mounted, kpfs.linux.inside.rehearsal,
kpfs.linux.inside.read_ahead, kpfs.linux.inside.translate_ahead.
"""

import errno
import os
import sys
import time

import pytest

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.fuse_wire import Opcode
from kpfs.linux.inside import command, mounted, read_ahead, rehearsal, runnable, tree
from kpfs.linux.inside.files import LISTED, ReadRange
from kpfs.linux.inside.loop import Worker
from kpfs.linux.inside.read_ahead import ReadAhead
from kpfs.linux.inside.rehearsal import rehearse
from kpfs.linux.inside.translate_ahead import TranslateAhead, lesson
from kpfs.linux.running.machine import Op
from kpfs.linux.store import image, store
from kpfs.linux.store.kept import sources
from tests import harness

pytestmark = pytest.mark.kernel


@pytest.fixture
def folder(tmp_path):
    """The folder of a kernel for which nothing is kept yet."""
    made = store.folder(harness.KERNEL)
    for entry in os.scandir(made):
        if entry.name != mounted.FILE:
            (tmp_path / entry.name).symlink_to(entry.path)
    return str(tmp_path)


@pytest.fixture(scope="module")
def made():
    """The file of the mounts, as soon as a test has made it."""
    return []


@pytest.fixture
def ready(folder, made):
    """The folder of a kernel whose mounts are kept."""
    if not made:
        mounted.start(folder, quiet=False).loop.machine.close()
        made.append(kept(folder))
    with open(os.path.join(folder, mounted.FILE), "wb") as file:
        file.write(made[0])
    return folder


@pytest.fixture
def begin():
    made = []

    def start(folder):
        made.append(mounted.start(folder, quiet=False))
        return made[-1]

    yield start
    for guest in made:
        guest.loop.machine.close()


def opens(guest, path):
    """Return True if the guest can open a file of its tree."""
    name = os.fsencode(tree.NEW + path) + b"\0"
    fd, _ = guest.worker.attempt(Op(nr.OPEN, (name, os.O_RDONLY)), Op(nr.CLOSE, (3,)))
    return fd >= 0


def kept(folder):
    with open(os.path.join(folder, mounted.FILE), "rb") as file:
        return file.read()


def test_kept_mounts_are_used_and_made_alike(folder, begin):
    assert opens(begin(folder), "/etc/passwd")
    first = kept(folder)
    inode = os.stat(os.path.join(folder, mounted.FILE)).st_ino
    assert opens(begin(folder), "/etc/passwd")
    assert os.stat(os.path.join(folder, mounted.FILE)).st_ino == inode
    os.unlink(os.path.join(folder, mounted.FILE))
    begin(folder)
    assert kept(folder) == first


def test_it_belongs_to_all_that_had_a_part_in_it(folder, begin):
    begin(folder)
    ours = {
        os.path.realpath(str(module.__file__))
        for name, module in sys.modules.items()
        if name.startswith("kpfs.linux.")
    }
    assert ours <= set(map(os.path.realpath, sources()))


def test_it_is_known_whether_anybody_can_run(ready, begin):
    guest = begin(ready)
    board = guest.loop.machine.board
    counts = runnable.find(guest)
    assert len(counts) == 1
    guest.worker.attempt(Op(nr.GETPID))
    assert runnable.others(board, counts)  # the task just served is at its pause
    assert runnable.cpu_of_agent(guest) == -1
    guest.loop.settle()
    assert not runnable.others(board, counts)
    assert runnable.cpu_of_agent(guest) == 0


@pytest.mark.parametrize("at", [0, 40, -1])
def test_damaged_file_is_made_anew(ready, begin, at):
    whole = kept(ready)
    damaged = bytearray(whole)
    damaged[at] ^= 1
    with open(os.path.join(ready, mounted.FILE), "wb") as file:
        file.write(damaged)
    assert mounted.read(ready, image.read_meta(ready)) is None
    assert opens(begin(ready), "/etc/passwd")
    assert kept(ready) == whole


def test_a_folder_that_cannot_be_written_does(folder, begin, monkeypatch):
    def fail(*_arguments):
        raise PermissionError

    monkeypatch.setattr(os, "replace", fail)
    assert opens(begin(folder), "/etc/passwd")
    assert mounted.FILE not in os.listdir(folder)
    monkeypatch.undo()
    begin(folder)
    assert kept(folder)
    assert [name for name in os.listdir(folder) if name.startswith(".")] == []


def test_a_host_that_has_lost_the_time_and_has_any_name(ready, begin, monkeypatch):
    """Linux takes no time of day before its own uptime."""
    guest = begin(ready)
    for now in (0, 1, 4_102_444_800 * 10**9):
        monkeypatch.setattr(time, "time_ns", lambda n=now: n)
        command.set_clock(guest.loop.agent)
    for name in ("\udcff\udc80", "x" * 64, "\x1b"):
        command.set_hostname(guest.loop.agent, name)
    assert opens(guest, "/etc/passwd")


def test_a_rehearsal_leaves_nothing(ready, begin, monkeypatch):
    guest = begin(ready)
    free = len(guest.loop._free)
    forked = []
    fork = Worker.fork

    def noted(worker, name):
        forked.append(fork(worker, name))
        return forked[-1]

    monkeypatch.setattr(Worker, "fork", noted)
    for program in (b"/bin/true\0", b"/none\0"):
        monkeypatch.setattr(rehearsal, "_PROGRAM", program)
        rehearse(guest.loop, guest.worker)
    assert len(forked) == 2
    assert len(guest.loop._free) == free
    for worker in forked:
        killed = guest.loop.agent.attempt(Op(nr.KILL, (worker.pid, 0)))
        assert killed == [-errno.ESRCH]
    assert opens(guest, "/etc/passwd")
    assert guest.worker.call(Op(nr.OPEN, (b"/dev/null\0", 0))) == [3]


def test_code_is_translated_ahead(ready, begin):
    guest = begin(ready)
    board = guest.loop.machine.board
    rehearse(guest.loop, guest.worker)
    fd = lesson(board, 0)
    assert fd is not None
    rows = os.pread(fd, os.fstat(fd).st_size, 0)
    count = len(rows) // abi.Translation.SIZE
    assert count > 5_000
    assert lesson(board, board.translated) is None

    def translate(fd):
        board.flush()
        assert board.translated == 0
        ahead = TranslateAhead(board)
        ahead.add(fd)
        while ahead.pending:
            ahead.step()
        return board.translated

    other = os.memfd_create("other code")
    size, at = abi.Translation.SIZE, abi.Translation.sum
    changed = bytearray(rows)
    changed[at::size] = bytes(byte ^ 1 for byte in rows[at::size])
    os.write(other, changed)
    assert translate(other) == 0
    assert count * 0.9 < translate(fd) <= count
    rehearse(guest.loop, guest.worker)
    assert board.translated < count * 1.4
    assert opens(guest, "/etc/passwd")


@pytest.mark.parametrize(
    "kernel",
    harness.on_each(
        (
            *(harness.ARM64, harness.RISCV64, harness.S390X, harness.PPC64),
            harness.MIPS64,
        )
    ),
)
def test_code_of_other_architectures_is_translated_ahead(kernel, begin):
    """libunicorn takes rights and modes from the block's flags, or the processor's."""
    guest = begin(store.folder(kernel))
    board = guest.loop.machine.board
    rehearse(guest.loop, guest.worker)
    fd = lesson(board, 0)
    assert fd is not None
    board.flush()
    ahead = TranslateAhead(board)
    ahead.add(fd)
    while ahead.pending:
        ahead.step()
    count = board.translated
    assert count > 3_000
    rehearse(guest.loop, guest.worker)
    assert board.translated < count * 1.5
    # /bin/true is of this host, whatever the kernel runs
    assert "request_module" not in str([line.text for line in guest.dmesg()])


def test_a_directory_of_modules_is_listed_ahead(ready, begin):
    guest = begin(ready)
    release = image.read_meta(ready).release
    large = ReadRange(f"lib/modules/{release}/kernel/drivers/net/ethernet", 0, LISTED)
    noted = []
    for _ in range(2):
        ahead = ReadAhead(guest.loop, guest.worker)
        guest.served.package.reads = []
        ahead.add(read_ahead.lesson([large, ReadRange("lib/modules/none", 0, LISTED)]))
        while ahead.pending:
            ahead.step()
        noted.append(guest.served.package.reads)
    assert noted == [[large], []]


def test_files_of_a_listed_directory_are_known(ready, begin):
    guest = begin(ready)
    release = image.read_meta(ready).release
    path = f"lib/modules/{release}/kernel/net/netfilter"  # several requests long
    ahead = ReadAhead(guest.loop, guest.worker)
    ahead.add(read_ahead.lesson([ReadRange(path, 0, LISTED)]))
    while ahead.pending:
        ahead.step()
    guest.served.package._answers.pop(Opcode.LOOKUP)
    name = os.fsencode(f"{tree.PACKAGE}/{path}/xt_u32.ko") + b"\0"
    assert guest.worker.attempt(Op(nr.OPEN, (name, os.O_RDONLY)))[0] >= 0
