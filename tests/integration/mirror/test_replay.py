# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls of this process, made again in a guest.

This also tests kpfs.mirror.replayer, kpfs.mirror.plan, kpfs.mirror.kernel and
kpfs.backends.guest.mirror.
"""

import ctypes
import errno
import gc
import os
import struct
import subprocess
import threading

import pytest

from kpfs.backends.guest.marks import Marks
from kpfs.backends.guest.mirror import ATTEMPTS, BUSY, GuestMirror
from kpfs.backends.guest.tree import build
from kpfs.backends.guest.vfs import Vfs
from kpfs.base import syscall_numbers as nr
from kpfs.base.ktypes import Caller
from kpfs.mirror import calls as mirror_calls
from kpfs.mirror.host import Host
from kpfs.mirror.replayer import Replayer
from kpfs.mirror.seccomp import Notification
from tests.guest import come_to_rest, tasks_of

pytestmark = pytest.mark.guest

AT_FDCWD = 0xFFFFFF9C
ME = os.getpid
pointers: list[ctypes.Array[ctypes.c_char]] = []


def string(text):
    """The address of a string of this process."""
    pointers.append(ctypes.create_string_buffer(text))
    return ctypes.addressof(pointers[-1])


class Recording(GuestMirror):
    """Keeps what its calls gave."""

    def __init__(self, kernel, results):
        super().__init__(kernel, Host([]))
        self.results = results

    def call(self, task, plan, wait=False):
        ret = super().call(task, plan, wait)
        self.results.append(ret)
        return ret


class Mirrored:
    """Makes calls of this process in a guest."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.results: list[int] = []
        mirror = Recording(kernel, self.results)
        self.replayer = Replayer(mirror, mirror.host)

    def __call__(self, nr, *args, pid=None):
        """Return the call's result in the guest, None if it was not made there."""
        self.results.clear()
        words = (*args, 0, 0, 0, 0, 0, 0)[:6]
        self.replayer(Notification(1, pid or ME(), nr, words), lambda: True)
        return self.results[-1] if self.results else None

    def word(self, name):
        guest = self.kernel.guest
        return guest.read_u64(guest.kallsyms.lookup_name(name)[0].addr)

    def comm(self, pid):
        tasks = {task.pid: task.comm for task in tasks_of(self.kernel.guest)}
        return tasks.get(pid)


@pytest.fixture
def mirrored(kernel):
    yield (mirrored := Mirrored(kernel))
    mirrored.replayer.host.close()


class Twin:
    """A child with this process's memory, which opens a file when it is told to."""

    def __init__(self):
        read, self.go = os.pipe()
        self.answer, write = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(self.go)
            os.write(write, b"r")
            while os.read(read, 1):
                os.write(write, bytes([os.open("/", os.O_RDONLY)]))
            os._exit(0)
        os.close(read)
        os.close(write)
        os.read(self.answer, 1)

    def open(self):
        """The descriptor that it gets."""
        os.write(self.go, b"g")
        return os.read(self.answer, 1)[0]

    def end(self):
        os.close(self.go)
        os.close(self.answer)
        os.waitpid(self.pid, 0)


class TestReplay:
    def test_an_open_gets_the_number_that_the_host_gives(self, mirrored, tmp_path):
        there = string(os.fsencode(tmp_path))
        new = string(os.fsencode(tmp_path / "new"))
        twin = Twin()
        for args in (
            (257, AT_FDCWD, there, os.O_RDONLY),
            (2, there, os.O_RDONLY | os.O_DIRECTORY),
            (2, new, os.O_WRONLY | os.O_CREAT, 0o600),
            (85, new, 0o600),
            (32, 0),
        ):
            assert mirrored(*args, pid=twin.pid) == twin.open()
        twin.end()

    @pytest.mark.parametrize("closed", [True, False])
    def test_pending_close_is_waited_for(self, mirrored, monkeypatch, closed):
        """The wait ends once all earlier requests have been asked for."""
        replayer, kernel = mirrored.replayer, mirrored.kernel
        vfs, asked = Vfs(kernel, build(kernel)), []
        there, twin = string(b"/"), Twin()
        note = Notification(1, twin.pid, nr.DUP, (0,) * 6)
        plan = mirror_calls.plan_call(replayer.host, note)
        assert plan is not None
        number = plan.new_fds[0]
        me, name = Caller(twin.pid, 0, 0), "/tracing/trace_marker"
        opened = vfs.open(me, name, os.O_WRONLY)
        task = kernel.syscalls.task(me)
        fd = opened.fds[task.table]
        with kernel.lock:
            kernel.syscalls.call(task, "dup2", fd, number)
            kernel.syscalls.call(task, "close", fd)
        opened.fds[task.table] = number

        def come():
            asked.append(mirrored.results[-1])
            if closed:
                vfs.release(opened)

        monkeypatch.setattr(replayer.host, "await_mount", come)
        got = mirrored(2, there, os.O_RDONLY, pid=twin.pid)
        assert (got == number) is closed
        assert got >= 0
        assert asked == [BUSY] * (1 if closed else ATTEMPTS)
        if not closed:
            vfs.release(opened)
        twin.end()

    def test_what_is_not_there_is_not_there(self, mirrored, tmp_path):
        none = string(os.fsencode(tmp_path / "none"))
        for number in (2, 4, 6, 80, 84, 87):
            assert mirrored(number, none) == -errno.ENOENT
        assert mirrored(2, none, os.O_RDONLY | os.O_DIRECTORY) == -errno.ENOENT
        assert mirrored(83, string(b"/tmp"), 0o755) == -errno.EEXIST

    def test_a_bad_address_is_one_in_the_guest_too(self, mirrored):
        assert mirrored(2, 8, os.O_RDONLY) == -errno.EFAULT
        assert mirrored(4, 0, 0) == -errno.EFAULT

    def test_directories_and_files_are_told_apart(self, mirrored):
        assert mirrored(80, string(b"/etc")) == 0
        assert mirrored(80, string(b"/etc/passwd")) == -errno.ENOTDIR
        assert mirrored(2, string(b"/etc"), os.O_WRONLY) == -errno.EISDIR

    def test_the_working_directory_is_the_hosts(self, mirrored, tmp_path, monkeypatch):
        (tmp_path / "here").write_text("")
        monkeypatch.chdir(tmp_path)
        assert mirrored(4, string(b"here"), 0x1000) == 0
        assert mirrored(4, string(b"gone"), 0x1000) == -errno.ENOENT
        length = len(os.fsencode(tmp_path)) + 1
        assert mirrored(79, 0x1000, 4096) == length

    def test_paths_that_begin_at_a_descriptor(self, mirrored, tmp_path):
        (tmp_path / "here").write_text("")
        fd = os.open(tmp_path, os.O_RDONLY)
        assert mirrored(262, fd, string(b"here"), 0x1000, 0) == 0
        assert mirrored(262, fd, string(b"gone"), 0x1000, 0) == -errno.ENOENT
        assert mirrored(262, fd, string(b""), 0x1000, 0x1000) == 0
        os.close(fd)

    def test_a_read_gets_what_is_left(self, mirrored, tmp_path):
        (tmp_path / "f").write_bytes(b"x" * 1000)
        fd = os.open(tmp_path / "f", os.O_RDONLY)
        assert mirrored(0, fd, 0x1000, 4096) == 1000
        os.lseek(fd, 400, os.SEEK_SET)
        assert mirrored(0, fd, 0x1000, 4096) == 600
        assert mirrored(0, fd, 0x1000, 100) == 100
        assert mirrored(17, fd, 0x1000, 4096, 990) == 10
        assert mirrored(17, fd, 0x1000, 4096, 2000) == 0
        os.close(fd)

    def test_a_read_never_sleeps(self, mirrored, pipe):
        read, write = pipe
        assert mirrored(0, read, 0x1000, 50) == 50
        assert mirrored(1, write, string(b"data"), 4) == 4
        assert mirrored(1, write, string(b""), 1 << 20) == 1 << 20

    def test_a_mirrored_pipe_is_not_read_either(self, mirrored):
        twin = Twin()
        assert mirrored(22, 0x1000, pid=twin.pid) == 0
        read = twin.open()
        twin.open()
        assert mirrored(0, read, 0x1000, 50, pid=twin.pid) == 50
        assert mirrored(1, read + 1, 0x1000, 9, pid=twin.pid) == 9
        assert mirrored(3, read, pid=twin.pid) == 0
        assert mirrored(3, read + 1, pid=twin.pid) == 0
        twin.end()

    def test_vectors(self, mirrored):
        data = [(string(b"a" * 10), 10), (string(b"b" * 20), 20)]
        iov = (ctypes.c_uint64 * 4)(*[word for pair in data for word in pair])
        fd = os.open(os.devnull, os.O_RDWR)
        assert mirrored(20, fd, ctypes.addressof(iov), 2) == 30
        assert mirrored(19, fd, ctypes.addressof(iov), 2) == 30
        os.close(fd)

    def test_a_position_is_the_hosts(self, mirrored, tmp_path, pipe):
        (tmp_path / "f").write_bytes(b"x" * 1000)
        fd = os.open(tmp_path / "f", os.O_RDONLY)
        os.lseek(fd, 400, os.SEEK_SET)
        for offset, whence, expected in (
            (7, os.SEEK_SET, 7),
            (-100, os.SEEK_CUR, 300),
            (-100, os.SEEK_END, 900),
            (-500, os.SEEK_CUR, -errno.EINVAL),
            (10, os.SEEK_DATA, 10),
            (10, os.SEEK_HOLE, 1000),
            (1000, os.SEEK_DATA, -errno.ENXIO),
            (0, 9, -errno.EINVAL),
        ):
            assert mirrored(8, fd, offset & (1 << 64) - 1, whence) == expected
        os.close(fd)
        read, _ = pipe
        assert mirrored(0, read, 0x1000, 50) == 50
        assert mirrored(8, read, 0, os.SEEK_CUR) == -errno.ESPIPE

    def test_directories_are_read(self, mirrored):
        fd = os.open("/etc", os.O_RDONLY)
        passwd = os.open("/etc/passwd", os.O_RDONLY)
        for number in (78, 217):
            assert mirrored(number, fd, 0x1000, 4096) >= 0
            assert mirrored(number, passwd, 0x1000, 4096) == -errno.ENOTDIR
        assert mirrored(81, fd) == 0
        assert mirrored(81, passwd) == -errno.ENOTDIR
        os.close(fd)
        os.close(passwd)

    def test_links_owners_modes_and_times(self, mirrored, tmp_path):
        (tmp_path / "f").write_text("")
        (tmp_path / "l").symlink_to("gone")
        file, new, link, none = (
            string(os.fsencode(tmp_path / name)) for name in ("f", "new", "l", "none")
        )
        times = string(struct.pack("<4Q", 1, 2, 3, 4))
        fd, other = (os.open(tmp_path / "f", os.O_RDWR) for _ in range(2))
        follow, nofollow, empty = 0x400, 0x100, 0x1000
        gone, invalid = -errno.ENOENT, -errno.EINVAL
        for expected, *words in (
            (0, 265, AT_FDCWD, file, AT_FDCWD, new, 0),
            (-errno.EEXIST, 265, AT_FDCWD, file, AT_FDCWD, file, 0),
            (gone, 265, AT_FDCWD, none, AT_FDCWD, new, 0),
            (0, 265, AT_FDCWD, link, AT_FDCWD, new, 0),
            (gone, 265, AT_FDCWD, link, AT_FDCWD, new, follow),
            (invalid, 265, AT_FDCWD, file, AT_FDCWD, new, 1),
            (0, 91, fd, 0o600),
            (0, 93, fd, 0, 0),
            (0, 94, link, 0, 0),
            (gone, 92, link, 0, 0),
            (0, 260, AT_FDCWD, link, 0, 0, nofollow),
            (0, 260, fd, string(b""), 0, 0, empty),
            (gone, 260, fd, string(b""), 0, 0, 0),
            (0, 280, AT_FDCWD, file, times, 0),
            (0, 280, AT_FDCWD, link, 0, nofollow),
            (0, 280, other, 0, times, 0),
            (gone, 280, AT_FDCWD, none, 0, 0),
            (-errno.EBADF, 280, 900, 0, 0, 0),
            (0, 137, file, 0x1000),
            (gone, 137, none, 0x1000),
            (0, 138, fd, 0x1000),
            (0, 439, AT_FDCWD, file, os.R_OK, 0x200),
            (gone, 439, AT_FDCWD, link, os.R_OK, 0),
            (0, 439, AT_FDCWD, link, os.F_OK, nofollow),
            (77, 292, fd, 77, os.O_CLOEXEC),
            (invalid, 292, fd, fd, 0),
        ):
            assert mirrored(*words) == expected, words
        os.close(fd)
        os.close(other)

    def test_a_descriptor_that_is_not_open(self, mirrored):
        for number in (0, 1, 5, 8, 78, 81, 91, 93, 138, 217):
            assert mirrored(number, 900, 0x1000, 1) == -errno.EBADF
        for number in (0, 1, 3, 5, 33):
            assert mirrored(number, 0xFFFFFFFF, 0x1000, 1) == -errno.EBADF

    def test_a_write_is_planned_once(self, mirrored, monkeypatch):
        replayer, planned = mirrored.replayer, []
        plan_call = mirror_calls.plan_call

        def noted(*args):
            planned.append(args)
            return plan_call(*args)

        monkeypatch.setattr(mirror_calls, "plan_call", noted)
        fd = os.open(os.devnull, os.O_WRONLY)
        args = fd, string(b"x"), 1, 0, 0, 0
        for count in (1, 2):
            note = Notification(count, ME(), nr.WRITE, args)
            assert not replayer.may_wait(note)
            assert replayer(note, lambda: True) is None
            assert len(planned) == count
        assert mirrored(nr.WRITE, *args) == 1
        assert len(planned) == 3
        os.close(fd)

    def test_nothing_is_left_of_paths_and_files(self, mirrored, kernel, tmp_path):
        (tmp_path / "f").write_text("")
        path = string(os.fsencode(tmp_path / "f"))
        new = string(os.fsencode(tmp_path / "new"))

        folder = os.open(tmp_path, os.O_RDONLY)

        def everything():
            assert mirrored(3, mirrored(257, AT_FDCWD, path, os.O_RDONLY)) == 0
            assert mirrored(83, new, 0o755) == 0
            assert mirrored(88, path, new) == 0
            assert mirrored(86, path, new) == 0
            assert mirrored(265, AT_FDCWD, path, AT_FDCWD, new, 0) == 0
            assert mirrored(81, folder) == 0
            assert mirrored(217, folder, 0x1000, 4096) >= 0
            assert mirrored(280, folder, 0, 0, 0) == 0
            assert mirrored(82, path, new) == 0
            assert mirrored(82, new, path) == -errno.ENOENT
            assert mirrored(87, path) == 0
            assert mirrored(4, path, 0x1000) == 0

        def counters():
            return [mirrored.word(n) for n in ("nr_dentry", "nr_inodes", "nr_files")]

        gc.collect()  # closes files that other tests have left open
        for _ in range(2):  # files of /proc, which are ours too, get their numbers
            everything()
        come_to_rest(kernel)
        before = counters()
        for _ in range(30):
            everything()
        come_to_rest(kernel)
        assert counters() == before
        os.close(folder)

    def test_the_files_of_the_mount_are_duplicated_and_replaced(self, mirrored, kernel):
        """Their task gets the files themselves, not others in their place."""
        with kernel.lock:
            task = mirrored.replayer.kernel.tasks.task(ME())
            fd = kernel.syscalls.call(task, "openat", -100, "/etc/passwd", 0, 0)
            marks = Marks(kernel.guest)
            marks.mark(task, fd, 7)
        assert mirrored(0, fd, 0x1000, 7) is not None
        copy = mirrored(32, fd)
        with kernel.lock:
            assert sorted(marks.places(7)) == sorted([(ME(), fd), (ME(), copy)])
            assert kernel.syscalls.call(task, "read", copy, task.buffer, 4) == 4
        assert mirrored(33, 0, copy) == copy
        with kernel.lock:
            assert marks.places(7) == [(ME(), fd)]
            marks.unpin(7)
            assert kernel.syscalls.call(task, "read", copy, task.buffer, 4) == 0
            kernel.syscalls.call(task, "close", fd)
            assert marks.places(7) == []

    def test_a_new_process_is_forked_by_its_parent(self, mirrored, kernel):
        """Before its first call, with its number."""
        with kernel.lock:
            mine = mirrored.replayer.kernel.tasks.task(ME())
        twin = Twin()
        assert mirrored(110, pid=twin.pid) == ME()
        assert mirrored(39, pid=twin.pid) == twin.pid
        assert mirrored.comm(twin.pid) == mine.comm
        twin.end()

    def test_a_thread_is_made_by_its_process(self, mirrored):
        assert mirrored(39) == ME()
        release = threading.Event()
        thread = threading.Thread(target=release.wait)
        thread.start()
        assert mirrored(110, pid=thread.native_id) == ME()
        release.set()
        thread.join()

    def test_exec_names_the_task_and_exit_ends_it(self, mirrored, kernel):
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        assert mirrored(39, pid=child.pid) == child.pid
        vector = (ctypes.c_uint64 * 3)(string(b"sh"), string(b"-c"), 0)
        at = ctypes.addressof(vector)
        task = kernel.guest.requests.find(child.pid)
        # read from this process: its memory stands in for the child's
        host = mirrored.replayer.host
        note = Notification(1, ME(), nr.EXECVE, (0, at, at, 0, 0, 0))
        plan = mirror_calls.plan_call(
            host, note._replace(args=(string(b"/bin/sh"), *note.args[1:]))
        )
        with kernel.lock:
            assert mirrored.replayer.kernel.guest.call(task, plan) == 0
        assert mirrored.comm(child.pid) == "sh"
        mirrored(nr.EXIT_GROUP, 0, pid=child.pid)
        assert mirrored.comm(child.pid) is None
        child.communicate()

    def test_the_guest_has_all_these_calls(self, kernel):
        guest = kernel.guest
        table = guest.kallsyms.lookup_name("sys_call_table")[0].addr
        none = guest.kallsyms.lookup_name("__x64_sys_ni_syscall")[0].addr
        there = {n for n in mirror_calls.CALLS if guest.read_u64(table + 8 * n) != none}
        assert there == mirror_calls.GUEST_CALLS
