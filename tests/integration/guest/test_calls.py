# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls of the guest at their edges, and that functions call one another.

The answers are those of Linux 6.1.
"""

import errno
import os

import pytest

from kpfs.base import abi
from kpfs.engine.kprobe import Kprobe
from kpfs.engine.register import register_kprobe
from tests.guest import tasks_of

pytestmark = pytest.mark.guest

MAX = 0x7FFF_FFFF_FFFF_FFFF
NOFILE = 4096  # the guest's RLIMIT_NOFILE
SEEK_SET, SEEK_CUR, SEEK_END = 0, 1, 2
F_DUPFD, F_GETFD, F_SETFD = 0, 1, 2
CLONE_VM, CLONE_FS, CLONE_PARENT, CLONE_THREAD = 0x100, 0x200, 0x8000, 0x10000
CLONE_SIGHAND, CLONE_NEWNS = 0x800, 0x20000
BAD_CLONES = (CLONE_THREAD, CLONE_THREAD | CLONE_VM, CLONE_SIGHAND)


class Caller:
    """Makes the system calls of one task: ``call.NAME(...)``."""

    def __init__(self, guest):
        self.guest = guest
        self.task = guest.host_tasks.of_process(1234, 0, comm="caller", parent=1)

    def __getattr__(self, name):
        return lambda *words: self.guest.syscalls.call(self.task, name, *words)


@pytest.fixture
def call(guest):
    return Caller(guest)


@pytest.fixture
def fd(call):
    return call.open("/tmp/file", os.O_RDWR | os.O_CREAT, 0o600)


def free_pages(guest):
    return guest.call(guest.kallsyms.lookup_name("nr_free_pages")[0].addr)


@pytest.mark.parametrize("new", [NOFILE, 1_000_000, 0x7FFF_FFFF, -1, 1 << 31])
def test_no_descriptor_beyond_the_limit(call, fd, new):
    assert call.dup2(fd, new) == -errno.EBADF
    assert call.fcntl(fd, F_DUPFD, new) == -errno.EINVAL


def test_the_last_descriptor(call, fd):
    assert call.dup2(fd, NOFILE - 1) == NOFILE - 1
    assert call.fcntl(fd, F_DUPFD, NOFILE - 1) == -errno.EMFILE
    assert call.close(NOFILE - 1) == 0
    assert call.fcntl(fd, F_DUPFD, NOFILE - 1) == NOFILE - 1


def test_a_duplicate_stays_open_over_exec(call, fd):
    other = call.dup(fd)
    call.fcntl(other, F_SETFD, 1)
    assert call.fcntl(other, F_GETFD) == 1
    assert call.dup2(fd, other) == other
    assert call.fcntl(other, F_GETFD) == 0


def test_offsets_at_the_end_of_all(call, fd):
    assert call.write(fd, b"abc", 3) == 3
    assert call.lseek(fd, MAX, SEEK_SET) == MAX
    assert call.lseek(fd, 1, SEEK_CUR) == -errno.EINVAL
    assert call.lseek(fd, MAX, SEEK_END) == -errno.EINVAL
    assert call.lseek(fd, -1, SEEK_SET) == -errno.EINVAL
    assert call.lseek(fd, 0, 9) == -errno.EINVAL
    assert call.write(fd, b"a", 1) == -errno.EINVAL
    assert call.read(fd, call.task.buffer, 10) == -errno.EINVAL
    for transfer in (call.pread64, call.pwrite64):
        assert transfer(fd, call.task.buffer, 10, MAX) == -errno.EINVAL
        assert transfer(fd, call.task.buffer, 10, -1) == -errno.EINVAL
        assert transfer(fd, call.task.buffer, -1, 0) == -errno.EFAULT
    assert call.pread64(fd, call.task.buffer, 10, 1 << 62) == 0


def test_sizes_at_the_end_of_all(call, fd):
    assert call.ftruncate(fd, MAX) == 0
    assert call.lseek(fd, 0, SEEK_END) == MAX
    assert call.ftruncate(fd, -1) == -errno.EINVAL
    assert call.ftruncate(fd, 3) == 0
    assert call.lseek(fd, 0, SEEK_END) == 3


def test_seeking_in_a_file_of_records_before_the_first_read(call):
    fd = call.open("/proc/mounts", os.O_RDONLY)
    assert call.lseek(fd, 5, SEEK_SET) == 5
    assert call.read(fd, call.task.buffer, 10) == 10
    assert call.lseek(fd, MAX, SEEK_SET) == MAX
    assert call.lseek(fd, 0, SEEK_END) == -errno.EINVAL


@pytest.mark.parametrize("size", [0, 1, 23])
def test_directory_entries_that_do_not_fit(call, size):
    fd = call.open("/", os.O_RDONLY | os.O_DIRECTORY)
    assert call.getdents64(fd, call.task.buffer, size) == -errno.EINVAL
    assert call.getdents64(fd, call.task.buffer, 24) == 24


def test_directory_entries_nowhere(call, fd):
    directory = call.open("/", os.O_RDONLY | os.O_DIRECTORY)
    assert call.getdents64(directory, 1, 4096) == -errno.EFAULT
    assert call.getdents64(fd, call.task.buffer, 24) == -errno.ENOTDIR


# ---- clone
@pytest.mark.parametrize("flags", [*BAD_CLONES, CLONE_NEWNS | CLONE_FS])
def test_clone_with_flags_that_do_not_fit(call, flags):
    assert call.clone(flags, 0, 0, 0, 0) == -errno.EINVAL


def test_clone3_with_a_structure_that_does_not_fit(call):
    assert call.clone3(call.task.buffer, 8) == -errno.EINVAL
    assert call.clone3(call.task.buffer, 5000) == -errno.E2BIG
    assert call.clone3(1, 88) == -errno.EFAULT


@pytest.mark.parametrize("stack", [0, 1, 0xFFFF_FFFF_8100_0000, 0x7FFF_0000])
def test_a_child_of_a_host_process_ends_at_once(guest, call, stack):
    """The child has no program to run: the given stack is not executed."""
    tasks, pages = len(tasks_of(guest)), free_pages(guest)
    for _ in range(600):  # more than there is room for
        assert call.clone(17, stack, 0, 0, 0) > 0
    assert call.fork() > 0
    assert len(tasks_of(guest)) == tasks
    assert not any("BUG" in r.text.decode() for r in guest.log.records())
    assert pages - free_pages(guest) < 16


def test_a_child_that_shares_its_directories(guest, call):
    """The first child's end must not free them."""
    for _ in range(5):
        assert call.clone(CLONE_FS | 17, 0, 0, 0, 0) > 0
    assert call.chdir("/tmp") == 0
    assert call.getcwd(call.task.buffer, 100) == 5
    assert call.umask(0o22) == 0o22
    assert guest.call(guest.kallsyms.lookup_name("validate_slab_caches")[0].addr) == 0


def test_a_named_child_serves_the_host(guest, call):
    buffer = call.task.buffer
    guest.write(buffer, b"name\0")
    args = abi.KpfsCloneArgs.STRUCT.pack(*[0] * 4, 17, *[0] * 6, buffer, 0, 0)
    pid = call.clone3(args, len(args))
    assert guest.task_table.find(pid)
    task = guest.requests.find(pid)
    assert guest.syscalls.call(task, "getpid") == pid
    assert task.comm == "name"


# ---- callers and callees
CALLS = {
    "ksys_read": lambda call, fd: call.read(fd, call.task.buffer, 1),
    "ksys_write": lambda call, fd: call.write(fd, b"a", 1),
    "ksys_lseek": lambda call, fd: call.lseek(fd, 0, 0),
    "close_fd": lambda call, fd: call.close(fd),
    "do_truncate": lambda call, fd: call.ftruncate(fd, 1),
    "do_sys_truncate": lambda call, _: call.truncate("/tmp/file", 1),
    "do_faccessat": lambda call, _: call.access("/tmp/file", 4),
    "do_unlinkat": lambda call, _: call.unlink("/tmp/none"),
    "do_rmdir": lambda call, _: call.rmdir("/tmp/none"),
    "vfs_fstatat": lambda call, _: call.stat("/tmp/file", call.task.buffer),
    "vfs_fsync_range": lambda call, fd: call.fsync(fd),
    "set_fs_pwd": lambda call, _: call.chdir("/tmp"),
    "ksys_sync": lambda call, _: call.sync(),
    "kill_pid_info": lambda call, _: call.kill(1, 0),
    "getname_flags": lambda call, _: call.access("/tmp", 0),
    "inode_permission": lambda call, _: call.access("/tmp", 0),
    "copy_thread": lambda call, _: call.fork(),
    "release_task": lambda call, _: call.fork(),
    "do_group_exit": lambda call, _: call.exit_group(0),
    "schedule": lambda call, _: call.sched_yield(),
}


@pytest.mark.parametrize("function", CALLS)
def test_a_real_call_where_linux_has_one(kernel, function):
    """A probe there sees it: the function is not merged into its caller."""
    call = Caller(kernel.guest)
    fd = call.open("/tmp/file", os.O_RDWR | os.O_CREAT, 0o600)
    hits = []
    probe = Kprobe(symbol_name=function, pre_handler=lambda p, _regs: hits.append(p))
    register_kprobe(kernel.state, probe)
    CALLS[function](call, fd)
    assert hits
